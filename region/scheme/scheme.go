// Package scheme knows the kinds of Kubernetes and of a region, for clients and managers on control
// hosts. It is apart from package region because agents and installers, which are small, don't need
// the kinds of Kubernetes.
package scheme

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"regiond.dev/regiond/region"
)

// New returns a scheme with all kinds of Kubernetes' own groups and of regiond's.
func New() *runtime.Scheme {
	s := runtime.NewScheme()
	// They fail for a kind that is registered as two types: a mistake in the program, which every test
	// finds.
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(region.AddToScheme(s))
	return s
}
