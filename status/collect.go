package status

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/scheme"
)

// Facts is what was observed of a region.
type Facts struct {
	// Now is when they were collected.
	Now     time.Time
	DataDir string
	// Daemon is the snapshot of the running regiond; nil with DaemonError if it could not be queried.
	Daemon      *daemon.Snapshot
	DaemonError string
	// APIError is why the Kubernetes API could not be queried; the objects below are then empty.
	APIError string
	Nodes    []corev1.Node
	// Addons are the Deployments that regiond itself runs in Kubernetes, Pods the pods of their
	// namespace.
	Addons  []appsv1.Deployment
	Pods    []corev1.Pod
	Servers []region.Server
	Hosts   []region.Host
	// Leases of the hosts; each has the name of its host.
	Leases []coordinationv1.Lease
	// OpenStack clusters.
	OpenStack []region.OpenStackCluster
	// Regions: the one that is stored.
	Regions []region.Region
}

// apiTimeout bounds the requests to the Kubernetes API.
const apiTimeout = 5 * time.Second

// Collect queries the running regiond and the Kubernetes API. It does not fail: the facts say which
// of them could not be queried, and why.
func Collect(ctx context.Context, dataDir, kubeconfig string) Facts {
	f := Facts{Now: time.Now(), DataDir: dataDir}
	var err error
	if f.Daemon, err = daemon.Fetch(ctx, daemon.SocketPath(dataDir)); err != nil {
		f.DaemonError = daemonError(dataDir, err)
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if err := f.queryAPI(ctx, kubeconfig); err != nil {
		f.APIError = err.Error()
	}
	return f
}

func daemonError(dataDir string, err error) string {
	switch {
	case errors.Is(err, os.ErrPermission):
		return "only root may query regiond: sudo regiond status"
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("regiond is not running on %s; start it with systemctl start regiond, or with regiond run -f region.yaml", dataDir)
	}
	return fmt.Sprintf("regiond on %s does not answer: %v", dataDir, err)
}

func (f *Facts) queryAPI(ctx context.Context, kubeconfig string) error {
	rest, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	c, err := client.New(rest, client.Options{Scheme: scheme.New()})
	if err != nil {
		return err
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return err
	}
	f.Nodes = nodes.Items
	var deployments appsv1.DeploymentList
	var pods corev1.PodList
	if err := errors.Join(c.List(ctx, &deployments, client.InNamespace(metav1.NamespaceSystem)), c.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem))); err != nil {
		return err
	}
	f.Addons, f.Pods = deployments.Items, pods.Items
	var servers region.ServerList
	var hosts region.HostList
	var leases coordinationv1.LeaseList
	var clusters region.OpenStackClusterList
	var regions region.RegionList
	// Until the definitions are applied there are no servers to list; regiond then reports its stage.
	if err := errors.Join(c.List(ctx, &servers), c.List(ctx, &hosts), c.List(ctx, &clusters), c.List(ctx, &regions), c.List(ctx, &leases, client.InNamespace(region.NamespaceHosts))); err != nil {
		return err
	}
	f.Servers, f.Hosts, f.Leases, f.OpenStack = servers.Items, hosts.Items, leases.Items, clusters.Items
	f.Regions = regions.Items
	return nil
}
