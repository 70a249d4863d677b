// Package openstack computes the desired state of an OpenStack cluster, that is, the Kubernetes
// objects of its control plane and the configuration of each compute host, from its declaration,
// secrets, images and hosts. It is pure; package rollout applies the state.
package openstack

import (
	"fmt"
	"io/fs"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/kustomize"
	"regiond.dev/regiond/components/templates"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/region"
)

// Labels and annotations of a cluster's objects.
const (
	LabelCluster   = "regiond.dev/openstack-cluster"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelPartOf    = "app.kubernetes.io/part-of"
	LabelName      = "app.kubernetes.io/name"
	ManagedBy      = "regiond"
	// LabelConfig is on a Secret with the configuration of a role and has its name.
	LabelConfig = "regiond.dev/config"
	// AnnotationGate is the gate that an object belongs to. Objects without it come before all gates.
	AnnotationGate = "regiond.dev/gate"
	// LabelRetained is on the Secret of a cluster that is no longer declared, which is kept as long as
	// the cluster's data. AnnotationRetained is when the cluster was removed, AnnotationRelease the
	// release of its databases.
	LabelRetained      = "regiond.dev/retained"
	AnnotationRetained = "regiond.dev/retained-since"
	AnnotationRelease  = "regiond.dev/retained-release"
)

// The Secret with a cluster's secrets, in its namespace, and the key of the tree as JSON.
const (
	SecretName = "openstack-secrets"
	SecretKey  = "secrets.json"
)

// Namespace returns the namespace of a cluster.
func Namespace(cluster string) string { return "openstack-" + cluster }

// Input is everything that a cluster's state depends on.
type Input struct {
	Cluster    *region.OpenStackCluster
	RegionName string
	// DataDir of the control plane.
	DataDir string
	// Secrets of the cluster, in the tree of values. Nil if they have not been generated yet;
	// "<secret:PATH>" then stands for them.
	Secrets map[string]any
	Images  oci.Set
	Hosts   []Host
}

// Host is a compute host of the cluster.
type Host struct {
	Name string
	// UID of the Host object.
	UID types.UID
	// Address in the provisioning network. Empty if it is not known yet; the host can't be configured
	// then.
	Address string
	// Registration is the UUID of its nova-compute service, empty before it has registered.
	Registration string
	// Release of its packages, empty if unknown. Its configuration is for this release, whatever the
	// cluster's is.
	Release region.OpenStackRelease `json:",omitempty"`
	// Contributions of others to its configuration, encoded, by contributor.
	Contributions map[string][]byte `json:",omitempty"`
}

// State is the desired state of a cluster.
type State struct {
	// Objects in the order in which they are applied: gate by gate.
	Objects []*unstructured.Unstructured
	// Nodes are the configurations by host name, NodeDigests the digests of their encodings.
	Nodes   map[string]configuration.Configuration
	Digests map[string]string
	// Configs are the files of pods by role.
	Configs map[string][]configgen.File
	// Values that the configuration of pods was rendered from. They contain secrets.
	Values   *configgen.Values
	Warnings []string
	// Images that pods run.
	Images  oci.Set
	secrets map[string]any

	// The input it was rendered from, for Composer.Next.
	composer *Composer
	cluster  rendered
	hosts    map[string]rendered
	// shared files: most are the same on all hosts, and a thousand hosts share one copy.
	shared map[string]string
}

// Gate returns the objects of a gate; "" means those before all gates.
func (s *State) Gate(name string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, o := range s.Objects {
		if o.GetAnnotations()[AnnotationGate] == name {
			all = append(all, o)
		}
	}
	return all
}

// Composer has the templates and the base of the manifests. It may be used concurrently.
type Composer struct {
	source          *configgen.Source
	templates, base fs.FS
	digest          string
}

// New loads templates like configgen.Load, and a base like kustomize.Build.
func New(files, base fs.FS) (*Composer, error) {
	source, err := configgen.Load(configgen.Templates{Name: templates.Name, FS: files})
	if err != nil {
		return nil, fmt.Errorf("templates: %w", err)
	}
	c := &Composer{source: source, templates: files, base: base}
	if c.digest, err = c.sum(); err != nil {
		return nil, fmt.Errorf("templates: %w", err)
	}
	return c, nil
}

// Default returns the composer of this program's templates and manifests.
var Default = sync.OnceValues(func() (*Composer, error) {
	base, err := kustomize.Base()
	if err != nil {
		return nil, err
	}
	return New(templates.FS, base)
})

// Source returns the source of the configuration.
func (c *Composer) Source() *configgen.Source { return c.source }

// Desired is Composer.Desired with this program's templates and manifests.
func Desired(in Input) (*State, error) {
	c, err := Default()
	if err != nil {
		return nil, err
	}
	return c.Desired(in)
}

func overlay(in Input, configs map[string]kustomize.Config) kustomize.Overlay {
	images := map[string]string{}
	for name, i := range in.Images.Images {
		images[name] = i.Reference()
	}
	return kustomize.Overlay{
		Namespace: Namespace(in.Cluster.Name), Labels: labels(in.Cluster.Name), Images: images, Configs: configs,
		DataDir: DataDir(in.DataDir, in.Cluster.Name), Patches: in.Cluster.Spec.Patches,
	}
}

// DataDir returns the folder of a cluster's data on the seed host.
func DataDir(dataDir, cluster string) string { return dataDir + "/openstack/" + cluster }

func labels(cluster string) map[string]string {
	return map[string]string{LabelCluster: cluster, LabelManagedBy: ManagedBy, LabelPartOf: "openstack"}
}

func namespace(cluster string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind("Namespace")
	u.SetName(Namespace(cluster))
	l := labels(cluster)
	// Pods with data on the seed host's disk mount host folders, which stricter levels forbid.
	l["pod-security.kubernetes.io/enforce"] = "privileged"
	u.SetLabels(l)
	return u
}
