package cluster

import (
	"net"
	"strconv"
	"strings"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/region"
)

// Ports of the APIs and the broker at the cluster's address.
const (
	portKeystone  = 5000
	portGlance    = 9292
	portPlacement = 8778
	portNova      = 8774
	portNeutron   = 9696
	portRabbitMQ  = 5672
	portMariaDB   = 3306
	portMemcached = 11211
)

// lookup a value of the tree by its path.
type lookup func(path string) (any, bool)

func (l lookup) text(path string) string {
	v, _ := l(path)
	s, _ := v.(string)
	return s
}

// in looks up in a plain tree.
func in(tree map[string]any) lookup {
	return func(path string) (any, bool) {
		var at any = tree
		for key := range strings.SplitSeq(path, ".") {
			m, ok := at.(map[string]any)
			if !ok {
				return nil, false
			}
			if at, ok = m[key]; !ok {
				return nil, false
			}
		}
		return at, true
	}
}

// Admin is the login of a cluster's administrator.
func Admin(cluster *region.OpenStackCluster, secrets map[string]any) cloud.Credentials {
	return cloud.Credentials{URL: apiURL(cluster, portKeystone), User: "admin", Project: "admin",
		Password: in(secrets).text("keystone.admin_password")}
}

// Target of a cluster's APIs. The addresses of what is reached inside of the cluster only are added by the caller.
func Target(cluster *region.OpenStackCluster, secrets map[string]any) gate.Target {
	s := in(secrets)
	return gate.Target{
		UID: string(cluster.UID), Namespace: openstack.Namespace(cluster.Name),
		RabbitMQ: net.JoinHostPort(cluster.Spec.Address, strconv.Itoa(portRabbitMQ)),
		Database: gate.Login{User: "regiond", Password: s.text("mariadb.admin_password")},
		Broker:   gate.Login{User: "regiond", Password: s.text("rabbitmq.gate_password")}, VHost: "regiond",
		Admin:     Admin(cluster, secrets),
		Placement: apiURL(cluster, portPlacement) + "/", Glance: apiURL(cluster, portGlance) + "/",
		Nova: apiURL(cluster, portNova) + "/v2.1/", Neutron: apiURL(cluster, portNeutron) + "/",
	}
}

func apiURL(cluster *region.OpenStackCluster, port int) string {
	return "http://" + net.JoinHostPort(cluster.Spec.Address, strconv.Itoa(port))
}

// Catalogue that is desired of a cluster's Keystone. Its own service is made by keystone-manage bootstrap, and kept here.
func Catalogue(cluster *region.OpenStackCluster, values func(path string) (any, bool)) cloud.Catalogue {
	text := lookup(values).text
	c := cloud.Catalogue{Owner: string(cluster.UID), Region: text("keystone.region"), Project: "service", Roles: []string{"admin", "service"}}
	for _, name := range []string{"placement", "glance", "nova", "neutron"} {
		c.Users = append(c.Users, cloud.User{Name: name, Password: text(name + ".keystone.password")})
	}
	c.Services = []cloud.Service{
		{Name: "keystone", Type: "identity", URL: apiURL(cluster, portKeystone)},
		{Name: "placement", Type: "placement", URL: apiURL(cluster, portPlacement)},
		{Name: "glance", Type: "image", URL: apiURL(cluster, portGlance)},
		{Name: "nova", Type: "compute", URL: apiURL(cluster, portNova) + "/v2.1"},
		{Name: "neutron", Type: "network", URL: apiURL(cluster, portNeutron)},
	}
	return c
}
