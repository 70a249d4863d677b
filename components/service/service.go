// Package service is the table of the services of an OpenStack cluster: one row each, the one home
// of ports, user numbers, needs, schemas and folders. Go code asks the rows; manifests, scripts,
// templates and the recipes of images, which are not Go, are compared with them by this package's
// tests.
package service

import (
	"cmp"
	"io/fs"
	"net"
	"slices"
	"strconv"
)

// Service is a row of the table.
type Service struct {
	// Name of the service's image, of its configuration's role and, if it has an API, of its user in Keystone.
	Name string
	// Gate is the condition that is true when the service was proved to work.
	Gate string
	// Proof says what was seen then.
	Proof string
	// Needs are gates that must have been proved before the service's workloads are started. Its schema's job needs MariaDB's alone.
	Needs []string
	// User owns the service's files. Its number is the same in every image and on every host, for files outlive both.
	User int
	// Workloads of the control plane. The first is the one that clients reach.
	Workloads []Workload
	// API of the service in Keystone's catalogue, nil if it has none.
	API *API
	// Schema of the service in MariaDB, nil if it has none.
	Schema *Schema
	// Folders of the service below the cluster's folder on the seed host.
	Folders []Folder
}

// Workload is a Deployment or StatefulSet, which a Kubernetes Service of the same name leads to if it listens.
type Workload struct {
	Name string
	// Port that it listens on, 0 if it listens nowhere.
	Port int
}

// API is an entry of Keystone's catalogue.
type API struct {
	// Type of the service, e.g. compute.
	Type string
	// Path of its URL.
	Path string
}

// Schema is what a Job makes in MariaDB, and migrates, before the service's workloads are started.
type Schema struct {
	Databases []string
	// Order of the job: what takes longest, or what others wait for, comes first.
	Order int
}

// Folder on the seed host.
type Folder struct {
	Name string
	Mode fs.FileMode
}

// Port that clients reach the service on.
func (s Service) Port() int { return s.Workloads[0].Port }

// Address of the service at an IP address, as host:port.
func (s Service) Address(ip string) string { return net.JoinHostPort(ip, strconv.Itoa(s.Port())) }

// URL of the service's API at an IP address, without a slash at its end.
func (s Service) URL(ip string) string { return "http://" + s.Address(ip) + s.API.Path }

// Of returns the service whose gate it is; an empty one for other conditions.
func Of(gate string) Service {
	i := slices.IndexFunc(All, func(s Service) bool { return s.Gate == gate })
	if i < 0 {
		return Service{}
	}
	return All[i]
}

// Schemas are the services with a schema, in the order of their jobs.
func Schemas() []Service {
	all := slices.DeleteFunc(slices.Clone(All), func(s Service) bool { return s.Schema == nil })
	slices.SortFunc(all, func(a, b Service) int { return cmp.Compare(a.Schema.Order, b.Schema.Order) })
	return all
}
