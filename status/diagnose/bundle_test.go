package diagnose_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/scheme"
	"regiond.dev/regiond/status/diagnose"
)

const password = `nova<pass>"word`

// dataDir has logs that quote the password.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"log/regiond.log":                          "started\nlogin with " + password + " failed\n",
		"log/pods/openstack_nova-0_uid/nova/0.log": "connection as " + base64.StdEncoding.EncodeToString([]byte(password)) + "\n",
		"log/pods/openstack_nova-0_uid/nova/other": "not a log",
		"pki/ca.key":       "-----BEGIN PRIVATE KEY-----\n",
		"log/one-line.log": strings.Repeat("x", 3<<20) + password[1:],
		"log/long.log":     strings.Repeat("x", 3<<20) + "\nthe end\n",
		"openstack/lab/mariadb/data/users-password": password,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// write a bundle and unpack it.
func write(t *testing.T, dir string, api client.Client) (diagnose.Manifest, map[string]string) {
	t.Helper()
	var out bytes.Buffer
	m, err := diagnose.Write(t.Context(), &out, diagnose.Config{DataDir: dir, Version: "v1", Host: "seed", API: api, Report: func(string) {},
		Now: func() time.Time { return time.Date(2026, 12, 1, 16, 0, 0, 0, time.UTC) },
		Run: func(_ context.Context, name string, args ...string) ([]byte, error) {
			if name == "dmesg" {
				return nil, errors.New("Operation not permitted")
			}
			return fmt.Appendln(nil, name, args, password), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return m, files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(h.Name, "regiond-diagnose/")] = string(content)
	}
}

func missing(m diagnose.Manifest, what string) string {
	for _, x := range m.Missing {
		if x.What == what {
			return x.Why
		}
	}
	return ""
}

func TestBundle(t *testing.T) {
	tree, err := json.Marshal(map[string]any{"nova": map[string]any{"password": password}})
	if err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "openstack-lab", Name: "openstack-secrets"}, Data: map[string][]byte{"secrets.json": tree}},
		&region.Region{ObjectMeta: metav1.ObjectMeta{Name: "north-1", Annotations: map[string]string{"note": "it is " + password}}},
	).Build()
	m, files := write(t, dataDir(t), api)
	for name, want := range map[string]string{
		"status.txt":                                "regiond is not running",
		"logs/regiond.log":                          "started\nlogin with [removed] failed\n",
		"logs/long.log":                             "the end\n",
		"objects/region.yaml":                       "note: it is [removed]",
		"objects/secret-names.yaml":                 "name: openstack-secrets",
		"host/processes.txt":                        "comm] [removed]",
		"host/proc/meminfo":                         "MemTotal",
		"data-directory.txt":                        " pki\n",
		"logs/pods/openstack_nova-0_uid/nova/0.log": "connection as [removed]\n",
		"manifest.json":                             `"host": "seed"`,
	} {
		if got := files[name]; !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", name, got, want)
		}
	}
	if got := missing(m, "host/kernel.txt"); !strings.Contains(got, "Operation not permitted") {
		t.Errorf("got %q of dmesg, want why it is missing", got)
	}
	for name, text := range files {
		for _, form := range []string{password, password[1:], `nova\u003cpass\u003e\"word`, base64.StdEncoding.EncodeToString([]byte(password)), "PRIVATE KEY", "not a log"} {
			if strings.Contains(text, form) {
				t.Errorf("%s has %q", name, form)
			}
		}
	}
}

// TestBundleWithoutAPI: what could quote a secret that nobody knows is left out, and the bundle says so.
func TestBundleWithoutAPI(t *testing.T) {
	m, files := write(t, dataDir(t), nil)
	if why := missing(m, "objects, and logs of pods"); !strings.Contains(why, "secrets are not known") {
		t.Errorf("got %q, want why objects are missing; all of it: %+v", why, m.Missing)
	}
	for name := range files {
		if strings.HasPrefix(name, "objects/") || strings.HasPrefix(name, "logs/pods/") {
			t.Errorf("got %s, want it left out", name)
		}
	}
	for _, name := range []string{"status.txt", "status.json", "logs/regiond.log", "host/etc/os-release", "manifest.json"} {
		if files[name] == "" {
			t.Errorf("got no %s", name)
		}
	}
}
