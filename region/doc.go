// Package region is the declaration of a cloud region: the types of region.yaml
// and of every custom resource in the group regiond.dev, their defaults, their
// validation and their schema. It does no I/O beyond reading the file it is given.
//
// +kubebuilder:object:generate=true
// +groupName=regiond.dev
// +versionName=v1alpha1
// +versionName=v1alpha1
package region

// The working directory of go generate is this folder; -C leads back to the root of the module.
//
//go:generate go tool -C .. -modfile=tools/go.mod controller-gen object paths=./region paths=./machine/inventory crd output:crd:artifacts:config=region/crd
