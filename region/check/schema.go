package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/region"
)

// schemaURL names the dialect. Draft-07 and not a later one, because the language servers of
// common editors (yaml-language-server) support it best.
const schemaURL = "http://json-schema.org/draft-07/schema#"

// Schema is the JSON Schema (draft-07) of region.yaml. It is derived from the CRD, so that editors,
// `regiond validate` and the API server agree; in addition it refuses unknown fields, which the
// API server would drop in silence.
func Schema() ([]byte, error) {
	root, err := loadSchema()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(root); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// schemaNode is the part of JSON Schema that controller-gen writes into a CRD.
type schemaNode struct {
	Schema      string `json:"$schema,omitempty"`
	ID          string `json:"$id,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`

	Type  string   `json:"type,omitempty"`
	Enum  []string `json:"enum,omitempty"`
	Const string   `json:"const,omitempty"`

	Pattern   string `json:"pattern,omitempty"`
	MinLength *int   `json:"minLength,omitempty"`
	MaxLength *int   `json:"maxLength,omitempty"`

	Format  string `json:"format,omitempty"`
	Minimum *int64 `json:"minimum,omitempty"`
	Maximum *int64 `json:"maximum,omitempty"`

	Items    *schemaNode `json:"items,omitempty"`
	MinItems *int        `json:"minItems,omitempty"`
	MaxItems *int        `json:"maxItems,omitempty"`

	Properties    map[string]*schemaNode `json:"properties,omitempty"`
	Required      []string               `json:"required,omitempty"`
	MinProperties *int                   `json:"minProperties,omitempty"`
	MaxProperties *int                   `json:"maxProperties,omitempty"`

	// AdditionalProperties is a boolean or the schema of the values of a free map.
	AdditionalProperties *additional `json:"additionalProperties,omitempty"`

	// Free is Kubernetes' keyword for an object whose fields are the operator's. JSON Schema needs no
	// word for it.
	Free bool `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
	// ListType and ListMapKeys are Kubernetes' rules for merging a list.
	ListType    string   `json:"x-kubernetes-list-type,omitempty"`
	ListMapKeys []string `json:"x-kubernetes-list-map-keys,omitempty"`
}

// additional is either "no other fields" or the schema of the values of a map.
type additional struct{ values *schemaNode }

func (a *additional) MarshalJSON() ([]byte, error) { return json.Marshal(a.schema()) }

func (a *additional) UnmarshalJSON(data []byte) error {
	a.values = new(schemaNode)
	return decodeStrict(data, a.values)
}

func (a *additional) schema() any {
	if a.values == nil {
		return false
	}
	return a.values
}

// fields of an object, sorted.
func (s *schemaNode) fields() []string {
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// loadSchema reads the schema of region.yaml from the CRD, once.
var loadSchema = sync.OnceValues(func() (*schemaNode, error) {
	data, err := region.CRD("regions")
	if err != nil {
		return nil, err
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					OpenAPIV3Schema struct {
						Description string `json:"description"`
						Properties  struct {
							Spec json.RawMessage `json:"spec"`
						} `json:"properties"`
					} `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return nil, fmt.Errorf("embedded CRD of regions: %w", err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Name != region.GroupVersion.Version {
			continue
		}
		spec := new(schemaNode)
		// Strict, so that a keyword which controller-gen learns to write is not lost here.
		if err := decodeStrict(v.Schema.OpenAPIV3Schema.Properties.Spec, spec); err != nil {
			return nil, fmt.Errorf("embedded CRD of regions, version %s: %w", v.Name, err)
		}
		spec.close()
		return rootSchema(v.Schema.OpenAPIV3Schema.Description, spec), nil
	}
	return nil, fmt.Errorf("embedded CRD of regions has no version %s", region.GroupVersion.Version)
})

// rootSchema is the document around spec. Of the metadata that Kubernetes knows only what an
// operator writes is accepted, and status is not: it is observed, never declared.
func rootSchema(description string, spec *schemaNode) *schemaNode {
	text := func() *additional { return &additional{values: &schemaNode{Type: "string"}} }
	longest := 63 // RFC 1123 section 2.1 and RFC 1035 section 2.3.4
	root := &schemaNode{
		Schema:      schemaURL,
		ID:          "https://regiond.dev/schemas/region-" + region.GroupVersion.Version + ".json",
		Title:       "regiond region",
		Description: description,
		Type:        "object",
		Required:    []string{"apiVersion", "kind", "metadata", "spec"},
		Properties: map[string]*schemaNode{
			"apiVersion": {Type: "string", Const: region.GroupVersion.String(), Description: "Version of this file's format."},
			"kind":       {Type: "string", Const: region.KindRegion, Description: "Kind of this file."},
			"metadata": {
				Type:        "object",
				Description: "Name of the region and marks for people and programs.",
				Required:    []string{"name"},
				Properties: map[string]*schemaNode{
					"name": {
						Type: "string", Pattern: labelPattern, MaxLength: &longest,
						Description: "Name of the region, a DNS label (RFC 1123).",
					},
					"labels":      {Type: "object", AdditionalProperties: text(), Description: "Labels of the Region object."},
					"annotations": {Type: "object", AdditionalProperties: text(), Description: "Annotations of the Region object."},
				},
			},
			"spec": spec,
		},
	}
	root.close()
	return root
}

// labelPattern is an RFC 1123 label. The same pattern is in the markers of the types.
const labelPattern = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`

// close refuses unknown fields in s and all below it.
func (s *schemaNode) close() {
	if s == nil {
		return
	}
	if s.Properties != nil {
		s.AdditionalProperties = &additional{}
	}
	for _, p := range s.Properties {
		p.close()
	}
	s.Items.close()
}

// MarshalJSON leaves out what JSON Schema does not know: OpenAPI's format int32, and Kubernetes'
// keywords.
func (s *schemaNode) MarshalJSON() ([]byte, error) {
	type plain schemaNode
	c := plain(*s)
	if strings.HasPrefix(c.Format, "int") {
		c.Format = ""
	}
	c.Free, c.ListType, c.ListMapKeys = false, "", nil
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode((*plain)(&c)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func decodeStrict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
