// Package service is the table of an OpenStack cluster's services. Each row is the one home of a
// service's ports, user number, needs, schema and folders. Go code uses the rows; this package's
// tests compare manifests, scripts, templates and the recipes of images with them.
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
	// Name of the service's image, of its configuration's role and, if it has an API, of its user in
	// Keystone.
	Name string
	// Gate is the condition that is true once the service has been proved to work.
	Gate string
	// Proof says what the proof was.
	Proof string
	// Needs are gates that must be passed before the service's workloads start. Its schema's job needs
	// only MariaDB's.
	Needs []string
	// User owns the service's files. Its number is the same in every image and on every host, because
	// files outlive both.
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

// Workload is a Deployment or StatefulSet. If it listens, a Kubernetes Service of the same name
// selects it.
type Workload struct {
	Name string
	// Port that it listens on, 0 if it listens nowhere.
	Port int
}

// API is an entry in Keystone's catalogue.
type API struct {
	// Type of the service, e.g. compute.
	Type string
	// Path of its URL.
	Path string
}

// Schema is the service's schema in MariaDB, which a Job creates or migrates before the service's
// workloads start.
type Schema struct {
	Databases []string
	// Order of the job: the longest ones, and those that others wait for, come first.
	Order int
}

// Folder is a folder on the seed host.
type Folder struct {
	Name string
	Mode fs.FileMode
}

// Port returns the port that clients use.
func (s Service) Port() int { return s.Workloads[0].Port }

// Address returns the service's address at an IP address, as host:port.
func (s Service) Address(ip string) string { return net.JoinHostPort(ip, strconv.Itoa(s.Port())) }

// URL returns the URL of the service's API at an IP address, without a trailing slash.
func (s Service) URL(ip string) string { return "http://" + s.Address(ip) + s.API.Path }

// Of returns the service that has a gate; an empty one for other conditions.
func Of(gate string) Service {
	i := slices.IndexFunc(All, func(s Service) bool { return s.Gate == gate })
	if i < 0 {
		return Service{}
	}
	return All[i]
}

// Schemas returns the services with a schema, in the order of their jobs.
func Schemas() []Service {
	all := slices.DeleteFunc(slices.Clone(All), func(s Service) bool { return s.Schema == nil })
	slices.SortFunc(all, func(a, b Service) int { return cmp.Compare(a.Schema.Order, b.Schema.Order) })
	return all
}
