//go:build envtest

package hardware_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/node"
	"regiond.dev/regiond/node/service"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// idle is a service manager of a host without services.
type idle struct{}

func (idle) States(context.Context, []string) (map[string]service.State, error) { return nil, nil }
func (idle) Start(context.Context, string) error                                { return nil }
func (idle) Stop(context.Context, string) error                                 { return nil }
func (idle) Restart(context.Context, string) error                              { return nil }
func (idle) Reload(context.Context, string) error                               { return nil }
func (idle) Enable(context.Context, string) error                               { return nil }
func (idle) Disable(context.Context, string) error                              { return nil }
func (idle) ReloadUnits(context.Context) error                                  { return nil }

// checkEnrolled lets a machine join that regiond did not install, and gives it two configurations.
func (c *cluster) checkEnrolled(t *testing.T, address string) {
	ctx, dir, root := t.Context(), t.TempDir(), t.TempDir()
	id, err := enrollment.Enroll(ctx, c.api, enrollment.Enrollment{Name: "n1", Profile: "all", KubernetesURL: c.rest.Host,
		CA: bytes.Join([][]byte{c.ca.pem, c.rest.CAData}, nil), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if id.EnrollURL != "https://10.99.0.1:7443" {
		t.Errorf("identity %+v", id)
	}
	id.EnrollURL = "https://" + address
	content, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, b := range map[string][]byte{filepath.Join(dir, identity.File): content,
		filepath.Join(root, "etc/passwd"): fmt.Appendf(nil, "root:x:%d:0::/:/bin/sh\n", os.Getuid()), filepath.Join(root, "etc/group"): fmt.Appendf(nil, "root:x:%d:\n", os.Getgid())} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	agent, err := node.New(node.Config{DataDir: dir, StateFile: filepath.Join(dir, "run", "agent.json"), RunFile: filepath.Join(dir, "processes.json"), Root: root, Version: "v1",
		Observer: node.Observer{Root: fakeRoot(t, "no UUID at all"), Units: func(context.Context) ([]string, error) { return nil, nil }}, Services: idle{},
		HeartbeatEvery: 200 * time.Millisecond, Log: slog.New(slog.NewTextHandler(testWriter{t}, nil))})
	if err != nil {
		t.Fatal(err)
	}
	agentCtx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(agentCtx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	h := &region.Host{}
	get := func() error { return c.api.Get(ctx, client.ObjectKey{Name: "n1"}, h) }
	eventually(t, "host reports", func() (bool, string) {
		err := get()
		return err == nil && h.Status.BootID != "" && h.Status.Inventory == nil, fmt.Sprintf("%v %+v", err, h.Status)
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "n1", Namespace: host.Namespace, OwnerReferences: []metav1.OwnerReference{host.Owner(h)}}}
	for i, text := range []string{"one", "two"} {
		encoded, digest, err := configuration.Configuration{Files: []configuration.File{{Path: "/etc/x.conf", Mode: "0600", Owner: "root", Group: "root", Content: text}}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		secret.Data = map[string][]byte{configuration.SecretKey: encoded}
		if i == 0 {
			err = c.api.Create(ctx, secret)
		} else {
			err = c.api.Update(ctx, secret)
		}
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "configuration "+text, func() (bool, string) {
			err := get()
			b, _ := os.ReadFile(filepath.Join(root, "etc/x.conf"))
			return err == nil && string(b) == text && h.Status.Configuration != nil && h.Status.Configuration.Digest == digest &&
				meta.IsStatusConditionTrue(h.Status.Conditions, region.ConditionConfigured), fmt.Sprintf("%v %q %+v", err, b, h.Status)
		})
	}
	if err := host.Unenroll(ctx, c.api, "n1"); err != nil {
		t.Fatal(err)
	}
	if err := c.api.Get(ctx, client.ObjectKeyFromObject(secret), secret); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the configuration of a removed host was left: %v", err)
	}
}
