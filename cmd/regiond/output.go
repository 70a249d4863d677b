package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"
)

// writeAs writes a value in a format for programs.
func writeAs(w io.Writer, format string, value any) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(value)
	case "yaml":
		b, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	}
	return fmt.Errorf("unknown output format %q", format)
}

// checkFormat refuses a format before anything else is done.
func checkFormat(format string, allowed ...string) error {
	for _, a := range allowed {
		if format == a {
			return nil
		}
	}
	last := len(allowed) - 1
	return invalid(fmt.Errorf("unknown output format %q; there are %s and %s", format, strings.Join(allowed[:last], ", "), allowed[last]))
}
