package status

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// table aligns columns. Empty rows separate its sections, so that tabwriter aligns each section by
// itself.
type table struct {
	*tabwriter.Writer
	text bytes.Buffer
	now  time.Time
}

func newTable(now time.Time) *table {
	t := &table{now: now}
	t.Writer = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	return t
}

// row writes one row. It can't fail, because the table is written to a buffer.
func (w *table) row(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")) }

// writeTo writes the table without the trailing spaces that empty last cells leave.
func (w *table) writeTo(out io.Writer) error {
	if err := w.Flush(); err != nil {
		return err
	}
	var b bytes.Buffer
	for line := range bytes.Lines(w.text.Bytes()) {
		b.Write(bytes.TrimRight(line, " \n"))
		b.WriteByte('\n')
	}
	_, err := out.Write(b.Bytes())
	return err
}

// age returns the age of an event, "-" for one that has not happened.
func (w *table) age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return duration.HumanDuration(max(0, w.now.Sub(t)))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// clip shortens the last lines of a process's log, which would break the table; -o json and the log
// itself have them in full.
func clip(s string) string {
	const longest = 100
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "..."
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func word(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}
