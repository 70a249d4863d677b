package config_test

import (
	"bytes"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/pki"
)

var update = flag.Bool("update", false, "write the golden files")

// hosts are the kinds of hosts with different configuration.
var hosts = map[string]config.Host{
	"systemd":  {CgroupV2: true, Systemd: true, LowerOOMScore: true, CgroupRoot: "/"},
	"cgroupv1": {CgroupRoot: "/regiond-0a1b2c3d"},
}

// node returns a node with fixed paths: the PKI is in a temporary folder, whose name is replaced in
// the output.
func node(t *testing.T, host config.Host) (config.Node, string) {
	t.Helper()
	dir := t.TempDir()
	p, err := pki.Load(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	pair := func(name string) pki.Pair {
		return pki.Pair{CertFile: filepath.Join(dir, "pki", name+".crt"), KeyFile: filepath.Join(dir, "pki", name+".key")}
	}
	return config.Node{
		ID:           "0a1b2c3d",
		Name:         "seed",
		Address:      netip.MustParseAddr("10.30.0.5"),
		PodCIDR:      netip.MustParsePrefix("10.42.0.0/16"),
		NodePodCIDR:  netip.MustParsePrefix("10.42.0.0/24"),
		ServiceCIDR:  netip.MustParsePrefix("10.43.0.0/16"),
		DataDir:      dir,
		PayloadDir:   filepath.Join(dir, "bin", "0123456789abcdef"),
		SandboxImage: "regiond.local/pause:1",
		PKI:          p,
		Host:         host,
		Certificates: config.Certificates{
			EtcdServer: pair("etcd/server"), EtcdPeer: pair("etcd/peer"), EtcdClient: pair("etcd/kube-apiserver-client"),
			APIServer: pair("kube-apiserver"), APIServerKubelet: pair("kube-apiserver-kubelet-client"), FrontProxy: pair("front-proxy/client"),
			ControllerManager: pair("kube-controller-manager"), Scheduler: pair("kube-scheduler"), Kubelet: pair("kubelet"),
			KubeletClient: pair("kubelet-client"), Proxy: pair("kube-proxy"), Admin: pair("admin"),
		},
	}, dir
}

func golden(t *testing.T, name, dir string, got []byte) {
	t.Helper()
	got = bytes.ReplaceAll(got, []byte(dir), []byte("/var/lib/regiond"))
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s\n(go test -update rewrites it)", path, got, want)
	}
}

func TestArguments(t *testing.T) {
	n, dir := node(t, hosts["systemd"])
	for _, args := range [][]string{n.Containerd(), n.Etcd(), n.APIServer(), n.ControllerManager(), n.Scheduler(), n.Kubelet(), n.Proxy()} {
		golden(t, args[0]+".args", dir, []byte(strings.Join(args, "\n")+"\n"))
	}
}

func TestFiles(t *testing.T) {
	for name, host := range hosts {
		t.Run(name, func(t *testing.T) {
			n, dir := node(t, host)
			files, err := n.Files()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				golden(t, name+"-"+filepath.Base(f.Path), dir, f.Content)
			}
			golden(t, "masquerade.nft", dir, []byte(n.Masquerade()))
		})
	}
}

func TestEncryption(t *testing.T) {
	content, err := config.Encryption("c2VjcmV0LWtleS1vZi0zMi1ieXRlcy1pcy1oZXJlISE=")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "encryption.yaml", "?", content)
}

// Arguments, which every user of the host can read, contain no secrets.
func TestArgumentsHaveNoSecrets(t *testing.T) {
	n, _ := node(t, hosts["systemd"])
	for _, args := range [][]string{n.Etcd(), n.APIServer(), n.ControllerManager(), n.Kubelet()} {
		for _, a := range args {
			if strings.Contains(a, "PRIVATE") || strings.Contains(a, "token=") || strings.Contains(a, "password") {
				t.Errorf("%s", a)
			}
		}
	}
}

func TestFirstNodePodCIDR(t *testing.T) {
	for _, c := range []struct{ cluster, want string }{
		{"10.42.0.0/16", "10.42.0.0/24"},
		{"10.42.7.9/16", "10.42.0.0/24"},
		{"10.42.5.0/24", "10.42.5.0/24"},
		{"10.42.5.0/25", ""},
		{"fd00:42::/48", "fd00:42::/64"},
	} {
		got, err := config.FirstNodePodCIDR(netip.MustParsePrefix(c.cluster))
		if c.want == "" {
			if err == nil || !strings.Contains(err.Error(), c.cluster) {
				t.Errorf("%s: %v, %v", c.cluster, got, err)
			}
			continue
		}
		if err != nil || got.String() != c.want {
			t.Errorf("%s: %s, %v; want %s", c.cluster, got, err, c.want)
		}
	}
}

func TestServiceAddresses(t *testing.T) {
	services := netip.MustParsePrefix("10.43.0.0/16")
	if a, b := config.KubernetesIP(services).String(), config.DNSIP(services).String(); a != "10.43.0.1" || b != "10.43.0.10" {
		t.Errorf("%s %s", a, b)
	}
}

func TestURLOfIPv6(t *testing.T) {
	if got := (config.Node{Address: netip.MustParseAddr("fd00::5")}).URL(); got != "https://[fd00::5]:6443" {
		t.Error(got)
	}
}
