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

// LabelContributor marks a Secret, in the namespace of hosts, that holds the contribution of a
// contributor other than OpenStack to a host: its value is the contributor's name, the Secret's
// name is HOST.CONTRIBUTOR, and configuration.SecretKey holds the contribution (decision 013). The
// Secret also has openstack.LabelCluster with the host's cluster, whose controller merges it. The
// host's agent is not allowed to read it: it reads the Secret with the host's own name, which has
// the merged result.
const LabelContributor = "regiond.dev/contributor"

// contributions returns the stored contributions to a cluster's hosts by host and contributor.
// Usually there are none, so only metadata is listed. stray has a sentence for each one that
// reaches no host; these do not block the cluster.
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

// contributedTo returns the host that a contributor's Secret is for, by the Secret's name; why says
// why there is none.
func contributedTo(secret, contributor string, hosts []openstack.Host) (name, why string) {
	name, ok := strings.CutSuffix(secret, "."+contributor)
	switch {
	case contributor == "":
		return "", fmt.Sprintf("its label %s is empty; set it to the name of the contributor", LabelContributor)
	case !ok:
		return "", fmt.Sprintf("its label %s is %s; name it HOST.%s", LabelContributor, contributor, contributor)
	case !slices.ContainsFunc(hosts, func(h openstack.Host) bool { return h.Name == name }):
		return "", fmt.Sprintf("the cluster has no host %s; name it HOST.%s after an existing host, or delete it", name, contributor)
	}
	return name, ""
}
