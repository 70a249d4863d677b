// Package templates is the one source of the configuration of OpenStack's services, of pods and of
// nodes: files.yaml maps templates to files, services.yaml lists what nodes run, schema.yaml has the
// types of values, and values/ has their defaults and declares the secrets. Package configgen
// renders it.
package templates

import "embed"

// Name of these templates in messages.
const Name = "openstack"

// FS holds them all.
//
//go:embed files.yaml services.yaml schema.yaml values all:files
var FS embed.FS
