package pki_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"regiond.dev/regiond/bootstrap/pki"
)

func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	p := load(t, filepath.Join(dir, "pki"), &clock{start})
	pair, err := p.Cluster.Issue("admin", pki.Request{CN: "admin", Usages: pki.Client})
	if err != nil {
		t.Fatal(err)
	}
	for _, embed := range []bool{true, false} {
		path := filepath.Join(dir, "kubeconfig")
		err := p.Cluster.WriteKubeconfig(path, pki.Kubeconfig{Server: "https://10.0.0.1:6443", Cluster: "regiond", User: "admin", Pair: pair, Embed: embed})
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v %v", info.Mode(), err)
		}
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		if config.Host != "https://10.0.0.1:6443" || !bytes.Equal(config.CAData, p.Cluster.CertificatePEM()) {
			t.Errorf("host %s", config.Host)
		}
		if got := len(config.CertData) > 0; got != embed || (config.CertFile == pair.CertFile) == embed {
			t.Errorf("embed %t: data %t, file %q", embed, got, config.CertFile)
		}
	}
}
