package region

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of region.yaml and of every custom resource.
var GroupVersion = schema.GroupVersion{Group: "regiond.dev", Version: "v1alpha1"}

// AddToScheme registers all types of the group.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Region{}, &RegionList{},
		&Server{}, &ServerList{},
		&Host{}, &HostList{},
		&OpenStackCluster{}, &OpenStackClusterList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
