package region

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// OpenStack declares the OpenStack clusters of the region, one per machine family.
type OpenStack struct {
	// Clusters of OpenStack, each with a control plane of its own.
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Clusters []OpenStackDeclaration `json:"clusters,omitempty"`
}

// OpenStackRelease names a release of OpenStack, https://releases.openstack.org.
// +kubebuilder:validation:Enum=epoxy;gazpacho
type OpenStackRelease string

// Releases that regiond has images for.
const (
	ReleaseEpoxy    OpenStackRelease = "epoxy"    // 2025.1, Debian trixie
	ReleaseGazpacho OpenStackRelease = "gazpacho" // 2026.1, Debian forky
)

// OpenStackDeclaration declares one OpenStack cluster.
type OpenStackDeclaration struct {
	// Name of the cluster, a DNS label (RFC 1123). Its pods are in the namespace openstack-NAME.
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Release of OpenStack. Default epoxy.
	// +optional
	Release OpenStackRelease `json:"release,omitempty"`
	// Address of the seed host at which the cluster's APIs and message broker are served, on their
	// usual ports. Two clusters have two addresses. Default: the seed host's address in the
	// provisioning network.
	// +optional
	Address string `json:"address,omitempty"`
	// Profiles whose hosts are the cluster's compute hosts. May be left out if there is one cluster:
	// all hosts are.
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Profiles []string `json:"profiles,omitempty"`
	// PhysicalNetworks that compute hosts connect guests to.
	// +kubebuilder:validation:MaxItems=16
	// +optional
	PhysicalNetworks []PhysicalNetwork `json:"physicalNetworks,omitempty"`
	// Values of the configuration templates and, below PROJECT.conf.SECTION, any option of a project.
	// A value that another layer gives otherwise is an error; see overrides. `regiond config explain`
	// shows where a value comes from.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Values *runtime.RawExtension `json:"values,omitempty"`
	// Overrides are values that are to replace those of other layers.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Overrides *runtime.RawExtension `json:"overrides,omitempty"`
	// Nodes with values of their own.
	// +kubebuilder:validation:MaxItems=4096
	// +listType=map
	// +listMapKey=name
	// +optional
	Nodes []OpenStackNodeValues `json:"nodes,omitempty"`
	// Secrets says where the cluster's passwords and keys come from.
	// +optional
	Secrets OpenStackSecrets `json:"secrets,omitzero"`
	// PatchesDir is a folder on the seed host with the operator's own Kustomize patches, *.yaml, which
	// `regiond apply` reads. Default: /etc/regiond/openstack/NAME, if it is there.
	// +kubebuilder:validation:Pattern=`^/.`
	// +optional
	PatchesDir string `json:"patchesDir,omitempty"`
}

// OpenStackSecrets says where the passwords and keys of a cluster come from.
type OpenStackSecrets struct {
	// Source of the secrets. Default: regiond generates and keeps them.
	// +optional
	Source SecretSource `json:"source,omitzero"`
}

// SecretSource is where secrets come from, if not from regiond itself.
type SecretSource struct {
	// ExternalSecrets takes them from a store of the External Secrets operator (https://external-secrets.io), which must be
	// installed in the region's control plane. The store has all of them: `regiond config secrets` lists them.
	// +optional
	ExternalSecrets *ExternalSecretStore `json:"externalSecrets,omitempty"`
}

// ExternalSecretStore is an entry of a store of the External Secrets operator.
type ExternalSecretStore struct {
	// Store is the name of the ClusterSecretStore.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Store string `json:"store"`
	// Entry of the store, a JSON object with the tree of secrets: {"keystone": {"admin_password": "…"}}. Default:
	// openstack-NAME/openstack-secrets.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Entry string `json:"entry,omitempty"`
	// Property of the entry that is the object, for stores whose entries are lists of texts, e.g. secrets.json of a Secret in the
	// Kubernetes provider. Default: the entry as a whole.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Property string `json:"property,omitempty"`
}

// StoreEntry is the entry of the store that the cluster's secrets are in, if it has one.
func (d *OpenStackDeclaration) StoreEntry() string {
	own := "openstack-" + d.Name + "/openstack-secrets"
	if from := d.Secrets.Source.ExternalSecrets; from != nil {
		return cmp.Or(from.Entry, own)
	}
	return own
}

