package cluster

import (
	"strings"

	"regiond.dev/regiond/components/cloud"
	"regiond.dev/regiond/components/cluster/gate"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/service"
	"regiond.dev/regiond/region"
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
	return cloud.Credentials{URL: service.Keystone.URL(cluster.Spec.Address), User: "admin", Project: "admin",
		Password: in(secrets).text("keystone.admin_password")}
}

// Target of a cluster's APIs. The addresses of what is reached inside of the cluster only are added by the caller.
func Target(cluster *region.OpenStackCluster, secrets map[string]any) gate.Target {
	s, address := in(secrets), cluster.Spec.Address
	return gate.Target{
		UID: string(cluster.UID), Namespace: openstack.Namespace(cluster.Name),
		RabbitMQ: service.RabbitMQ.Address(address),
		Database: gate.Login{User: "regiond", Password: s.text("mariadb.admin_password")},
		Broker:   gate.Login{User: "regiond", Password: s.text("rabbitmq.gate_password")}, VHost: "regiond",
		UploadPause: gate.UploadPause,
		Admin:       Admin(cluster, secrets),
		Placement:   service.Placement.URL(address) + "/", Glance: service.Glance.URL(address) + "/",
		Nova: service.Nova.URL(address) + "/", Neutron: service.Neutron.URL(address) + "/",
	}
}

// serviceProject is the project of the services' and the hosts' users.
const serviceProject = "service"

// Catalogue that is desired of a cluster's Keystone. Its own service is made by keystone-manage bootstrap, and kept here.
func Catalogue(cluster *region.OpenStackCluster, values func(path string) (any, bool)) cloud.Catalogue {
	text := lookup(values).text
	c := cloud.Catalogue{Owner: string(cluster.UID), Region: text("keystone.region"), Project: serviceProject, Roles: []string{"admin", "service"}}
	for _, of := range service.All {
		if of.API == nil {
			continue
		}
		c.Services = append(c.Services, cloud.Service{Name: of.Name, Type: of.API.Type, URL: of.URL(cluster.Spec.Address)})
		if of.Name != service.Keystone.Name {
			c.Users = append(c.Users, cloud.User{Name: of.Name, Password: text(of.Name + ".keystone.password")})
		}
	}
	return c
}
