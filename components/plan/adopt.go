package plan

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/rollout"
	"regiond.dev/regiond/images/oci"
	"regiond.dev/regiond/region/host"
)

// Running lists the images of a cluster's pods, by the references in its Deployments and
// StatefulSets: only images that regiond has built, not those of containers that an operator's
// patch adds. It is empty for a cluster that does not exist yet.
func Running(ctx context.Context, c client.Client, cluster string) ([]string, error) {
	var images []string
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: kind + "List"})
		err := c.List(ctx, &list, client.InNamespace(openstack.Namespace(cluster)), client.MatchingLabels{openstack.LabelCluster: cluster})
		if err != nil {
			return nil, fmt.Errorf("list %s of %s: %w", kind, openstack.Namespace(cluster), err)
		}
		for _, o := range list.Items {
			for _, field := range []string{"initContainers", "containers"} {
				containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", field)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", rollout.RefOf(&o), err)
				}
				for _, container := range containers {
					if m, ok := container.(map[string]any); ok {
						if image, _ := m["image"].(string); strings.HasPrefix(image, oci.Registry+"/") {
							images = append(images, image)
						}
					}
				}
			}
		}
	}
	return images, nil
}

// Disturbs names the first thing that applying a state would restart, replace or run again; empty
// if nothing. It changes nothing.
func Disturbs(ctx context.Context, c client.Client, s *openstack.State, hosts []openstack.Host) (string, error) {
	there := map[string]bool{} // gates with live workloads
	var missing []*unstructured.Unstructured
	for _, o := range s.Objects {
		switch o.GetKind() {
		case "Deployment", "StatefulSet", "DaemonSet", "Job":
		default:
			continue // pods restart only if their template changes, which names mounted objects by content
		}
		change, err := rollout.Compare(ctx, c, o)
		if err != nil {
			return "", err
		}
		switch {
		case change.Action == rollout.ActionCreate && o.GetKind() == "Job":
			missing = append(missing, o)
		case change.Action == rollout.ActionReplace || change.RestartsPods():
			return change.Object.String(), nil
		case change.Action != rollout.ActionCreate && o.GetKind() != "Job":
			there[o.GetAnnotations()[openstack.AnnotationGate]] = true
		}
	}
	for _, job := range missing {
		if there[job.GetAnnotations()[openstack.AnnotationGate]] {
			return rollout.RefOf(job).String(), nil // the schema of a running service
		}
	}
	return disturbsHost(ctx, c, s, hosts)
}

func disturbsHost(ctx context.Context, c client.Client, s *openstack.State, hosts []openstack.Host) (string, error) {
	for _, h := range hosts {
		conf, known := s.Nodes[h.Name]
		stored := &metav1.PartialObjectMetadata{}
		stored.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := c.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: h.Name}, stored)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("configuration of host %s: %w", h.Name, err)
		}
		was := stored.Annotations[AnnotationDigest]
		if !known || was == "" {
			continue // it keeps its configuration, or has none yet
		}
		_, digest, err := conf.Encode()
		if err != nil {
			return "", fmt.Errorf("configuration of host %s: %w", h.Name, err)
		}
		if digest != was {
			return "the configuration of host " + h.Name, nil
		}
	}
	return "", nil
}
