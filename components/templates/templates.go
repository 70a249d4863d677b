// Package templates is the one source of the configuration of OpenStack's services, of pods and of
// nodes: files.yaml says which file is made of which template, services.yaml what nodes run,
// schema.yaml what the values take, values/ holds the defaults and declares the secrets. Package
// configgen reads it.
package templates

import "embed"

// Name of these templates in messages.
const Name = "openstack"

// FS holds them all.
//
//go:embed files.yaml services.yaml schema.yaml values all:files
var FS embed.FS
