// Package bootstrap turns a host into the seed host of a region and keeps it running: preflight,
// journal, PKI, the embedded Kubernetes control plane, and the add-ons of every region's cluster.
// On top of that it runs the region's controllers, which it does not know: cmd/regiond connects the
// rooms.
//
// Every start runs the same stages in the same order. Each stage observes and repairs; none assumes
// that it has already been done. So a start after kill -9, a power cut or an upgrade of regiond is
// the same as the first.
package bootstrap

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"k8s.io/client-go/rest"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
)

// Config configures a run.
type Config struct {
	// Region as read from region.yaml: validated, with defaults filled in.
	Region *region.Region
	// RegionFile is the path that it was read from, for messages. LoadRegion reads it as for the next
	// start.
	RegionFile string
	LoadRegion func() (*region.Region, error)
	// Version of regiond.
	Version string
	Log     *slog.Logger
	// Progress is called with a description of each stage, when it ends and while it takes long. May
	// be nil.
	Progress func(text string)
	// Ready is called once, when the control plane and the controllers are ready. May be nil.
	Ready func()
	// Stopping is called when Run begins to stop everything that it started. May be nil.
	Stopping func()
	// CheckCredentials returns why a file of BMC credentials can't be used, nil if it can. Its error
	// MUST NOT contain the content of the file.
	CheckCredentials func(file string) error
	// Controllers runs the region's controllers until its context ends, and calls Runtime.Started once
	// they are ready.
	Controllers func(context.Context, Runtime) error
}

// Runtime is what controllers get.
type Runtime struct {
	// REST is a client configuration for the Kubernetes API with all permissions.
	REST *rest.Config
	// Region as stored, with its UID.
	Region *region.Region
	// Host is this control host's name, which is also the name of its Kubernetes node.
	Host string
	// DB stores facts that must be known while the API is down. Each user has its own buckets.
	DB      *bbolt.DB
	DataDir string
	// CA signs serving and client certificates of the region.
	CA *pki.Authority
	// KubernetesURL is the URL of the API for other hosts.
	KubernetesURL string
	// PinImages pulls the images of a set to this host and protects them from the kubelet's garbage
	// collection.
	PinImages func(context.Context, oci.Set) error
	// Started MUST be called once the controllers are ready: the region is then up.
	Started func()
	// ReportProblems makes status show the problems that source returns: failures that are being
	// retried. source may be called at any time, even after the controllers have ended.
	ReportProblems func(source func() []string)
	Log            *slog.Logger
}

// nodeName returns the host's name in the form that Kubernetes requires.
func nodeName() (string, error) {
	name, err := os.Hostname()
	return strings.ToLower(name), err
}

// LogPath returns the path of regiond's own log.
func LogPath(dataDir string) string { return datadir.Log.In(dataDir, "regiond.log") }

func now() time.Time { return time.Now() }
