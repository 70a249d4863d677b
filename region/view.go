package region

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// view is a region as an operator writes it: without status and what the API server adds.
type view struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   viewMetadata `json:"metadata"`
	Spec       RegionSpec   `json:"spec"`
}

type viewMetadata struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ViewYAML is the region as a file, fields in the order of their declaration. Empty mappings are
// left out.
func ViewYAML(r *Region) ([]byte, error) {
	root, err := viewNode(r)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(root); err != nil {
		return nil, fmt.Errorf("region as YAML: %w", err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("region as YAML: %w", err)
	}
	return b.Bytes(), nil
}

// ViewJSON is the region as a JSON file.
func ViewJSON(r *Region) ([]byte, error) {
	compact, err := viewCompact(r)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", "  "); err != nil {
		return nil, fmt.Errorf("region as JSON: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func viewCompact(r *Region) ([]byte, error) {
	data, err := json.Marshal(view{
		APIVersion: r.APIVersion, Kind: r.Kind,
		Metadata: viewMetadata{Name: r.Name, Labels: r.Labels, Annotations: r.Annotations},
		Spec:     r.Spec,
	})
	if err != nil {
		return nil, fmt.Errorf("region as JSON: %w", err)
	}
	return data, nil
}

// viewNode goes by way of JSON, because the types are tagged for JSON; JSON is YAML, and nodes keep
// the order of fields.
func viewNode(r *Region) (*yaml.Node, error) {
	data, err := viewCompact(r)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("region as YAML: %w", err)
	}
	plain(&document)
	return &document, nil
}

// plain turns flow into block style and drops empty mappings and the quotes that YAML does not
// need.
func plain(n *yaml.Node) {
	n.Style = 0
	if n.Kind != yaml.MappingNode {
		for _, c := range n.Content {
			plain(c)
		}
		return
	}
	kept := n.Content[:0]
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		plain(key)
		plain(value)
		if value.Kind == yaml.MappingNode && len(value.Content) == 0 {
			continue
		}
		kept = append(kept, key, value)
	}
	n.Content = kept
}
