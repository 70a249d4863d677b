package service

import "regiond.dev/regiond/region"

// Processes of Nova by the names that it registers them under, which are also the names of their
// workloads and of the unit on hosts.
const (
	NovaConductor = "nova-conductor"
	NovaScheduler = "nova-scheduler"
	NovaCompute   = "nova-compute"
)

// FolderDatabase is the folder of MariaDB's files.
const FolderDatabase = "mariadb"

// MariaDB is the database of all services.
var MariaDB = Service{
	Name: "mariadb", Gate: region.ConditionMariaDB, User: 42434,
	Proof:     "a row was written and read back",
	Workloads: []Workload{{"mariadb", 3306}},
	Folders:   []Folder{{FolderDatabase, 0o700}, {"dumps", 0o700}}, // dumps of databases before an upgrade
}

// RabbitMQ is the message broker of Nova and Neutron.
var RabbitMQ = Service{
	Name: "rabbitmq", Gate: region.ConditionRabbitMQ, User: 42439,
	Proof:     "a message was published and consumed",
	Workloads: []Workload{{"rabbitmq", 5672}},
	Folders:   []Folder{{"rabbitmq", 0o700}},
}

// Management is the Kubernetes Service of RabbitMQ's management API, and ManagementPort its port.
// Only regiond uses it, and it is reachable inside the cluster only.
const (
	Management     = "rabbitmq-management"
	ManagementPort = 15672
)

// Memcached caches tokens. Services that can't reach it work without it.
var Memcached = Service{
	Name: "memcached", Gate: region.ConditionMemcached, User: 42457,
	Proof:     "a value was set and read back",
	Workloads: []Workload{{"memcached", 11211}},
}

// ClientWorkload has OpenStack's command line, and its administrator's login, in its one container.
const ClientWorkload = "openstack-client"

// Keystone issues tokens and has the catalogue.
var Keystone = Service{
	Name: "keystone", Gate: region.ConditionKeystone, User: 42425,
	Proof:     "a token was issued and validated, the catalogue is as declared",
	Needs:     []string{region.ConditionMariaDB},
	Workloads: []Workload{{"keystone", 5000}, {ClientWorkload, 0}},
	API:       &API{Type: "identity"},
	Schema:    &Schema{Databases: []string{"keystone"}, Order: 1},
}

// Placement tracks the resources of hosts and their use by guests.
var Placement = Service{
	Name: "placement", Gate: region.ConditionPlacement, User: 42482,
	Proof:     "a resource provider was created, read and deleted",
	Needs:     []string{region.ConditionKeystone},
	Workloads: []Workload{{"placement", 8778}},
	API:       &API{Type: "placement"},
	Schema:    &Schema{Databases: []string{"placement"}, Order: 3},
}

// Glance stores the images of guests.
var Glance = Service{
	Name: "glance", Gate: region.ConditionGlance, User: 42415,
	Proof:     "an image was uploaded and read back byte for byte",
	Needs:     []string{region.ConditionKeystone},
	Workloads: []Workload{{"glance", 9292}},
	API:       &API{Type: "image"},
	Schema:    &Schema{Databases: []string{"glance"}, Order: 5},
	Folders:   []Folder{{"glance", 0o750}},
}

// Nova runs guests. It needs Placement because nova-conductor and nova-scheduler query its versions
// when they start, and exit if it does not respond (report_client_singleton in
// nova/scheduler/client/report.py).
var Nova = Service{
	Name: "nova", Gate: region.ConditionNova, User: 42436,
	Proof:     "its cells are mapped, conductor and scheduler are up, the API answers",
	Needs:     []string{region.ConditionKeystone, region.ConditionRabbitMQ, region.ConditionPlacement},
	Workloads: []Workload{{"nova-api", 8774}, {"nova-metadata", 8775}, {NovaConductor, 0}, {NovaScheduler, 0}},
	API:       &API{Type: "compute", Path: "/v2.1"},
	Schema:    &Schema{Databases: []string{"nova_api", "nova", "nova_cell0"}, Order: 2},
}

// Neutron manages the networks of guests.
var Neutron = Service{
	Name: "neutron", Gate: region.ConditionNeutron, User: 42435,
	Proof:     "a network with a port was created and deleted",
	Needs:     []string{region.ConditionKeystone, region.ConditionRabbitMQ},
	Workloads: []Workload{{"neutron-api", 9696}, {"neutron-rpc", 0}},
	API:       &API{Type: "network"},
	Schema:    &Schema{Databases: []string{"neutron"}, Order: 4},
}

// All lists all services, in the order of their gates.
var All = []Service{MariaDB, RabbitMQ, Memcached, Keystone, Placement, Glance, Nova, Neutron}
