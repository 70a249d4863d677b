package discovery

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"regiond.dev/regiond/region"
)

// What region.yaml says of a server arrives in its object, field by field.
func TestDeclaration(t *testing.T) {
	st := region.StaticServer{Name: "s1", BMC: region.BMCEndpoint{Address: "10.30.0.60", Credentials: "rack"}, Profile: "p", MACAddresses: []string{"0c:c4:7a:3b:5c:1e"}}
	var s region.Server
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(declaration(st).Object, &s); err != nil {
		t.Fatal(err)
	}
	want := region.BMCEndpoint{Address: "10.30.0.60", Port: region.DefaultBMCPort, Protocol: region.ProtocolIPMI, Credentials: "rack"}
	if s.Name != "s1" || s.Spec.BMC != want || s.Spec.Profile != "p" || !slices.Equal(s.Spec.MACAddresses, st.MACAddresses) {
		t.Errorf("declared %+v, want %+v", s.Spec, st)
	}
	// What is not written is the operator's to set on the object.
	st.Profile, st.MACAddresses = "", nil
	if spec := declaration(st).Object["spec"].(map[string]any); len(spec) != 1 {
		t.Errorf("fields %v are owned by region.yaml, want bmc only", spec)
	}
}
