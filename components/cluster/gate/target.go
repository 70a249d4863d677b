// Package gate proves that the services of one OpenStack cluster do what they are for, end to end: a row is written and
// read, a message is published and consumed, an image is uploaded and read back. An open port proves nothing.
//
// What a probe makes carries the UID of the cluster, is removed by the probe, and else by the next one.
package gate

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"regiond.dev/regiond/components/cloud"
)

// Target is what the probes of one cluster have to know.
type Target struct {
	// UID of the OpenStackCluster.
	UID string
	// Namespace of the pods, for messages.
	Namespace string
	// MariaDB, RabbitMQ and Memcached by host:port.
	MariaDB, RabbitMQ, Memcached string
	// Management of the broker by host:port, empty if it is not known.
	Management string
	// Database user with all rights.
	Database Login
	// Broker user with all rights in VHost.
	Broker Login
	VHost  string
	// Thorough: what is proved was not proved before since it was started. Proofs that are renewed
	// leave out what disturbs hosts and users.
	Thorough bool
	// UploadPause is how long nothing comes in the middle of the upload of an image, in a thorough proof.
	UploadPause time.Duration
	// Admin of Keystone.
	Admin cloud.Credentials
	// URLs of the APIs, each with a slash at its end and without a version, but Nova's with it.
	Placement, Glance, Nova, Neutron string
}

// Login of a user.
type Login struct{ User, Password string }

// Timeout bounds a probe. Python services that were just started answer their first request after ten seconds and more.
const Timeout = 45 * time.Second

// mark of what probes make.
func (t Target) mark() string { return "regiond-probe-" + t.UID }

// nonce is what is written to be read.
func nonce() string { return rand.Text() }

// expect compares what was read with what was written.
func expect(where, wrote, read string) error {
	if wrote != read {
		return fmt.Errorf("%s: wrote %q and read %q", where, wrote, read)
	}
	return nil
}

// cleanup gives what removes a probe's traces a time of its own, for when the probe's has ended.
func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}
