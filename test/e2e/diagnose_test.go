//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/test/lab"
)

// assertBundle: a support bundle has status, objects and logs, and none of the region's secrets.
func assertBundle(l *Lab) {
	var stderr bytes.Buffer
	c := l.command("lab", "exec", "--lab", l.name, "--", "regiond", "diagnose", "-")
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		l.Fatalf("diagnose: %v: %s", err, stderr.String())
	}
	files := unpack(l, out)
	for _, name := range []string{"status.txt", "status.json", "daemon.json", "manifest.json", "objects/openstackcluster.yaml", "objects/pod.yaml",
		"objects/secret-names.yaml", "logs/regiond.log", "logs/kube-apiserver.log", "host/ip-address.txt"} {
		if len(files[name]) == 0 {
			l.Errorf("got no %s, want it in the bundle; %s", name, stderr.String())
		}
	}
	pods := 0
	for name := range files {
		if strings.HasPrefix(name, "logs/pods/openstack-lab_nova") {
			pods++
		}
	}
	if pods < 4 {
		l.Errorf("got %d logs of Nova's pods, want at least 4", pods)
	}
	if pod := string(files["objects/pod.yaml"]); !strings.Contains(pod, "registry.regiond.dev/openstack/epoxy/keystone@sha256:") {
		l.Errorf("got no image of Keystone in objects/pod.yaml, want names left as they are: %.2000s", pod)
	}
	secrets := l.secrets()
	if len(secrets) < 20 {
		l.Fatalf("got %d secrets of the region, want at least 20: nothing is proved", len(secrets))
	}
	for name, text := range files {
		for of, secret := range secrets {
			for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
				if bytes.Contains(text, []byte(form)) {
					l.Errorf("%s has the secret %s", name, of)
				}
			}
		}
	}
}

func unpack(l *Lab, archive []byte) map[string][]byte {
	l.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		l.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			l.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			l.Fatal(err)
		}
		files[strings.TrimPrefix(h.Name, "regiond-diagnose/")] = content
	}
}

// secrets of the region by where they are: OpenStack's passwords and keys, the BMCs' passwords, and the private keys on the disk.
func (l *Lab) secrets() map[string]string {
	l.Helper()
	all := map[string]string{}
	for _, s := range decode[corev1.SecretList](l, l.Kubectl("get", "secrets", "--all-namespaces", "-o", "json")).Items {
		for key, value := range s.Data {
			where := s.Namespace + "/" + s.Name + "/" + key
			switch {
			case s.Name == openstack.SecretName && key == openstack.SecretKey:
				var tree map[string]any
				if err := json.Unmarshal(value, &tree); err != nil {
					l.Fatal(err)
				}
				maps.Copy(all, flat(where, tree))
			case key == "password" || key == "token":
				all[where] = string(value)
			}
		}
	}
	keys, err := filepath.Glob(datadir.PKI.In(filepath.Join(lab.DefaultRoot, l.name, "seed"), "*.key"))
	if err != nil || len(keys) == 0 {
		l.Fatalf("no private keys: %v", err)
	}
	for _, file := range keys {
		text, err := os.ReadFile(file)
		if err != nil {
			l.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); len(line) > 40 && !strings.HasPrefix(line, "-----") {
				all[file] = line
			}
		}
	}
	return all
}

// flat are the strings of a tree by their paths. Short ones are names, not secrets.
func flat(path string, tree any) map[string]string {
	out := map[string]string{}
	switch t := tree.(type) {
	case string:
		if len(t) >= 12 {
			out[path] = t
		}
	case []any:
		for i, v := range t {
			maps.Copy(out, flat(fmt.Sprintf("%s[%d]", path, i), v))
		}
	case map[string]any:
		for key, v := range t {
			maps.Copy(out, flat(path+"."+key, v))
		}
	}
	return out
}
