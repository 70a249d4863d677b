// Package plan determines the desired state of a region's OpenStack clusters and what would change:
// it gathers the facts that the state depends on, compares it with the live state, describes the
// consequences, and rolls out configuration to hosts, a few at a time.
package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// Facts are the facts that the state of a cluster depends on, and those that are still missing.
type Facts struct {
	openstack.Input
	// Waiting has one sentence for each fact that is not known yet.
	Waiting []string
	// Stray says, one sentence each, what is meant for hosts and reaches none.
	Stray []string
}

// Gather gathers the facts that the state of a cluster depends on: secrets, images and hosts. The
// images and the release are those that the cluster is pinned to, or, without a pin, the images
// that were last built on this host. Secrets that have not been generated yet are nil.
func Gather(ctx context.Context, c client.Client, r *region.Region, cluster *region.OpenStackCluster) (Facts, error) {
	f := Facts{Input: openstack.Input{Cluster: cluster, RegionName: r.Name, DataDir: r.Spec.ControlPlane.DataDir}}
	var err error
	if f.Secrets, err = Secrets(ctx, c, cluster.Name); err != nil {
		return f, err
	}
	if cluster.Spec.Pinned != nil {
		f.Images = openstack.PinnedImages(cluster.Spec.Pinned)
		f.Cluster = cluster.DeepCopy()
		f.Cluster.Spec.Release = cluster.Spec.Pinned.Images.Release
	} else if f.Images, err = oci.Current(r.Spec.Images.Dir, string(cluster.Spec.Release)); err != nil {
		return f, fmt.Errorf("OpenStack cluster %s: %w", cluster.Name, err)
	}
	if f.Hosts, f.Stray, err = gatherHosts(ctx, c, r, cluster); err != nil {
		return f, fmt.Errorf("OpenStack cluster %s: %w", cluster.Name, err)
	}
	for _, h := range f.Hosts {
		if h.Address == "" {
			f.Waiting = append(f.Waiting, fmt.Sprintf("host %s: waiting for its agent to report an address in %s; the host is configured then",
				h.Name, r.Spec.Networks.Provisioning.CIDR))
		}
	}
	return f, nil
}

// EndpointRegion returns the Keystone region of a cluster's endpoints, unless its values set
// another. A new cluster gets the region's name.
func EndpointRegion(ctx context.Context, c client.Client, regionName, cluster string) (string, error) {
	live := &region.OpenStackCluster{}
	err := c.Get(ctx, client.ObjectKey{Name: cluster}, live)
	if apierrors.IsNotFound(err) {
		return regionName, nil
	}
	if err != nil {
		return "", fmt.Errorf("OpenStack cluster %s: %w", cluster, err)
	}
	return live.EndpointRegion(), nil
}

// Secrets reads the tree of a cluster's secrets; nil if there is none yet.
func Secrets(ctx context.Context, c client.Client, cluster string) (map[string]any, error) {
	s := &corev1.Secret{}
	key := client.ObjectKey{Namespace: openstack.Namespace(cluster), Name: openstack.SecretName}
	err := c.Get(ctx, key, s)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("secrets of OpenStack cluster %s: %w", cluster, err)
	}
	var tree map[string]any
	if err := json.Unmarshal(s.Data[openstack.SecretKey], &tree); err != nil {
		// Without the error's own text, which may quote a secret.
		return nil, fmt.Errorf("secret %s: %s is not a JSON object; restore it from a backup, because services use its previous content", key, openstack.SecretKey)
	}
	return tree, nil
}

// Hosts returns the hosts of a cluster by name: those of its profiles, or all if it names none.
func Hosts(ctx context.Context, c client.Client, r *region.Region, cluster *region.OpenStackCluster) ([]openstack.Host, error) {
	all, _, err := gatherHosts(ctx, c, r, cluster)
	return all, err
}

// gatherHosts is Hosts, with what is meant for hosts and reaches none.
func gatherHosts(ctx context.Context, c client.Client, r *region.Region, cluster *region.OpenStackCluster) (all []openstack.Host, stray []string, err error) {
	provisioning, err := netip.ParsePrefix(r.Spec.Networks.Provisioning.CIDR)
	if err != nil {
		return nil, nil, fmt.Errorf("spec.networks.provisioning.cidr: %w", err)
	}
	var list region.HostList
	if err := c.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("its hosts: %w", err)
	}
	registered, err := registrations(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	for _, h := range list.Items {
		if h.Spec.Role != region.RoleCompute || len(cluster.Spec.Profiles) > 0 && !slices.Contains(cluster.Spec.Profiles, h.Spec.Profile) {
			continue
		}
		all = append(all, openstack.Host{Name: h.Name, UID: h.UID, Address: addressIn(provisioning, h.Status.Addresses), Registration: registered[h.Name],
			Release: h.Status.Release})
	}
	slices.SortFunc(all, func(a, b openstack.Host) int { return strings.Compare(a.Name, b.Name) })
	added, stray, err := contributions(ctx, c, cluster.Name, all)
	for i := range all {
		all[i].Contributions = added[all[i].Name]
	}
	return all, stray, err
}

// addressIn returns the first address in a network, "" if there is none.
func addressIn(network netip.Prefix, addresses []string) string {
	for _, s := range addresses {
		if a, err := netip.ParseAddr(s); err == nil && network.Contains(a) {
			return s
		}
	}
	return ""
}

// registrations returns the registrations that hosts' configurations were last rendered with. It
// reads only metadata, because the configurations are large.
func registrations(ctx context.Context, c client.Client) (map[string]string, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := c.List(ctx, &list, client.InNamespace(host.Namespace), client.MatchingLabels{LabelConfiguration: "true"}); err != nil {
		return nil, fmt.Errorf("configurations of hosts: %w", err)
	}
	all := map[string]string{}
	for _, s := range list.Items {
		all[s.Name] = s.Annotations[AnnotationRegistration]
	}
	return all, nil
}
