// Package plan says what a region's OpenStack clusters are to be and what would change: it gathers
// what their state depends on, compares it with what is there, tells what follows from that, and
// hands hosts their configuration, a few at a time.
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

// Facts are what the state of a cluster depends on, and what is still missing.
type Facts struct {
	openstack.Input
	// Waiting says, one sentence each, what is not known yet.
	Waiting []string
	// Stray says, one sentence each, what is meant for hosts and reaches none.
	Stray []string
}

// Gather finds what the state of a cluster depends on: secrets, images and hosts. The images, and
// with them the release, are those that the cluster is pinned to; of one without a pin, those that
// were built last on this host. Secrets that were not generated yet are nil.
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
			f.Waiting = append(f.Waiting, fmt.Sprintf("host %s: its agent has reported no address in %s yet; it is configured then",
				h.Name, r.Spec.Networks.Provisioning.CIDR))
		}
	}
	return f, nil
}

// EndpointRegion is the Keystone region of a cluster's endpoints, unless its values say another. A
// cluster that is not there yet will have the region's name.
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

// Secrets reads the tree of a cluster's secrets, nil if there is none yet.
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
		// Not the error's own text: it may quote a secret.
		return nil, fmt.Errorf("secret %s: %s is not a JSON object; restore it from a backup, for services use what was in it", key, openstack.SecretKey)
	}
	return tree, nil
}

// Hosts of a cluster by name: those of its profiles, or all if it names none.
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

// registrations that hosts' configurations were last rendered with. Only metadata is read: the configurations are large.
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
