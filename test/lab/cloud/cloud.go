// Package cloud uses the OpenStack of a lab as a tenant would, by its API alone: it makes test guests, looks at their
// consoles and waits until they have reached each other. Everything that it makes is found again by name and tag, so
// that it can be done twice.
package cloud

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"regiond.dev/regiond/images/guest"
)

// Tag marks what this package made: guests and images by a tag, of Neutron's objects the description, since
// Neutron takes tags only of what exists already.
const Tag = "regiond-lab"

// Versions of nova's API. 2.74 has hypervisor_hostname in requests for servers (Train), and tags.
const computeVersion = "2.74"

// requestTimeout of one request. An image is uploaded by one.
const requestTimeout = 3 * time.Minute

// Config of a Cloud.
type Config struct {
	// URL of keystone, e.g. http://10.99.0.1:5000.
	URL string
	// Password of user admin in project admin, domain Default.
	Password string
	// Region in the catalogue.
	Region string
	// Dial is how its addresses are reached.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// PhysicalNetwork that guests' network is a VLAN of.
	PhysicalNetwork string
	// Guest is the disk of the test guest, see images/guest.
	Guest guest.Image
	// Report is given one line per thing that was reached.
	Report func(format string, args ...any)
}

// Peer is a guest as another guest sees it.
type Peer struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// Cloud is an OpenStack that was logged in to.
type Cloud struct {
	Config
	compute, network, image *gophercloud.ServiceClient
	poll                    time.Duration
}

// Open logs in.
func Open(ctx context.Context, c Config) (*Cloud, error) {
	p, err := openstack.NewClient(c.URL + "/v3/")
	if err != nil {
		return nil, fmt.Errorf("keystone %s: %w", c.URL, err)
	}
	p.HTTPClient = http.Client{Timeout: requestTimeout, Transport: &http.Transport{DialContext: c.Dial, MaxIdleConnsPerHost: 4}}
	err = openstack.Authenticate(ctx, p, gophercloud.AuthOptions{IdentityEndpoint: c.URL + "/v3/", Username: "admin", Password: c.Password,
		DomainName: "Default", AllowReauth: true, Scope: &gophercloud.AuthScope{ProjectName: "admin", DomainName: "Default"}})
	if err != nil {
		return nil, fmt.Errorf("keystone %s: log in as admin: %w", c.URL, err)
	}
	cloud := &Cloud{Config: c, poll: pollEvery}
	at := gophercloud.EndpointOpts{Region: c.Region}
	for _, s := range []struct {
		name   string
		client **gophercloud.ServiceClient
		make   func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{"nova", &cloud.compute, openstack.NewComputeV2},
		{"neutron", &cloud.network, openstack.NewNetworkV2},
		{"glance", &cloud.image, openstack.NewImageV2},
	} {
		if *s.client, err = s.make(p, at); err != nil {
			return nil, fmt.Errorf("the catalogue of region %s has no %s: %w", c.Region, s.name, err)
		}
	}
	cloud.compute.Microversion = computeVersion
	return cloud, nil
}
