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

// Table writes the model for people. Ages are relative to now.
func (r Region) Table(out io.Writer, now time.Time) error {
	w := newTable(now)
	w.row("REGION", "STATE", "MESSAGE")
	w.row(dash(r.Region), word(r.Ready, "Ready", "NotReady"), dash(r.Message))
	w.controlPlane(r.ControlPlane)
	if len(r.Servers) > 0 {
		w.row()
		w.row("SERVER", "BMC", "POWER", "PHASE", "SINCE", "HEARTBEAT", "MESSAGE")
		for _, s := range r.Servers {
			message := s.Message
			if !s.Ready && s.Reason != "" {
				message = s.Reason + ": " + message
			}
			w.row(s.Name, s.BMC, dash(string(s.Power)), dash(string(s.Phase)), w.age(s.Since), w.age(s.Heartbeat), dash(message))
		}
	}
	if len(r.Hosts) > 0 {
		w.row()
		w.row("HOST", "ROLE", "IMAGE", "SLOT", "KERNEL", "UP", "HEARTBEAT", "HEALTHY", "MESSAGE")
		for _, h := range r.Hosts {
			w.row(h.Name, dash(string(h.Role)), dash(h.Image), dash(h.Slot), dash(h.Kernel), w.age(h.Booted), w.age(h.Heartbeat), h.Healthy, dash(h.Message))
		}
	}
	for _, c := range r.OpenStack {
		w.openstack(c)
	}
	return w.writeTo(out)
}

func (w *table) controlPlane(c ControlPlane) {
	if c.PID != 0 {
		w.row()
		w.row("COMPONENT", "READY", "PID", "SINCE", "RESTARTS", "MESSAGE")
		w.row("regiond "+c.Version, word(c.Started, "yes", "no"), strconv.Itoa(c.PID), w.age(c.Since), "", "")
		for _, k := range c.Components {
			w.row(k.Name, word(k.Ready, "yes", "no"), number(k.PID), w.age(k.Since), strconv.Itoa(k.Restarts), clip(k.Message))
		}
	}
	if len(c.Nodes) > 0 {
		w.row()
		w.row("NODE", "READY", "ADDRESS", "VERSION", "SINCE", "MESSAGE")
		for _, n := range c.Nodes {
			w.row(n.Name, word(n.Ready, "yes", "no"), dash(n.Address), dash(n.Version), w.age(n.Since), n.Message)
		}
	}
	if len(c.Problems) > 0 {
		w.row()
		w.row("PROBLEMS")
		for _, p := range c.Problems {
			w.row(p)
		}
	}
	if k := c.Certificate; k != nil {
		w.row()
		w.row("NEXT CERTIFICATE EXPIRY", "IN", "ON")
		in := "expired"
		if left := k.NotAfter.Sub(w.now); left > 0 {
			in = duration.HumanDuration(left)
		}
		w.row(k.Name, in, k.NotAfter.UTC().Format(time.DateOnly))
	}
}

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
