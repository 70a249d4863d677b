// Package addons is what every region's cluster contains besides Kubernetes itself: namespaces,
// roles, CoreDNS, and the CustomResourceDefinitions. All of it is applied server-side at every
// start, which repairs drift and needs no stored state.
package addons

import (
	"bytes"
	"embed"
	"fmt"
	"net/netip"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/region"
)

// Values are the values of the manifests.
type Values struct {
	// DNSAddress is the cluster DNS server's Service address.
	DNSAddress netip.Addr
	// CoreDNSImage is the image's name in the container runtime.
	CoreDNSImage string
	// Upstreams resolve names outside the cluster. Without any, such names do not resolve.
	Upstreams []netip.Addr
}

//go:embed manifests/*.yaml
var manifests embed.FS

// Objects renders everything except the CustomResourceDefinitions, in the order of application.
func Objects(v Values) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, name := range []string{"namespaces", "roles", "coredns"} {
		b, err := render("manifests/"+name+".yaml", v)
		if err != nil {
			return nil, err
		}
		objects, err := decode(b)
		if err != nil {
			return nil, fmt.Errorf("manifest %s: %w", name, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// Definitions returns the CustomResourceDefinitions of the region's kinds.
func Definitions() ([]*unstructured.Unstructured, error) {
	documents, err := region.CRDs()
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, d := range documents {
		objects, err := decode(d)
		if err != nil {
			return nil, fmt.Errorf("definition %.60q: %w", d, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

func render(name string, v Values) ([]byte, error) {
	t, err := template.New("").Option("missingkey=error").Funcs(template.FuncMap{"join": join}).ParseFS(manifests, name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name[strings.LastIndex(name, "/")+1:], v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func join(addrs []netip.Addr, sep string) string {
	s := make([]string, len(addrs))
	for i, a := range addrs {
		s[i] = a.String()
	}
	return strings.Join(s, sep)
}

// decode splits a stream of YAML documents.
func decode(stream []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for doc := range bytes.SplitSeq(stream, []byte("\n---\n")) {
		u := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(doc, &u.Object); err != nil {
			return nil, err
		}
		if len(u.Object) == 0 {
			continue
		}
		if u.GetKind() == "" || u.GetName() == "" {
			return nil, fmt.Errorf("a document has no kind or name: %.60q", doc)
		}
		all = append(all, u)
	}
	return all, nil
}
