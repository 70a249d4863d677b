package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/images/guest"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/lab/cloud"
)

// labVM is what the vm commands have in common.
type labVM struct {
	*labFlags
	imageDir string
	timeout  time.Duration
}

func newLabVM(f *labFlags) *cobra.Command {
	v := &labVM{labFlags: f}
	c := &cobra.Command{
		Use:   "vm",
		Short: "Run test guests in the lab's OpenStack",
		Long: `Run test guests in the lab's OpenStack, through its API. A guest is a boot loader, iPXE: it asks for an address by DHCP and for its
user data at the metadata service, says so on its serial console, and pings the guests that were there or made with it.`,
		Example: `  regiond lab vm create vm1 vm2
  regiond lab vm ping vm1 vm2
  regiond lab vm console vm1
  regiond lab vm delete --all`,
		Args: cobra.NoArgs,
	}
	c.PersistentFlags().StringVar(&v.imageDir, "image-dir", region.DefaultImagesDir, "folder of images; the guest is built there of the node image")
	c.PersistentFlags().DurationVar(&v.timeout, "timeout", 20*time.Minute, "how long to wait")
	c.AddCommand(newLabVMCreate(v), newLabVMList(v), newLabVMConsole(v), newLabVMPing(v), newLabVMDelete(v))
	return c
}

// run opens the lab's OpenStack for f.
func (v *labVM) run(cmd *cobra.Command, f func(context.Context, *cloud.Cloud) error) error {
	cmd.SilenceUsage = true
	ctx, cancel := context.WithTimeout(cmd.Context(), v.timeout)
	defer cancel()
	l, err := v.open()
	if err != nil {
		return err
	}
	disk, err := guest.Build(v.imageDir)
	if err != nil {
		return err
	}
	c, err := l.Cloud(ctx, disk, progressReporter(cmd.ErrOrStderr(), time.Now()))
	if err != nil {
		return err
	}
	return f(ctx, c)
}

// complete offers the names of guests.
func (v *labVM) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	err := v.run(cmd, func(ctx context.Context, c *cloud.Cloud) error {
		all, err := c.List(ctx)
		for _, g := range all {
			names = append(names, g.Name)
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func newLabVMCreate(v *labVM) *cobra.Command {
	var node string
	c := &cobra.Command{
		Use:   "create NAME...",
		Short: "Make guests and wait until they are ACTIVE",
		Long: `Make guests and wait until they are ACTIVE, on different nodes as far as there are nodes. What they need (image, flavor, network,
security group, ports) is made first, once. A guest that is there is left alone.`,
		Example: `  regiond lab vm create vm1 vm2
  regiond lab vm create vm3 --node node2`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			host := ""
			if node != "" {
				l, err := v.open()
				if err != nil {
					return err
				}
				if host, err = l.HostName(cmd.Context(), node); err != nil {
					return err
				}
			}
			return v.run(cmd, func(ctx context.Context, c *cloud.Cloud) error {
				guests, err := c.Create(ctx, args, host)
				if err != nil {
					return err
				}
				return printGuests(cmd, guests)
			})
		},
	}
	c.Flags().StringVar(&node, "node", "", "machine of the lab to run them on (default: those with the fewest guests)")
	// Fails for a flag that does not exist; this one does.
	_ = c.RegisterFlagCompletionFunc("node", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return v.completeMachine(nil)
	})
	return c
}

func printGuests(cmd *cobra.Command, guests []cloud.Guest) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GUEST\tSTATUS\tNODE\tADDRESS\tPINGS")
	for _, g := range guests {
		var peers []string
		for _, p := range g.Peers {
			peers = append(peers, p.Name)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", g.Name, g.Status, g.Node, g.Address, strings.Join(peers, ", "))
	}
	return w.Flush()
}

func newLabVMList(v *labVM) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the test guests",
		Example: "  regiond lab vm list -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "table", "json"); err != nil {
				return err
			}
			return v.run(cmd, func(ctx context.Context, c *cloud.Cloud) error {
				guests, err := c.List(ctx)
				if err != nil {
					return err
				}
				if output == "json" {
					return writeAs(cmd.OutOrStdout(), output, guests)
				}
				return printGuests(cmd, guests)
			})
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "table", "format: table or json")
	return c
}

func newLabVMConsole(v *labVM) *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:               "console NAME",
		Short:             "Show what a guest has written to its serial console",
		Example:           "  regiond lab vm console vm1 --follow",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: v.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.run(cmd, func(ctx context.Context, c *cloud.Cloud) error {
				if follow {
					return c.Follow(ctx, args[0], cmd.OutOrStdout())
				}
				out, err := c.Console(ctx, args[0])
				if err == nil {
					_, err = fmt.Fprint(cmd.OutOrStdout(), out)
				}
				return err
			})
		},
	}
	c.Flags().BoolVar(&follow, "follow", false, "go on as it grows, until interrupted or --timeout")
	return c
}

func newLabVMPing(v *labVM) *cobra.Command {
	return &cobra.Command{
		Use:               "ping FROM TO",
		Short:             "Wait until one guest has pinged another",
		Long:              "Wait until one guest has pinged another, by what it says itself on its console.",
		Example:           "  regiond lab vm ping vm1 vm2",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: v.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.run(cmd, func(ctx context.Context, c *cloud.Cloud) error { return c.Ping(ctx, args[0], args[1]) })
		},
	}
}

func newLabVMDelete(v *labVM) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:               "delete NAME...|--all",
		Short:             "Delete guests, and wait until they are gone",
		Example:           "  regiond lab vm delete vm1\n  regiond lab vm delete --all",
		ValidArgsFunction: v.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return errors.New("give names of guests, or --all")
			}
			return v.run(cmd, func(ctx context.Context, c *cloud.Cloud) error {
				if all {
					guests, err := c.List(ctx)
					if err != nil {
						return err
					}
					for _, g := range guests {
						args = append(args, g.Name)
					}
				}
				if err := c.Delete(ctx, args); err != nil {
					return err
				}
				for _, name := range args {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: deleted\n", name)
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "delete all test guests")
	return c
}
