package addons_test

import (
	"net/netip"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/bootstrap/addons"
)

func objects(t *testing.T, v addons.Values) map[string]*unstructured.Unstructured {
	t.Helper()
	all, err := addons.Objects(v)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]*unstructured.Unstructured{}
	for _, o := range all {
		m[o.GetKind()+"/"+o.GetName()] = o
	}
	return m
}

// strict decodes an object into its type and fails on unknown fields, which the API server would
// drop or refuse.
func strict(t *testing.T, o *unstructured.Unstructured, into any) {
	t.Helper()
	if o == nil {
		t.Fatal("object is missing")
	}
	b, err := yaml.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(b, into); err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

func values() addons.Values {
	return addons.Values{
		DNSAddress: netip.MustParseAddr("10.43.0.10"), CoreDNSImage: "regiond.local/coredns:1",
		Upstreams: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")},
	}
}

func TestManifestsFitTheirTypes(t *testing.T) {
	for name, o := range objects(t, values()) {
		var into any
		switch o.GetKind() {
		case "Namespace":
			into = &corev1.Namespace{}
		case "ServiceAccount":
			into = &corev1.ServiceAccount{}
		case "ConfigMap":
			into = &corev1.ConfigMap{}
		case "Service":
			into = &corev1.Service{}
		case "Deployment":
			into = &appsv1.Deployment{}
		case "ClusterRole":
			into = &rbacv1.ClusterRole{}
		case "ClusterRoleBinding":
			into = &rbacv1.ClusterRoleBinding{}
		default:
			t.Fatalf("%s: no type for it in this test", name)
		}
		strict(t, o, into)
	}
}

func TestCoreDNSRunsRestrictedFromThePayload(t *testing.T) {
	o := objects(t, values())
	var d appsv1.Deployment
	strict(t, o["Deployment/coredns"], &d)
	pod, c := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
	if c.Image != "regiond.local/coredns:1" || c.ImagePullPolicy != corev1.PullNever {
		t.Errorf("got the image %s and pull policy %s, want the payload's image and Never", c.Image, c.ImagePullPolicy)
	}
	if !*pod.SecurityContext.RunAsNonRoot || *c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem ||
		len(c.SecurityContext.Capabilities.Add) != 0 || c.SecurityContext.Capabilities.Drop[0] != "ALL" ||
		pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("got the security contexts %+v and %+v, want restricted ones", pod.SecurityContext, c.SecurityContext)
	}
	var s corev1.Service
	strict(t, o["Service/kube-dns"], &s)
	if s.Spec.ClusterIP != "10.43.0.10" {
		t.Errorf("got the clusterIP %s, want the DNS address", s.Spec.ClusterIP)
	}
	for k, v := range s.Spec.Selector {
		if d.Spec.Template.Labels[k] != v {
			t.Errorf("the Service selects %s=%s, pods have %v", k, v, d.Spec.Template.Labels)
		}
	}
	for _, p := range s.Spec.Ports {
		var found bool
		for _, cp := range c.Ports {
			found = found || cp.ContainerPort == p.TargetPort.IntVal && cp.Protocol == p.Protocol
		}
		if !found {
			t.Errorf("Service port %s has no matching port of the container", p.Name)
		}
	}
}

func TestCorefileForwardsOnlyWithUpstreams(t *testing.T) {
	corefile := func(v addons.Values) string {
		var c corev1.ConfigMap
		strict(t, objects(t, v)["ConfigMap/coredns"], &c)
		return c.Data["Corefile"]
	}
	v := values()
	if got := corefile(v); !strings.Contains(got, "\n    forward . 192.0.2.1 192.0.2.2 {\n") {
		t.Errorf("got\n%s", got)
	}
	v.Upstreams = nil
	if got := corefile(v); strings.Contains(got, "forward") || !strings.Contains(got, "\n    cache 30\n") {
		t.Errorf("got\n%s", got)
	}
}

func TestDefinitionsOfEveryKind(t *testing.T) {
	all, err := addons.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range all {
		names = append(names, d.GetName())
	}
	if got := strings.Join(names, " "); got != "hosts.regiond.dev openstackclusters.regiond.dev regions.regiond.dev servers.regiond.dev" {
		t.Errorf("got %s", got)
	}
}
