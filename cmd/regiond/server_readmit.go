package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/region"
)

func newServerReadmitCommand() *cobra.Command {
	var where dataDirFlags
	var yes bool
	var output string
	cmd := &cobra.Command{
		Use:   "readmit NAME",
		Short: "Let a host back whose certificate expired while it was off",
		Long: fmt.Sprintf(`Let a host back whose certificate expired while it was off: show the evidence, ask, then accept its agent once
within the next %s. The agent proves that it holds the private key that regiond signed the last certificate for,
and gets a new certificate for that key. Nothing on the host is installed, changed or erased.

It refuses a server that is retired or being installed again, and a host whose key was not recorded, or whose
certificate is still valid and which has not asked. A machine with another key, e.g. the disk of an earlier installation, is not accepted.
Hosts that regiond did not install are accepted by their name, too.`, hostkey.Window),
		Example: `  sudo regiond server readmit node7
  sudo regiond server readmit node7 --yes
  sudo regiond server readmit node7 -o json    # the evidence only; --yes acts`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeServers(&where),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
			api, _, err := where.api()
			if err != nil {
				return err
			}
			now := time.Now()
			plan, err := enrollment.PlanReadmission(cmd.Context(), api, args[0], now)
			if err != nil {
				return refused(err)
			}
			out := cmd.OutOrStdout()
			if output == "json" {
				err = writeAs(out, output, plan)
			} else {
				err = writeReadmission(out, plan, now)
			}
			if err != nil || output == "json" && !yes {
				return err
			}
			if !yes {
				if err := approve(cmd.InOrStdin(), out, "Readmit this host?"); err != nil {
					return err
				}
			}
			if err := plan.Open(cmd.Context(), api); err != nil || output == "json" {
				return err
			}
			return writeReadmitted(out, plan)
		},
	}
	where.add(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format: text or json")
	return cmd
}

// writeReadmission shows the evidence: by whom a certificate would be got, and what is known of the
// host.
func writeReadmission(w io.Writer, r *enrollment.Readmission, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "  %s\t%s\n", name, value) // errors are those of Flush
		}
	}
	fmt.Fprintf(t, "To readmit %s:\n", r.Host)
	line("uid", r.UID)
	line("BMC", r.BMC)
	line("system UUID", r.SystemUUID)
	line("serial number", r.SerialNumber)
	line("MAC addresses", strings.Join(r.MACAddresses, ", "))
	line("last heartbeat", since(r.LastSeen, now, "never"))
	line("certificate", fmt.Sprintf("recorded %s, %s", since(r.Issued, now, ""), expiry(r.Expired, now)))
	line("why", r.Need)
	for _, key := range r.Keys {
		line("key", "SHA256:"+key)
	}
	if r.OnlyFirstKey {
		line("", "of its first certificate: if it was renewed before regiond recorded keys, the host will be refused")
	}
	asked := since(r.Asked, now, "not yet")
	if r.AskedFrom != "" {
		asked += " from " + r.AskedFrom + ", with one of these keys"
	}
	line("has asked", asked)
	agent := "asks every minute while it is on"
	if !r.AgentAsks {
		agent = "is not known to ask: agents of earlier versions do not, and of which it is was not recorded"
	}
	line("agent", strings.TrimSpace(r.AgentVersion+" "+agent))
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "  - until %s an agent that holds one of these keys gets a new certificate, once\n  - nothing on the host changes\n", r.Until.Format(time.RFC3339))
	return err
}

// writeReadmitted says what happens now.
func writeReadmitted(w io.Writer, r *enrollment.Readmission) error {
	asks := "its agent asks every minute"
	if !r.AgentAsks {
		asks = "if its agent asks, which those of earlier versions do not. If it does not come, " + r.Otherwise
	}
	_, err := fmt.Fprintf(w, "%s may come back until %s; %s. Watch it: regiond status --watch\n", r.Host, r.Until.Format(time.RFC3339), asks)
	return err
}

func expiry(t, now time.Time) string {
	if now.Before(t) {
		return "valid until " + t.UTC().Format(time.RFC3339)
	}
	return "expired " + since(t, now, "")
}

func since(t, now time.Time, never string) string {
	if t.IsZero() {
		return never
	}
	return fmt.Sprintf("%s (%s ago)", t.UTC().Format(time.RFC3339), now.Sub(t).Round(time.Second))
}

// completeServers completes names of servers where the control plane answers.
func completeServers(where *dataDirFlags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		api, _, err := where.api()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		var list region.ServerList
		if err := api.List(ctx, &list); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, s := range list.Items {
			names = append(names, s.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
