// Package diagnose writes what support needs to know of a control host and its region into one archive,
// without the region's secrets.
package diagnose

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/region/scheme"
	"regiond.dev/regiond/status"
)

// apiTimeout bounds each request to the Kubernetes API, which may be what is broken.
const apiTimeout = 15 * time.Second

// Config says what a bundle is made of.
type Config struct {
	DataDir string
	// Version of regiond that makes it, and the name of this host.
	Version, Host string
	Now           func() time.Time
	// API of the region. Nil: the administrator's kubeconfig in the data directory is used.
	API client.Client
	// Run a program of the host and return what it printed.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Report progress.
	Report func(text string)
}

// Manifest is the bundle's first page, manifest.json, its last entry.
type Manifest struct {
	Version string    `json:"version"`
	Host    string    `json:"host"`
	Time    time.Time `json:"time"`
	Entries []Entry   `json:"entries"`
	// Missing is what could not be collected, and why.
	Missing []Missing `json:"missing"`
}

// Entry is one file of the bundle.
type Entry struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// Missing is one thing that could not be collected.
type Missing struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Write a bundle, a tar archive compressed by gzip. What can't be collected is in its manifest, and is
// not an error: a bundle is made when something is broken.
func Write(ctx context.Context, to io.Writer, c Config) (Manifest, error) {
	z := gzip.NewWriter(to)
	b := &bundle{Config: c, tar: tar.NewWriter(z), manifest: Manifest{Version: c.Version, Host: c.Host, Time: c.Now().UTC(), Entries: []Entry{}, Missing: []Missing{}}}
	// Nothing is written before it is known what must not be.
	known := b.learnSecrets(ctx)
	b.Report("status")
	b.status(ctx)
	b.Report("host")
	b.host(ctx)
	if known {
		b.Report("objects")
		b.objects(ctx)
	}
	b.Report("logs")
	b.logs(known)
	page, err := json.MarshalIndent(b.manifest, "", "  ")
	if err != nil {
		return b.manifest, err
	}
	b.add("manifest.json", page)
	return b.manifest, errors.Join(b.err, b.tar.Close(), z.Close())
}

// bundle that is being written.
type bundle struct {
	Config
	tar      *tar.Writer
	scrub    scrubber
	secrets  []corev1.Secret // of which only the names are written
	manifest Manifest
	err      error // of the archive; the first one
}

// add an entry, without secrets.
func (b *bundle) add(name string, content []byte) {
	if b.err != nil {
		return
	}
	text := b.scrub.text(string(content))
	header := &tar.Header{Name: "regiond-diagnose/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: b.manifest.Time, Format: tar.FormatPAX}
	if b.err = b.tar.WriteHeader(header); b.err == nil {
		_, b.err = io.WriteString(b.tar, text)
	}
	b.manifest.Entries = append(b.manifest.Entries, Entry{Name: name, Bytes: len(text)})
}

// missing says what could not be collected. The reason may quote something, and so is scrubbed as well.
func (b *bundle) missing(what string, err error) {
	b.manifest.Missing = append(b.manifest.Missing, Missing{What: what, Why: b.scrub.text(err.Error())})
}

// learnSecrets is false if the region's Secrets can't be read. What may quote one is then left out.
func (b *bundle) learnSecrets(ctx context.Context) bool {
	b.scrub = newScrubber(nil)
	if b.API == nil {
		conf, err := clientcmd.BuildConfigFromFlags("", datadir.AdminKubeconfig.In(b.DataDir))
		if err == nil {
			b.API, err = client.New(conf, client.Options{Scheme: scheme.New()})
		}
		if err != nil {
			b.missing("objects, and logs of pods", fmt.Errorf("the region's secrets are not known, so that they could not be removed: %w", err))
			return false
		}
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	var all corev1.SecretList
	if err := b.API.List(ctx, &all); err != nil {
		b.missing("objects, and logs of pods", fmt.Errorf("the region's secrets are not known, so that they could not be removed: %w", err))
		return false
	}
	b.secrets, b.scrub = all.Items, newScrubber(secretValues(all.Items))
	return true
}

// status as an operator sees it, and for programs.
func (b *bundle) status(ctx context.Context) {
	f := status.Collect(ctx, b.DataDir, datadir.AdminKubeconfig.In(b.DataDir))
	r := status.Build(f)
	var table bytes.Buffer
	if err := r.Table(&table, b.Now()); err != nil {
		b.missing("status.txt", err)
	} else {
		b.add("status.txt", table.Bytes())
	}
	page, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		b.missing("status.json", err)
		return
	}
	b.add("status.json", page)
	if f.Daemon == nil {
		b.missing("daemon.json", errors.New(cmp.Or(f.DaemonError, "regiond does not answer")))
		return
	}
	if page, err = json.MarshalIndent(f.Daemon, "", "  "); err != nil {
		b.missing("daemon.json", err)
		return
	}
	b.add("daemon.json", page)
}
