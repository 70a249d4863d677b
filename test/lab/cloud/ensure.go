package cloud

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/provider"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

// Names of what guests are made with.
const (
	flavorName  = "lab.small"
	networkName = "lab"
	groupName   = "lab"
)

// cidr of the guests' network. It has no router: guests ask the DHCP server's address for their metadata.
const cidr = "10.101.0.0/24"

// world is what guests are made with.
type world struct{ image, flavor, network, group string }

func (c *Cloud) ensure(ctx context.Context) (w world, err error) {
	if w.image, err = c.ensureImage(ctx); err != nil {
		return w, fmt.Errorf("image: %w", err)
	}
	if w.flavor, err = c.ensureFlavor(ctx); err != nil {
		return w, fmt.Errorf("flavor %s: %w", flavorName, err)
	}
	if w.network, err = c.ensureNetwork(ctx); err != nil {
		return w, fmt.Errorf("network %s: %w", networkName, err)
	}
	if w.group, err = c.ensureGroup(ctx); err != nil {
		return w, fmt.Errorf("security group %s: %w", groupName, err)
	}
	return w, nil
}

// ensureImage uploads the guest, once a version. An image whose upload was cut short is taken up again.
func (c *Cloud) ensureImage(ctx context.Context) (id string, err error) {
	name := "guest-" + c.Guest.Digest[:12]
	pages, err := images.List(c.image, images.ListOpts{Name: name, Tags: []string{Tag}}).AllPages(ctx)
	if err != nil {
		return "", err
	}
	found, err := images.ExtractImages(pages)
	if err != nil {
		return "", err
	}
	var image *images.Image
	for i := range found {
		switch found[i].Status {
		case images.ImageStatusActive:
			return found[i].ID, nil
		case images.ImageStatusQueued:
			image = &found[i]
		}
	}
	if image == nil {
		image, err = images.Create(ctx, c.image, images.CreateOpts{Name: name, Tags: []string{Tag}, DiskFormat: "raw", ContainerFormat: "bare"}).Extract()
		if err != nil {
			return "", err
		}
	}
	f, err := os.Open(c.Guest.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := imagedata.Upload(ctx, c.image, image.ID, f).ExtractErr(); err != nil {
		return "", fmt.Errorf("upload %s: %w", c.Guest.Path, err)
	}
	c.Report("image %s: uploaded", name)
	return image.ID, nil
}

func (c *Cloud) ensureFlavor(ctx context.Context) (id string, err error) {
	disk := 1
	f, err := flavors.Create(ctx, c.compute, flavors.CreateOpts{ID: flavorName, Name: flavorName, RAM: 128, VCPUs: 1, Disk: &disk}).Extract()
	if conflict(err) {
		return flavorName, nil
	}
	if err != nil {
		return "", err
	}
	return f.ID, nil
}

// conflict is the answer to the creation of what exists, gone that to the deletion of what does not.
func conflict(err error) bool { return gophercloud.ResponseCodeIs(err, http.StatusConflict) }

func gone(err error) bool { return gophercloud.ResponseCodeIs(err, http.StatusNotFound) }

func (c *Cloud) ensureNetwork(ctx context.Context) (id string, err error) {
	pages, err := networks.List(c.network, networks.ListOpts{Name: networkName, Description: Tag}).AllPages(ctx)
	if err != nil {
		return "", err
	}
	found, err := networks.ExtractNetworks(pages)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		id = found[0].ID
	} else {
		n, err := networks.Create(ctx, c.network, provider.CreateOptsExt{
			CreateOptsBuilder: networks.CreateOpts{Name: networkName, Description: Tag},
			Segments:          []provider.Segment{{NetworkType: "vlan", PhysicalNetwork: c.PhysicalNetwork}},
		}).Extract()
		if err != nil {
			return "", err
		}
		id = n.ID
	}
	if err := c.ensureSubnet(ctx, id); err != nil {
		return "", fmt.Errorf("subnet: %w", err)
	}
	if len(found) == 0 {
		c.Report("network %s: VLAN of %s, %s with DHCP", networkName, c.PhysicalNetwork, cidr)
	}
	return id, nil
}

// waitDHCP waits until the network's DHCP is served. An agent that serves its first network starts
// helpers, which takes a minute or two on an emulated node, and guests that ask all the while would
// slow it down.
func (c *Cloud) waitDHCP(ctx context.Context, network string) error {
	told := false
	for {
		pages, err := ports.List(c.network, ports.ListOpts{NetworkID: network, DeviceOwner: "network:dhcp"}).AllPages(ctx)
		if err != nil {
			return fmt.Errorf("list ports of DHCP: %w", err)
		}
		found, err := ports.ExtractPorts(pages)
		if err != nil {
			return err
		}
		state := "no port"
		for _, p := range found {
			if p.Status == "ACTIVE" {
				if told {
					c.Report("network %s: DHCP is served", networkName)
				}
				return nil
			}
			state = "port " + p.ID + " is " + p.Status
		}
		if !told {
			c.Report("network %s: waits for DHCP to be served", networkName)
			told = true
		}
		if err := c.wait(ctx, "DHCP of network "+networkName, state); err != nil {
			return err
		}
	}
}

func (c *Cloud) ensureSubnet(ctx context.Context, network string) error {
	pages, err := subnets.List(c.network, subnets.ListOpts{NetworkID: network, CIDR: cidr}).AllPages(ctx)
	if err != nil {
		return err
	}
	if found, err := subnets.ExtractSubnets(pages); err != nil || len(found) > 0 {
		return err
	}
	dhcp, none := true, ""
	return subnets.Create(ctx, c.network, subnets.CreateOpts{Name: networkName, NetworkID: network, IPVersion: gophercloud.IPv4, CIDR: cidr,
		GatewayIP: &none, EnableDHCP: &dhcp}).Err
}

// ensureGroup lets guests be pinged.
func (c *Cloud) ensureGroup(ctx context.Context) (id string, err error) {
	pages, err := groups.List(c.network, groups.ListOpts{Name: groupName, Description: Tag}).AllPages(ctx)
	if err != nil {
		return "", err
	}
	found, err := groups.ExtractGroups(pages)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		id = found[0].ID
	} else {
		g, err := groups.Create(ctx, c.network, groups.CreateOpts{Name: groupName, Description: Tag}).Extract()
		if err != nil {
			return "", err
		}
		id = g.ID
	}
	_, err = rules.Create(ctx, c.network, rules.CreateOpts{SecGroupID: id, Direction: rules.DirIngress, EtherType: rules.EtherType4,
		Protocol: rules.ProtocolICMP, RemoteIPPrefix: cidr, Description: Tag}).Extract()
	if err != nil && !conflict(err) {
		return "", err
	}
	return id, nil
}
