// Package region is the declaration of a cloud region: the types of region.yaml and of every custom
// resource in the group regiond.dev, their defaults, the reasons of their conditions and the effect
// of each field. Package check loads and checks the file.
//
// +kubebuilder:object:generate=true
// +groupName=regiond.dev
// +versionName=v1alpha1
package region

// The working directory of go generate is this folder; -C leads back to the root of the module.
//
//go:generate go tool -C .. -modfile=tools/go.mod controller-gen object paths=./region paths=./machine/inventory crd output:crd:artifacts:config=region/crd
