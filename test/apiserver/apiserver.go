// Package apiserver starts API servers for tests. The API server, etcd and the controller manager are
// applets of a built regiond.
package apiserver

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/scheme"
)

// Server is an API server that has regiond's kinds and namespaces.
type Server struct {
	// REST is a client configuration with all permissions.
	REST *rest.Config
	// Client has the same, and the scheme of regiond's and Kubernetes' kinds.
	Client client.WithWatch

	regiond string
	// certificates is the folder with the API server's certificates.
	certificates string
	env          *envtest.Environment
}

// Start starts an API server that ends with the test. The binary is a built regiond; tests get its
// path from a flag, so that they never link Kubernetes themselves.
func Start(t testing.TB, regiond string) *Server {
	t.Helper()
	s := &Server{regiond: regiond, certificates: t.TempDir()}
	s.env = &envtest.Environment{BinaryAssetsDirectory: programs(t, regiond), CRDDirectoryPaths: []string{definitions(t)}, ErrorIfCRDPathMissing: true}
	s.env.ControlPlane.GetAPIServer().CertDir = s.certificates
	var err error
	if s.REST, err = s.env.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.env.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.REST.QPS = -1 // limited by the API server's own priority and fairness
	if s.Client, err = client.NewWithWatch(s.REST, client.Options{Scheme: scheme.New()}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{region.NamespaceSystem, region.NamespaceHosts} {
		if err := s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// programs creates a folder with the programs that envtest starts.
func programs(t testing.TB, regiond string) string {
	t.Helper()
	target, err := filepath.Abs(regiond)
	if err == nil {
		_, err = os.Stat(target)
	}
	if err != nil {
		t.Fatalf("binary for envtest: %v; build it first", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// definitions creates a folder with the definitions of regiond's kinds.
func definitions(t testing.TB) string {
	t.Helper()
	documents, err := region.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i, d := range documents {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)+".yaml"), d, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Define installs definitions of other kinds from files or folders.
func (s *Server) Define(t testing.TB, paths ...string) {
	t.Helper()
	if _, err := envtest.InstallCRDs(s.REST, envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
}

// Kubeconfig writes the kubeconfig of a user with all permissions, and returns its path.
func (s *Server) Kubeconfig(t testing.TB, user string) string {
	t.Helper()
	u, err := s.env.AddUser(envtest.User{Name: user, Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	content, err := u.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), user+".kubeconfig")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TrustClients makes the API server accept client certificates of another CA (PEM). It reloads its
// file by itself.
func (s *Server) TrustClients(t testing.TB, ca []byte) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(s.certificates, "client-cert-auth-ca.crt"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Write(ca)
	if closed := file.Close(); err != nil || closed != nil {
		t.Fatal(err, closed)
	}
}

// Controllers runs Kubernetes' controller manager with only these controllers, whose names are
// separated by commas.
func (s *Server) Controllers(t testing.TB, controllers string, arguments ...string) {
	t.Helper()
	Run(t, exec.Command(s.regiond, append([]string{"kube-controller-manager", "--kubeconfig=" + s.Kubeconfig(t, "controller-manager"),
		"--controllers=" + controllers, "--leader-elect=false", "--secure-port=0"}, arguments...)...))
}

// Run starts a program and kills it when the test ends. The end of its output is logged if the test
// failed.
func Run(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		if err := cmd.Wait(); err != nil && t.Failed() {
			t.Logf("%s: %v, the end of its log:\n%s", filepath.Base(cmd.Path), err, log.String()[max(0, log.Len()-2000):])
		}
	})
}

// patience of Eventually, for real components on a busy machine.
const patience = 90 * time.Second

// Eventually waits until a condition holds. If it doesn't, the condition returns what it saw instead.
func Eventually(t testing.TB, what string, holds func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		ok, seen := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s; last seen: %s", what, patience, seen)
		}
	}
}
