package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"regiond.dev/regiond/region"
)

// MaxFileSize of region.yaml in bytes. The API server takes objects of up to 1.5 MiB (etcd's
// request limit); half of it is left to status and managed fields.
const MaxFileSize = 768 << 10

// Document is a region file that was read.
type Document struct {
	// Name of the file as it appears in problems.
	Name string
	// Region as written: nothing is defaulted. Call Default before use.
	Region *region.Region

	index positions
}

// Load reads a region file. The error, if any, is of type Problems and has everything that is
// wrong with the file at once: YAML, unknown fields, types and the rules of Validate. The document
// is never nil; after an error it holds what could be understood and is fit for further checks
// (CheckSecretFiles) but for nothing else. Without a name, problems have no file in their text.
func Load(data []byte, name string) (*Document, error) {
	doc := &Document{Name: name, Region: new(region.Region), index: positions{}}
	w := &walker{file: name, index: doc.index}
	root := w.parse(data)
	if root == nil {
		return doc, w.problems.Err()
	}
	schema, err := loadSchema()
	if err != nil {
		return doc, Problems{{File: name, Line: 1, Column: 1, Message: "the schema of this regiond is broken: " + err.Error()}}
	}
	if !w.header(root) {
		return doc, w.problems.Err()
	}
	tree, ok := w.value(root, schema, "")
	if ok {
		if err := decodeTree(tree, doc.Region); err != nil {
			// All types were checked before: this says that a type and its schema disagree.
			w.add(w.index.at("spec"), Problem{Field: "spec", Message: "cannot be decoded: " + err.Error()})
		}
	}
	w.problems = append(w.problems, validate(doc.Region, doc.index, name)...)
	w.addFormats()
	w.problems.sort()
	return doc, w.problems.Err()
}

// decodeTree fills r from a tree of maps, slices, strings, integers and booleans.
func decodeTree(tree any, r *region.Region) error {
	data, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return decodeStrict(data, r)
}

// position in a file, both from 1.
type position struct{ line, column int }

// span is where a field is: its key (for items of a list: the item) and its value.
type span struct{ key, value position }

// positions of all fields of a document by path.
type positions map[string]span

// at is where the field of the path is written. For a field that is not written it is where the
// nearest one around it is.
func (p positions) at(path string) position {
	s, found := p.find(path)
	if found {
		return s.value
	}
	return s.key
}

// written says whether the file has the field itself.
func (p positions) written(path string) bool {
	_, found := p.find(path)
	return found
}

func (p positions) find(path string) (s span, exact bool) {
	for full := path; ; {
		if s, ok := p[path]; ok {
			return s, path == full
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return span{key: position{1, 1}, value: position{1, 1}}, false
		}
		path = path[:cut]
	}
}

// parse makes nodes of the file's only document. It returns nil after a problem that leaves
// nothing to go on with.
func (w *walker) parse(data []byte) *yaml.Node {
	start := position{1, 1}
	if len(data) > MaxFileSize {
		w.add(start, Problem{
			Message:    fmt.Sprintf("the file has more than the %d bytes that a region may have", MaxFileSize),
			Suggestion: "is this the right file?",
		})
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		w.add(start, Problem{Message: "the file is empty", Suggestion: "begin with a copy of region.example.yaml"})
		return nil
	case err != nil:
		w.syntax(data, err)
		return nil
	}
	var next yaml.Node
	switch err := decoder.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		w.syntax(data, err)
	case len(next.Content) > 0:
		w.add(nodePosition(next.Content[0]), Problem{
			Message:    "a second YAML document begins here",
			Suggestion: "a region is one document; remove the line '---' and what follows",
		})
	}
	if len(document.Content) == 0 || isNull(document.Content[0]) {
		w.add(start, Problem{Message: "the file is empty", Suggestion: "begin with a copy of region.example.yaml"})
		return nil
	}
	if !w.bounded(document.Content[0]) {
		return nil
	}
	return document.Content[0]
}

// syntax reports text that is not YAML.
func (w *walker) syntax(data []byte, err error) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, found := strings.CutPrefix(message, "line "); found {
		if _, text, found := strings.Cut(rest, ": "); found {
			message = text
		}
	}
	line := syntaxLine(data)
	p := Problem{Message: "not valid YAML: " + message}
	if strings.Contains(nthLine(data, line), "\t") {
		p.Suggestion = "YAML is indented with spaces, and this line has a tab"
	}
	w.add(position{line, 1}, p)
}

// syntaxLine finds the line (from 1) at which data stops being YAML: the lines before it parse,
// and with it they do not. The parser's own number is that of the construct around it, often the
// top of the file, and is off by one for some errors. Some twenty parses are needed at most.
func syntaxLine(data []byte) int {
	ends := []int{0}
	for i, c := range data {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	if ends[len(ends)-1] != len(data) {
		ends = append(ends, len(data))
	}
	good := 0
	for {
		bad := len(ends) - 1
		for bad-good > 1 {
			middle := (good + bad) / 2
			if parses(data[:ends[middle]]) {
				good = middle
			} else {
				bad = middle
			}
		}
		// A line within a text or a list of several lines ends what does not parse, and is not wrong.
		const several = 64
		next := bad + 1
		for next < min(len(ends), bad+several) && !parses(data[:ends[next]]) {
			next++
		}
		if next >= min(len(ends), bad+several) {
			return max(bad, 1)
		}
		good = next
	}
}

func parses(data []byte) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		switch err := decoder.Decode(&n); {
		case errors.Is(err, io.EOF):
			return true
		case err != nil:
			return false
		}
	}
}

func nthLine(data []byte, n int) string {
	lines := bytes.SplitN(data, []byte("\n"), n+1)
	if n-1 < len(lines) {
		return string(lines[n-1])
	}
	return ""
}

func nodePosition(n *yaml.Node) position {
	return position{max(n.Line, 1), max(n.Column, 1)}
}

// damaged says that something is written in the field or below it. A match with fields that were
// not understood looks empty, and is not.
func (p positions) damaged(path string) bool {
	for written := range p {
		if strings.HasPrefix(written, path+".") {
			return true
		}
	}
	return false
}
