package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"regiond.dev/regiond/components/cloud"
)

// Keystone has a token issued and validated. The session serves the other probes.
func Keystone(ctx context.Context, t Target) (*cloud.Session, error) {
	s, err := cloud.Login(ctx, t.Admin)
	if err != nil {
		return nil, err
	}
	return s, s.Validate(ctx)
}

// Clients of the APIs.
type Clients struct{ Nova, Neutron, Placement *gophercloud.ServiceClient }

// Clients for a session.
func (t Target) Clients(s *cloud.Session) Clients {
	return Clients{Nova: t.nova(s), Neutron: t.neutron(s), Placement: t.placement(s)}
}

// placement with names in the answer to a creation (1.20).
func (t Target) placement(s *cloud.Session) *gophercloud.ServiceClient {
	c := s.Service("placement", t.Placement)
	c.Microversion = "1.20"
	return c
}

// Placement creates a resource provider, reads it and deletes it.
func Placement(ctx context.Context, t Target, s *cloud.Session) (err error) {
	c, name := t.placement(s), t.mark()
	fail := func(what string, err error) error { return fmt.Errorf("placement %s: %s: %w", t.Placement, what, err) }
	left, err := All(ctx, resourceproviders.List(c, resourceproviders.ListOpts{Name: name}), resourceproviders.ExtractResourceProviders)
	if err != nil {
		return fail("list resource providers", err)
	}
	for _, p := range left {
		if err := Absent(resourceproviders.Delete(ctx, c, p.UUID).Err); err != nil {
			return fail("delete the resource provider of an earlier probe", err)
		}
	}
	made, err := resourceproviders.Create(ctx, c, resourceproviders.CreateOpts{Name: name}).Extract()
	if err != nil {
		return fail("create a resource provider", err)
	}
	defer func() {
		ctx, cancel := cleanup(ctx)
		defer cancel()
		if gone := Absent(resourceproviders.Delete(ctx, c, made.UUID).Err); gone != nil {
			err = errors.Join(err, fail("delete a resource provider", gone))
		}
	}()
	read, err := resourceproviders.Get(ctx, c, made.UUID).Extract()
	if err != nil {
		return fail("read a resource provider", err)
	}
	return expect("placement "+t.Placement, name, read.Name)
}

func (t Target) glance(s *cloud.Session) *gophercloud.ServiceClient {
	c := s.Service("image", t.Glance)
	c.ResourceBase = t.Glance + "v2/"
	return c
}

// imageSize in bytes: more than one block of a store.
const imageSize = 64 << 10

// Glance uploads an image as nova-compute does that of a guest, in chunks, and reads it back byte
// for byte. In a thorough proof nothing comes for a while between two of the chunks; a Glance that
// serves one request at a time answers nobody else meanwhile.
func Glance(ctx context.Context, t Target, s *cloud.Session) (err error) {
	c, name := t.glance(s), t.mark()
	fail := func(what string, err error) error { return fmt.Errorf("glance %s: %s: %w", t.Glance, what, err) }
	left, err := All(ctx, images.List(c, images.ListOpts{Tags: []string{name}}), images.ExtractImages)
	if err != nil {
		return fail("list images", err)
	}
	for _, i := range left {
		if err := Absent(images.Delete(ctx, c, i.ID).Err); err != nil {
			return fail("delete the image of an earlier probe", err)
		}
	}
	private := images.ImageVisibilityPrivate
	made, err := images.Create(ctx, c, images.CreateOpts{Name: name, Tags: []string{name}, Visibility: &private, ContainerFormat: "bare",
		DiskFormat: "raw"}).Extract()
	if err != nil {
		return fail("create an image", err)
	}
	defer func() {
		ctx, cancel := cleanup(ctx)
		defer cancel()
		if gone := Absent(images.Delete(ctx, c, made.ID).Err); gone != nil {
			err = errors.Join(err, fail("delete an image", gone))
		}
	}()
	content := bytes.Repeat([]byte(nonce()), imageSize/len(nonce()))
	upload := &slow{ctx: ctx, content: content}
	if t.Thorough {
		upload.pause = t.UploadPause
	}
	if err := imagedata.Upload(ctx, c, made.ID, upload).Err; err != nil {
		return fail("upload an image", err)
	}
	body, err := imagedata.Download(ctx, c, made.ID).Extract()
	if err != nil {
		return fail("download an image", err)
	}
	defer body.Close()
	read, err := io.ReadAll(io.LimitReader(body, imageSize+1))
	if err != nil {
		return fail("download an image", err)
	}
	if !bytes.Equal(content, read) {
		return fail("download an image", fmt.Errorf("the %d bytes that were read are not the %d that were uploaded; is its store's disk sound?",
			len(read), len(content)))
	}
	return nil
}

