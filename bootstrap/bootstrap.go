// Package bootstrap makes a host the seed host of a region and keeps it one: preflight, journal, PKI,
// the embedded Kubernetes control plane, and what every region's cluster holds. On top of that it
// runs the region's controllers, which it does not know: cmd/regiond joins the rooms.
//
// Every start runs the same stages in the same order. Each of them looks and repairs; none believes
// that it was done before. So a start after kill -9, after a power cut or after an upgrade of
// regiond is the same as the first.
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

// Config of a run.
type Config struct {
	// Region as read from region.yaml: validated, and with its defaults filled in.
	Region *region.Region
	// RegionFile is where it was read from, for messages.
	RegionFile string
	// Version of regiond.
	Version string
	Log     *slog.Logger
	// Progress is told each stage in words for people, when it ends and while it takes long. May be nil.
	Progress func(text string)
	// Ready is called once, when the control plane is ready and the controllers serve. May be nil.
	Ready func()
	// Stopping is called when Run begins to stop what it started. May be nil.
	Stopping func()
	// CheckCredentials says why a file of BMC credentials can't be used, nil if it can. Its error MUST
	// NOT hold what the file says.
	CheckCredentials func(file string) error
	// Controllers runs the region's controllers until its context ends, and calls Runtime.Started
	// once they serve.
	Controllers func(context.Context, Runtime) error
}

// Runtime is what controllers are given.
type Runtime struct {
	// REST reaches the Kubernetes API with all rights.
	REST *rest.Config
	// Region as stored, with its UID.
	Region *region.Region
	// Host is this control host's name, that of its Kubernetes node.
	Host string
	// DB is for what must be known while the API is down, each user in buckets of its own.
	DB      *bbolt.DB
	DataDir string
	// CA signs serving and client certificates of the region.
	CA *pki.Authority
	// KubernetesURL is where other hosts reach the API.
	KubernetesURL string
	// PinImages keeps the images of a set on this host, pulled and safe from the kubelet's garbage
	// collection.
	PinImages func(context.Context, oci.Set) error
	// Started is to be called once the controllers serve: the region is up then.
	Started func()
	// ReportProblems has status show what source returns: what does not work and is tried again. source
	// is called at any time, also after the controllers have ended.
	ReportProblems func(source func() []string)
	Log            *slog.Logger
}

// nodeName is the host's name as Kubernetes wants it.
func nodeName() (string, error) {
	name, err := os.Hostname()
	return strings.ToLower(name), err
}

// LogPath is where regiond itself logs.
func LogPath(dataDir string) string { return datadir.Log.In(dataDir, "regiond.log") }

func now() time.Time { return time.Now() }
