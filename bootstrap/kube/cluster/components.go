package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/bootstrap/payload"
	"regiond.dev/regiond/bootstrap/supervisor"
)

// garbage makes the components collect garbage when their heaps have grown by 60 % instead of 100
// %: a control plane of seven processes on one host runs out of memory before it runs out of
// processor time.
const garbage = "GOGC=60"

// components returns the control plane's processes in the order in which they start. They are
// stopped in reverse order, clients before servers.
func (c *Cluster) components() []supervisor.Spec {
	n := c.node
	// nft, mount, conntrack and the like come from the host; the payload takes precedence.
	path := "PATH=" + n.PayloadDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	spec := func(args []string, probe func(context.Context) error, after ...string) supervisor.Spec {
		return supervisor.Spec{Name: args[0], Path: c.config.Executable, Args: args, Env: []string{path, garbage}, After: after, Probe: probe,
			Remedy: func(cause string) string { return remedy(args[0], cause, n.DataDir) }}
	}
	const api = "kube-apiserver"
	apiServer := spec(n.APIServer(), get(n.URL()+"/readyz", c.clusterTLS), "etcd")
	// It waits for its clients' watches to end, and those of pods never do. It has no state to lose:
	// everything that it has acknowledged is in etcd.
	apiServer.StopTimeout = 3 * time.Second
	return []supervisor.Spec{
		spec(n.Containerd(), c.containerdReady),
		spec(n.Etcd(), get(n.EtcdURL()+"/health", c.etcdTLS)),
		apiServer,
		spec(n.ControllerManager(), get(fmt.Sprintf("https://127.0.0.1:%d/healthz", config.ControllerManagerPort), c.clusterTLS), api),
		spec(n.Scheduler(), get(fmt.Sprintf("https://127.0.0.1:%d/healthz", config.SchedulerPort), c.clusterTLS), api),
		spec(n.Kubelet(), get(fmt.Sprintf("http://127.0.0.1:%d/healthz", config.KubeletHealthPort), nil), "containerd", api),
		spec(n.Proxy(), get(fmt.Sprintf("http://127.0.0.1:%d/healthz", config.ProxyHealthPort), nil), api),
	}
}

// get returns a probe of an HTTP health endpoint. It loads the TLS configuration each time, because
// certificates may be renewed.
func get(url string, secure func() (*tls.Config, error)) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		transport := &http.Transport{DisableKeepAlives: true}
		if secure != nil {
			if transport.TLSClientConfig, err = secure(); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, response.Status)
		}
		return nil
	}
}

// clusterTLS returns a configuration that trusts the cluster's authority. Health checks need no
// client certificate.
func (c *Cluster) clusterTLS() (*tls.Config, error) {
	roots := x509.NewCertPool()
	roots.AddCert(c.config.PKI.Cluster.Certificate())
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// etcdTLS returns a configuration that trusts etcd's authority and presents the API server's client
// certificate.
func (c *Cluster) etcdTLS() (*tls.Config, error) {
	roots := x509.NewCertPool()
	roots.AddCert(c.config.PKI.Etcd.Certificate())
	pair := c.node.Certificates.EtcdClient
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("etcd's client certificate: %w", err)
	}
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}, nil
}

// withContainerd calls f with a connection to containerd.
func (c *Cluster) withContainerd(f func(*grpc.ClientConn) error) error {
	// Dial only once the socket exists, or gRPC would back off and log.
	if _, err := os.Stat(c.node.ContainerdSocket()); err != nil {
		return err
	}
	connection, err := grpc.NewClient("unix://"+c.node.ContainerdSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connecting to containerd: %w", err)
	}
	return errors.Join(f(connection), connection.Close())
}

// containerdReady returns nil if containerd responds and has the payload's images, which are
// imported while etcd and the API server start, before the kubelet needs them.
func (c *Cluster) containerdReady(ctx context.Context) error {
	err := c.withContainerd(func(connection *grpc.ClientConn) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := cri.NewRuntimeServiceClient(connection).Version(ctx, &cri.VersionRequest{})
		return err
	})
	if err != nil {
		return err
	}
	return c.importImages(ctx)
}

// importImages imports the payload's images into containerd unless they exist. The stamp names the
// payload; containerd is queried too, because its data may have been replaced.
func (c *Cluster) importImages(ctx context.Context) error {
	stamp := datadir.Containerd.In(c.config.DataDir, "imported")
	version := filepath.Base(c.config.PayloadDir)
	if done, err := os.ReadFile(stamp); err == nil && strings.TrimSpace(string(done)) == version {
		if there, err := c.haveImages(ctx); err != nil || there {
			return err
		}
	}
	archive := filepath.Join(c.config.PayloadDir, payload.Images)
	command := exec.CommandContext(ctx, c.config.Executable)
	command.Args = []string{"ctr", "--address", c.node.ContainerdSocket(), "--namespace", "k8s.io",
		// The label keeps the kubelet from removing the image when the disk is full: no registry has it.
		"images", "import", "--label", "io.cri-containerd.pinned=pinned", archive}
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("importing %s into containerd: %w: %s", archive, err, strings.TrimSpace(string(output)))
	}
	return writeFile(stamp, []byte(version+"\n"), 0o644)
}

func (c *Cluster) haveImages(ctx context.Context) (bool, error) {
	there := true
	err := c.withContainerd(func(connection *grpc.ClientConn) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		for _, image := range []string{payload.ImagePause, payload.ImageCoreDNS} {
			status, err := cri.NewImageServiceClient(connection).ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: image}})
			if err != nil {
				return fmt.Errorf("looking up %s in containerd: %w", image, err)
			}
			there = there && status.Image != nil
		}
		return nil
	})
	return there, err
}
