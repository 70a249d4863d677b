// Package openstack computes the desired state of an OpenStack cluster: from its declaration, its
// secrets, the images there are and its hosts it makes the Kubernetes objects of the control plane
// and the configuration of each compute node. It is pure: what is to be done about it is package
// rollout's.
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
	// AnnotationGate is the gate that an object is part of. Objects without it come before all gates.
	AnnotationGate = "regiond.dev/gate"
	// LabelRetained is on the Secret of a cluster that is no longer declared: it is kept for as long as the cluster's data.
	// AnnotationRetained is when that was, AnnotationRelease the release of its databases.
	LabelRetained      = "regiond.dev/retained"
	AnnotationRetained = "regiond.dev/retained-since"
	AnnotationRelease  = "regiond.dev/retained-release"
)

// Where the secrets of a cluster are, in its namespace: the tree as JSON.
const (
	SecretName = "openstack-secrets"
	SecretKey  = "secrets.json"
)

// Namespace of a cluster.
func Namespace(cluster string) string { return "openstack-" + cluster }

// Input is all that a cluster's state depends on.
type Input struct {
	Cluster    *region.OpenStackCluster
	RegionName string
	// DataDir of the control plane.
	DataDir string
	// Secrets of the cluster, in the tree of values. Nil: not generated yet; then "<secret:PATH>" stands for them.
	Secrets map[string]any
	Images  oci.Set
	Hosts   []Host
}

// Host is a compute node of the cluster.
type Host struct {
	Name string
	// UID of the Host object.
	UID types.UID
	// Address in the provisioning network. Empty: not known yet, and it can't be configured.
	Address string
	// Registration is the UUID of its nova-compute service, empty before it has registered.
	Registration string
	// Release that its packages are of, empty if it is not known. Its configuration is of that one, whatever the cluster's is.
	Release region.OpenStackRelease `json:",omitempty"`
	// Contributions of others to its configuration, encoded, by contributor.
	Contributions map[string][]byte `json:",omitempty"`
}

// State is what a cluster is to be.
type State struct {
	// Objects in the order in which they are applied: gate by gate.
	Objects []*unstructured.Unstructured
	// Nodes by the name of their host, and the digests of their encodings.
	Nodes   map[string]configuration.Configuration
	Digests map[string]string
	// Configs are the files of pods by role.
	Configs map[string][]configgen.File
	// Values that the configuration of pods was made of. They hold secrets.
	Values   *configgen.Values
	Warnings []string
	// Images that pods run.
	Images  oci.Set
	secrets map[string]any

	// What it was rendered from, for Composer.Next.
	composer *Composer
	cluster  rendered
	hosts    map[string]rendered
	// shared files: most are the same on all nodes, and a thousand of them are kept once.
	shared map[string]string
}

// Gate returns the objects of a gate; "" stands for those before all gates.
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

// New reads templates, as configgen.Load does, and takes a base as kustomize.Build does.
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

// Default is the composer of the templates and manifests in this program.
var Default = sync.OnceValues(func() (*Composer, error) {
	base, err := kustomize.Base()
	if err != nil {
		return nil, err
	}
	return New(templates.FS, base)
})

// Source of the configuration.
func (c *Composer) Source() *configgen.Source { return c.source }

// Desired is Composer.Desired of this program's templates and manifests.
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

// DataDir is the folder of a cluster's data on the seed host.
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
	// Pods with data on the seed host's disk mount its folders, which the stricter levels forbid.
	l["pod-security.kubernetes.io/enforce"] = "privileged"
	u.SetLabels(l)
	return u
}