func (t Target) neutron(s *cloud.Session) *gophercloud.ServiceClient {
	c := s.Service("network", t.Neutron)
	c.ResourceBase = t.Neutron + "v2.0/"
	return c
}

// Neutron writes a subnet pool, reads it back and deletes it. A thorough proof creates a network with
// a port, too, and deletes them: of these the agents on all hosts hear, and each logs an error when
// it then asks for what is gone.
func Neutron(ctx context.Context, t Target, s *cloud.Session) error {
	c := t.neutron(s)
	if err := t.proveSubnetPool(ctx, c); err != nil || !t.Thorough {
		return err
	}
	return t.proveNetwork(ctx, c)
}

// proveNetwork creates a network with a port, and deletes them. Name and description are what they
// are found by: unlike a tag they are there from the first moment.
func (t Target) proveNetwork(ctx context.Context, c *gophercloud.ServiceClient) (err error) {
	name := t.mark()
	fail := func(what string, err error) error { return fmt.Errorf("neutron %s: %s: %w", t.Neutron, what, err) }
	left, err := All(ctx, networks.List(c, networks.ListOpts{Name: name, Description: name}), networks.ExtractNetworks)
	if err != nil {
		return fail("list networks", err)
	}
	for _, n := range left {
		if n.Name != name || n.Description != name {
			continue // Neutron does not follow filters that it does not know
		}
		if err := deleteNetwork(ctx, c, n.ID); err != nil {
			return fail("delete the network of an earlier probe", err)
		}
	}
	network, err := probeNetwork(ctx, c, name)
	if err != nil {
		return fail("create a network", err)
	}
	defer func() {
		ctx, cancel := cleanup(ctx)
		defer cancel()
		if gone := deleteNetwork(ctx, c, network.ID); gone != nil {
			err = errors.Join(err, fail("delete a network", gone))
		}
	}()
	port, err := ports.Create(ctx, c, ports.CreateOpts{NetworkID: network.ID, Name: name, Description: name}).Extract()
	if err != nil {
		return fail("create a port", err)
	}
	if port.MACAddress == "" || port.NetworkID != network.ID {
		return fail("create a port", fmt.Errorf("the port %s in network %s has the MAC address %q", port.ID, port.NetworkID, port.MACAddress))
	}
	return nil
}

// probePhysicalNetwork is one that no node has: ML2's flat_networks are all names.
const probePhysicalNetwork = "regiond-probe"

// flatNetwork is created on that physical network.
type flatNetwork struct{ networks.CreateOpts }

// ToNetworkCreateMap adds what the extension provider of Neutron's API has for where a network is.
func (f flatNetwork) ToNetworkCreateMap() (map[string]any, error) {
	body, err := f.CreateOpts.ToNetworkCreateMap()
	if err != nil {
		return nil, err
	}
	if network, ok := body["network"].(map[string]any); ok {
		network["provider:network_type"], network["provider:physical_network"] = "flat", probePhysicalNetwork
	}
	return body, nil
}

// probeNetwork creates a network as tenants do or, where the cluster has none left for them or none
// at all, a flat one as administrators do. Neutron answers 503 for the former
// (neutron_lib.exceptions, NoNetworkAvailable), as it does when it is not there.
func probeNetwork(ctx context.Context, c *gophercloud.ServiceClient, name string) (*networks.Network, error) {
	off := false // nothing is to be attached to it
	o := networks.CreateOpts{Name: name, Description: name, AdminStateUp: &off}
	network, err := networks.Create(ctx, c, o).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusServiceUnavailable) {
		return network, err
	}
	network, second := networks.Create(ctx, c, flatNetwork{o}).Extract()
	if second != nil {
		return nil, errors.Join(err, second)
	}
	return network, nil
}

// deleteNetwork deletes its ports first: Neutron refuses a network that has some.
func deleteNetwork(ctx context.Context, c *gophercloud.ServiceClient, id string) error {
	have, err := All(ctx, ports.List(c, ports.ListOpts{NetworkID: id}), ports.ExtractPorts)
	if err != nil {
		return err
	}
	for _, p := range have {
		if err := Absent(ports.Delete(ctx, c, p.ID).Err); err != nil {
			return err
		}
	}
	return Absent(networks.Delete(ctx, c, id).Err)
}

// All reads all pages of a list.
func All[T any](ctx context.Context, p pagination.Pager, extract func(pagination.Page) ([]T, error)) ([]T, error) {
	page, err := p.AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return extract(page)
}

// Absent takes it for success that something to be deleted is not there.
func Absent(err error) error {
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// Expiring says whether a session should be replaced: its token ends while it may still be used.
func Expiring(s *cloud.Session, now time.Time) bool {
	return s == nil || s.Expires.Sub(now) < 10*time.Minute
}
