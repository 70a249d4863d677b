package credentials_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"regiond.dev/regiond/hardware/credentials"
	"regiond.dev/regiond/region"
)

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestBadFilesAreNamedAndNeverQuoted(t *testing.T) {
	for _, c := range []struct {
		name, content string
		mode          os.FileMode
		want          string
	}{
		{"readable by others", "username: admin\npassword: geheim\n", 0o644, "chmod 600"},
		{"unknown key", "user: admin\npassword: geheim\n", 0o600, "only the keys username, password and"},
		{"not YAML", "geheim: [", 0o600, "only the keys"},
		{"empty", "", 0o600, "only the keys"},
		{"no password", "username: admin\n", 0o600, "password is missing"},
		{"password too long for IPMI", "username: admin\npassword: geheim789012345678901\n", 0o600, "21 bytes, IPMI allows 20"},
		{"BMC key too long for IPMI", "username: admin\npassword: x\nbmcKey: geheim789012345678901\n", 0o600, "bmcKey has 21 bytes, IPMI allows 20"},
		{"BMC key of odd digits", "username: admin\npassword: x\nbmcKey: \"0xgeheim\"\n", 0o600, "hexadecimal digits"},
		{"user name too long for IPMI", "username: geheim78901234567\npassword: x\n", 0o600, "17 bytes, IPMI allows 16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bmc.yaml")
			write(t, path, c.content, c.mode)
			_, err := credentials.Read(path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("got %v", err)
			}
			if strings.Contains(err.Error(), "geheim") {
				t.Errorf("the secret is told: %v", err)
			}
		})
	}
	if _, err := credentials.Read("/nonexistent/bmc.yaml"); err == nil || !strings.Contains(err.Error(), "write a file with the keys") {
		t.Errorf("got %v", err)
	}
}

func secret(t *testing.T, c client.Client) (username, password string) {
	t.Helper()
	var s corev1.Secret
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "regiond-system", Name: "bmc-rack1"}, &s); err != nil {
		t.Fatal(err)
	}
	return string(s.Data["username"]), string(s.Data["password"])
}

func TestChangedFileIsImportedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bmc.yaml")
	write(t, path, "username: admin\npassword: \"1234\"\n", 0o600)
	c := fake.NewClientBuilder().Build()
	i := credentials.NewImporter(c, []region.Credential{{Name: "rack1", File: path}})
	if err := i.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if u, p := secret(t, c); u != "admin" || p != "1234" {
		t.Fatalf("got %s, %s", u, p)
	}

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- i.Watch(ctx, slog.New(slog.DiscardHandler)) }()
	// The watch may not have begun when the file is replaced, so it is replaced until it is seen.
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		next := path + ".new"
		write(t, next, "username: admin\npassword: fresh\n", 0o600)
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
		<-tick.C
		if _, p := secret(t, c); p == "fresh" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the new password was not imported within 10 s")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBMCKeyIsImported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bmc.yaml")
	c := fake.NewClientBuilder().Build()
	i := credentials.NewImporter(c, []region.Credential{{Name: "rack1", File: path}})
	for _, tt := range []struct{ line, want string }{{"bmcKey: abcdefgh", "abcdefgh"}, {`bmcKey: "0x00ff10"`, "\x00\xff\x10"}, {"", ""}} {
		write(t, path, "username: admin\npassword: x\n"+tt.line+"\n", 0o600)
		if err := i.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		var s corev1.Secret
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "regiond-system", Name: "bmc-rack1"}, &s); err != nil {
			t.Fatal(err)
		}
		if got := string(s.Data["bmcKey"]); got != tt.want {
			t.Errorf("%q: bmcKey of the Secret is %q, want %q", tt.line, got, tt.want)
		}
	}
}

func TestLostFileKeepsTheSecretAndIsAProblem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bmc.yaml")
	write(t, path, "username: admin\npassword: x\n", 0o600)
	c := fake.NewClientBuilder().Build()
	i := credentials.NewImporter(c, []region.Credential{{Name: "rack1", File: path}})
	if err := i.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := i.Sync(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if p := i.Problems(); len(p) != 1 || !strings.Contains(p[0], `credentials "rack1"`) || !strings.Contains(p[0], path) {
		t.Errorf("problems %q", p)
	}
	if u, _ := secret(t, c); u != "admin" {
		t.Errorf("the Secret is gone")
	}
}