// PhysicalNetwork is a network outside of OpenStack, as ML2's configuration names it.
type PhysicalNetwork struct {
	// Name in Neutron, e.g. physnet1. Its bridge on the nodes is br-NAME.
	// +kubebuilder:validation:MaxLength=12
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+$`
	Name string `json:"name"`
	// Interface of the nodes, by its name in the profile's network, e.g. data0. It becomes a port of
	// the bridge and must have no addresses.
	// +kubebuilder:validation:MaxLength=15
	Interface string `json:"interface"`
	// VLANs for tenant networks, "first-last" (IEEE 802.1Q: 1 to 4094).
	// +kubebuilder:validation:Pattern=`^[0-9]{1,4}-[0-9]{1,4}$`
	// +optional
	VLANs string `json:"vlans,omitempty"`
}

// OpenStackNodeValues are values of one node.
type OpenStackNodeValues struct {
	// Name of the host.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Values of this node alone.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Values *runtime.RawExtension `json:"values,omitempty"`
	// Overrides replace values of other layers on this node.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Overrides *runtime.RawExtension `json:"overrides,omitempty"`
}

// OpenStackCluster is one OpenStack control plane and its compute hosts.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Release,type=string,JSONPath=`.spec.release`
// +kubebuilder:printcolumn:name=Address,type=string,JSONPath=`.spec.address`
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name=Message,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type OpenStackCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec OpenStackClusterSpec `json:"spec"`
	// +optional
	Status OpenStackClusterStatus `json:"status,omitempty"`
}

// OpenStackClusterList is a list of OpenStackCluster.
//
// +kubebuilder:object:root=true
type OpenStackClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OpenStackCluster `json:"items"`
}

// OpenStackClusterSpec is the declaration with what lay beside region.yaml when it was applied.
type OpenStackClusterSpec struct {
	OpenStackDeclaration `json:",inline"`
	// Patches of the operator, in the order of their file names.
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Patches []Patch `json:"patches,omitempty"`
	// KeystoneRegion of the endpoints, unless the values say another: the region's name when the
	// cluster was created. A cluster from before this was recorded has RegionOne, and keeps it.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	KeystoneRegion string `json:"keystoneRegion,omitempty"`
	// Pinned is what the cluster is rendered from and runs until the next `regiond apply`, whatever
	// images are built and whichever regiond runs. A cluster without it is pinned by regiond's
	// controller, one that already runs to what it runs.
	// +optional
	Pinned *OpenStackPin `json:"pinned,omitempty"`
}

// unrecordedKeystoneRegion is what clusters had before their Keystone region was recorded.
const unrecordedKeystoneRegion = "RegionOne"

// EndpointRegion is the Keystone region of the cluster's endpoints, unless its values say another.
func (c *OpenStackCluster) EndpointRegion() string {
	return cmp.Or(c.Spec.KeystoneRegion, unrecordedKeystoneRegion)
}

// InForce is the release that the cluster runs: the pinned one, or that of its declaration before
// it was pinned.
func (c *OpenStackCluster) InForce() OpenStackRelease {
	if c.Spec.Pinned != nil {
		return c.Spec.Pinned.Images.Release
	}
	return c.Spec.Release
}

// OpenStackPin holds a cluster to the templates and images of the last apply.
type OpenStackPin struct {
	// Templates is the digest of the templates and manifests, which are stored under it in the
	// namespace regiond-system.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	Templates string `json:"templates"`
	// Images of the control plane.
	Images OpenStackImages `json:"images"`
}

// OpenStackImages is an image set: the component images of one release.
type OpenStackImages struct {
	// Release of OpenStack that the images are of. It is the one in force.
	// +kubebuilder:validation:MaxLength=40
	Release OpenStackRelease `json:"release"`
	// Debian is the release of Debian whose packages are in them.
	// +optional
	Debian string `json:"debian,omitempty"`
	// Recipe is the key of the recipe that they were made by.
	// +optional
	Recipe string `json:"recipe,omitempty"`
	// Built is when.
	// +optional
	Built *metav1.Time `json:"built,omitempty"`
	// Images by name.
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=name
	Images []OpenStackImage `json:"images"`
}

// OpenStackImage is one image of a set.
type OpenStackImage struct {
	// Name in the manifests, e.g. keystone.
	Name string `json:"name"`
	// Repository in the registry, e.g. openstack/epoxy/keystone.
	Repository string `json:"repository"`
	// Digest of its manifest, e.g. sha256:….
	Digest string `json:"digest"`
	// Version of its main package in Debian.
	// +optional
	Version string `json:"version,omitempty"`
	// Bytes of all its blobs.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
}

// Patch is a file of the operator's folder of patches: a strategic merge or JSON 6902 patch as
// Kustomize takes it.
type Patch struct {
	// File it was read from, for messages.
	File string `json:"file"`
	// Content of the file, YAML.
	Content string `json:"content"`
}

// Gates of an OpenStackCluster in their order: each is a condition, proved end to end, e.g. by a
// row that was written and read.
const (
	ConditionMariaDB   = "MariaDB"
	ConditionRabbitMQ  = "RabbitMQ"
	ConditionMemcached = "Memcached"
	ConditionKeystone  = "Keystone"
	ConditionPlacement = "Placement"
	ConditionGlance    = "Glance"
	ConditionNova      = "Nova"
	ConditionNeutron   = "Neutron"
)

// Gates in the order in which they are passed.
var Gates = []string{ConditionMariaDB, ConditionRabbitMQ, ConditionMemcached, ConditionKeystone, ConditionPlacement, ConditionGlance,
	ConditionNova, ConditionNeutron}

// Further conditions of an OpenStackCluster. Ready is ConditionReady.
const (
	// ConditionConfigured: the configuration was rendered and applied.
	ConditionConfigured = "Configured"
	// ConditionNodes: every compute host runs its configuration, is up and is mapped to its cell.
	ConditionNodes = "Nodes"
)

// OpenStackClusterStatus is what was observed.
type OpenStackClusterStatus struct {
	// ObservedGeneration of the spec that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Services of the control plane.
	// +optional
	// +listType=map
	// +listMapKey=name
	Services []OpenStackService `json:"services,omitempty"`
	// NodesTotal is how many nodes the cluster has, NodesReady how many of them are ready.
	// +optional
	NodesTotal int32 `json:"nodesTotal,omitempty"`
	// +optional
	NodesReady int32 `json:"nodesReady,omitempty"`
	// Nodes of the cluster, those that are not ready first, and not more than MaxListedNodes. Each
	// one's own state is in the status of its Host.
	// +optional
	// +listType=map
	// +listMapKey=name
	Nodes []OpenStackNode `json:"nodes,omitempty"`
	// FernetKeys that Keystone signs tokens with.
	// +optional
	FernetKeys *OpenStackFernetKeys `json:"fernetKeys,omitempty"`
}

// OpenStackFernetKeys are the keys that Keystone signs tokens with. They rotate by themselves.
type OpenStackFernetKeys struct {
	// Since is when the present keys came into force, or when regiond first saw them.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Next is when they rotate next.
	// +optional
	Next *metav1.Time `json:"next,omitempty"`
	// Message says why they do not rotate, or what a rotation that is due waits for.
	// +optional
	Message string `json:"message,omitempty"`
}

// MaxListedNodes bounds the nodes in a cluster's status: an object has to fit into etcd, however
// many nodes there are.
const MaxListedNodes = 64

// OpenStackService is one workload of the control plane.
type OpenStackService struct {
	// Name of the workload, e.g. nova-api.
	Name string `json:"name"`
	// Version of the Debian package that it runs.
	// +optional
	Version string `json:"version,omitempty"`
	// Ready is true if all its pods are, and run what is desired.
	Ready bool `json:"ready"`
	// Message says why it is not ready.
	// +optional
	Message string `json:"message,omitempty"`
}

// OpenStackNode is a compute host as the cluster's control plane sees it.
type OpenStackNode struct {
	// Name of the host.
	Name string `json:"name"`
	// Ready is true if the node runs its configuration, its service and agents are up, and it is
	// mapped to its cell.
	Ready bool `json:"ready"`
	// Message says why it is not ready.
	// +optional
	Message string `json:"message,omitempty"`
}
