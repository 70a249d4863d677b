package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/region/host"
)

// LabelContributor marks a Secret, in the namespace of hosts, with what a contributor besides
// OpenStack adds to a host: its value is the contributor's name, the Secret's name is
// HOST.CONTRIBUTOR, and configuration.SecretKey holds the contribution (decision 013). It also has
// openstack.LabelCluster with the host's cluster, whose controller merges it. The host's agent has no
// right to read it: it reads the Secret with the host's own name, which all are merged into.
const LabelContributor = "regiond.dev/contributor"

// contributions to a cluster's hosts by host and contributor, as they are stored. Mostly there are
// none, so only metadata is listed. stray are those that reach no host, one sentence each: the
// cluster does not stand still for them.
func contributions(ctx context.Context, c client.Client, cluster string, hosts []openstack.Host) (all map[string]map[string][]byte, stray []string, err error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := c.List(ctx, &list, client.InNamespace(host.Namespace), client.HasLabels{LabelContributor},
		client.MatchingLabels{openstack.LabelCluster: cluster}); err != nil {
		return nil, nil, fmt.Errorf("contributions to hosts: %w", err)
	}
	all = map[string]map[string][]byte{}
	for _, m := range list.Items {
		contributor := m.Labels[LabelContributor]
		name, why := contributedTo(m.Name, contributor, hosts)
		if why != "" {
			stray = append(stray, fmt.Sprintf("Secret %s/%s adds nothing to any host: %s", m.Namespace, m.Name, why))
			continue
		}
		s := &corev1.Secret{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(&m), s); client.IgnoreNotFound(err) != nil {
			return nil, nil, fmt.Errorf("contribution of %s to host %s: %w", contributor, name, err)
		} else if err != nil {
			continue // removed meanwhile
		}
		if all[name] == nil {
			all[name] = map[string][]byte{}
		}
		all[name][contributor] = s.Data[configuration.SecretKey]
	}
	slices.Sort(stray)
	return all, stray, nil
}

// contributedTo is the host that a Secret of a contributor is for, by its name; why says that it is for none.
func contributedTo(secret, contributor string, hosts []openstack.Host) (name, why string) {
	name, ok := strings.CutSuffix(secret, "."+contributor)
	switch {
	case contributor == "":
		return "", fmt.Sprintf("its label %s is empty; it is to be the name of its contributor", LabelContributor)
	case !ok:
		return "", fmt.Sprintf("its label %s says that %s contributes it; its name is to be HOST.%s", LabelContributor, contributor, contributor)
	case !slices.ContainsFunc(hosts, func(h openstack.Host) bool { return h.Name == name }):
		return "", fmt.Sprintf("the cluster has no host %s; name it HOST.%s after one that it has, or delete it", name, contributor)
	}
	return name, ""
}
