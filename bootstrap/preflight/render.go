package preflight

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Table writes the report for people.
func (r Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CHECK\tSTATUS\tFOUND")
	for _, x := range r {
		fmt.Fprintf(t, "%s\t%s\t%s\n", x.Check, x.Status, x.Message)
		if x.Fix != "" {
			fmt.Fprintf(t, "\t\tfix: %s\n", x.Fix)
		}
	}
	return t.Flush()
}
