package node

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"text/tabwriter"
	"time"

	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/node/apply"
)

// Overview is what there is to know on a host about itself, also when nobody else can be asked.
type Overview struct {
	Host   string `json:"host"`
	Image  string `json:"image"`
	Kernel string `json:"kernel"`
	// Agent is what the running agent reported last, AgentError why that is missing.
	Agent         State            `json:"agent"`
	AgentError    string           `json:"agentError,omitempty"`
	Healthy       bool             `json:"healthy"`
	Message       string           `json:"message"`
	Configuration apply.Inspection `json:"configuration"`
}

// OverviewConfig of Look.
type OverviewConfig struct {
	DataDir, StateFile, RunFile, Root string
	Observer                          Observer
	Services                          apply.Services
}

// Look gathers the overview.
func Look(ctx context.Context, c OverviewConfig) (Overview, error) {
	id, err := ReadIdentity(filepath.Join(c.DataDir, identity.File))
	if err != nil {
		return Overview{}, err
	}
	o := c.Observer.Observe(ctx)
	v := Overview{Host: id.Hostname, Image: o.Image, Kernel: o.Kernel}
	if v.Image == "" {
		v.Image = id.Image
	}
	v.Healthy, _, v.Message = Judge(o, 0)
	if v.Agent, err = readState(c.StateFile); err != nil {
		v.AgentError = err.Error()
	}
	a, err := apply.New(apply.Config{Root: c.Root, DataDir: c.DataDir, RunFile: c.RunFile, Services: c.Services, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return v, err
	}
	v.Configuration, err = a.Inspect(ctx)
	return v, err
}

// Table writes the overview for people.
func (v Overview) Table(w io.Writer, now time.Time) error {
	say := func(label, text string) string { return fmt.Sprintf("%-15s%s\n", label, text) }
	out := say("host", fmt.Sprintf("%s, image %s, kernel %s", v.Host, v.Image, v.Kernel)) + say("health", v.Message)
	switch s := v.Agent; {
	case v.AgentError != "":
		out += say("agent", "has reported nothing since this boot: "+v.AgentError)
	case s.Error != "":
		out += say("agent", fmt.Sprintf("region last reached %s: %s", ago(s.LastSuccess, now), s.Error))
	default:
		out += say("agent", "region reached "+ago(s.LastSuccess, now))
	}
	c := v.Configuration
	if c.Applied == "" {
		out += say("configuration", "none was applied")
	} else {
		out += say("configuration", fmt.Sprintf("%.12s, applied %s", c.Applied, ago(c.Since, now)))
	}
	if c.Pending != "" {
		out += say("", fmt.Sprintf("%.12s is being applied, or was when the agent ended", c.Pending))
	}
	if c.Refused != "" {
		out += say("", fmt.Sprintf("%.12s was rolled back: %s", c.Refused, c.RefusedReason))
	}
	for _, d := range c.Drift {
		out += say("drift", d)
	}
	if _, err := io.WriteString(w, out); err != nil || len(c.Processes) == 0 {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nSERVICE\tSTATE\tPID\tSTARTED\tRESTARTS\tFILES\tMESSAGE") // errors come with Flush
	for _, p := range c.Processes {
		files := "as desired"
		switch {
		case p.Digest == "":
			files = "unknown"
		case p.Digest != p.WantedDigest:
			files = "others"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%.8s %s\t%s\n", p.Service, p.State, p.PID, ago(p.Started, now), p.Restarts, p.Digest, files, p.Message)
	}
	return t.Flush()
}

func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return now.Sub(t).Round(time.Second).String() + " ago"
}
