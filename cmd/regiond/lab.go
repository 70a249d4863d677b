package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"text/tabwriter"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"regiond.dev/regiond/test/lab"
)

// labFlags are common to all lab commands.
type labFlags struct{ name, root string }

func newLabCommand() *cobra.Command {
	f := &labFlags{}
	c := &cobra.Command{
		Use:   "lab",
		Short: "Run a whole region on this machine, in namespaces and virtual servers",
		Long: `A lab is a seed host in namespaces of its own and virtual servers (QEMU) that are powered only
through their BMCs. regiond runs in it as it would on a rack, OpenStack included. Labs are named and do not see each
other.`,
		Example: `  regiond lab up                      # until every server and OpenStack are Ready
  regiond lab status
  regiond lab exec -- regiond status  # as on the seed host
  regiond lab console node1
  regiond lab vm create vm1 vm2       # two guests, on different nodes
  regiond lab vm ping vm1 vm2
  regiond lab down`,
	}
	// What a client of the lab's API has to say is in the errors that it returns.
	c.PersistentPreRun = func(*cobra.Command, []string) {
		ordinaryUmask()
		ctrllog.SetLogger(logr.Discard())
	}
	c.PersistentFlags().StringVar(&f.name, "lab", "default", "name of the lab")
	c.PersistentFlags().StringVar(&f.root, "root", lab.DefaultRoot, "folder that holds the state of labs")
	// Fails for a flag that does not exist or was registered before; neither can be.
	_ = c.RegisterFlagCompletionFunc("lab", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		names, err := lab.List(f.root)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
	_ = c.MarkPersistentFlagDirname("root") // the flag exists
	c.AddCommand(newLabUp(f), newLabDown(f), newLabList(f), newLabStatus(f), newLabConsole(f), newLabPower(f), newLabExec(f), newLabVM(f))
	c.AddCommand(newLabProcesses(f)...)
	return c
}

func (f *labFlags) open() (lab.Lab, error) { return lab.Open(f.root, f.name) }

// completeMachine offers the lab's machines for the first argument.
func (f *labFlags) completeMachine(args []string) ([]string, cobra.ShellCompDirective) {
	l, err := f.open()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return l.Machines(), cobra.ShellCompDirectiveNoFileComp
}

func newLabDown(f *labFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "down",
		Short:   "End the lab and remove everything it made",
		Long:    "End the lab and remove everything it made: processes, namespaces, cgroups, disks, state. Images are kept.",
		Example: "  regiond lab down --lab ci",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := f.open()
			if err != nil { // what is left of a lab can be removed without its lab.json
				l = lab.Lab{Name: f.name, Root: f.root}
			}
			return l.Down(func(format string, args ...any) { fmt.Fprintf(cmd.OutOrStdout(), format+"\n", args...) })
		},
	}
}

func newLabList(f *labFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the labs on this machine",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := lab.List(f.root)
			for _, n := range names {
				fmt.Fprintln(cmd.OutOrStdout(), n)
			}
			return err
		},
	}
}

func newLabStatus(f *labFlags) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the lab's seed host and machines",
		Example: `  regiond lab status
  regiond lab status -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "table", "json"); err != nil {
				return err
			}
			l, err := f.open()
			if err != nil {
				return err
			}
			s, err := l.Status(cmd.Context())
			if err != nil {
				return err
			}
			if output == "json" {
				return writeAs(cmd.OutOrStdout(), output, s)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "LAB\tSEED\tRACK\tCONTROL PLANE\n%s\t%s\t%s\t%s\n\n", s.Name, running(s.Seed), running(s.Rack), s.ControlPlane)
			fmt.Fprintln(w, "MACHINE\tKIND\tBMC\tHOST\tREACHED\tMESSAGE")
			for _, m := range s.Machines {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.Kind, m.BMC, m.Server, m.Reached, m.Message)
			}
			if s.OpenStack != "" {
				fmt.Fprintf(w, "\nOPENSTACK\n%s\n", s.OpenStack)
			}
			return w.Flush()
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "table", "format: table or json")
	return c
}

func running(pid int) string {
	if pid == 0 {
		return "stopped"
	}
	return fmt.Sprintf("pid %d", pid)
}

func newLabConsole(f *labFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "console MACHINE",
		Short:   "Attach to a virtual server's serial console; Ctrl-] leaves it",
		Example: "  regiond lab console node1",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return f.completeMachine(args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := f.open()
			if err != nil {
				return err
			}
			socket, err := l.ConsoleSocket(args[0])
			if err != nil {
				return err
			}
			c, err := net.Dial("unix", socket)
			if err != nil {
				return fmt.Errorf("console of %s: %w: is the rack running? see `regiond lab status`", args[0], err)
			}
			defer c.Close()
			defer context.AfterFunc(cmd.Context(), func() { c.Close() })() // told to stop, without a terminal that has Ctrl-]
			if fd := int(os.Stdin.Fd()); term.IsTerminal(fd) {
				old, err := term.MakeRaw(fd)
				if err != nil {
					return err
				}
				defer func() { _ = term.Restore(fd, old) }() // the terminal is gone if this fails
				fmt.Fprint(cmd.ErrOrStderr(), "console of "+args[0]+"; Ctrl-] leaves it\r\n")
			}
			// Ends with the process: nothing interrupts a read from a terminal.
			go func() {
				if err := typeUntilEscape(c, os.Stdin); err == nil {
					c.Close()
				}
			}()
			_, err = io.Copy(cmd.OutOrStdout(), c)
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		},
	}
}

// typeUntilEscape copies keys until Ctrl-] (as telnet and virsh console have it).
func typeUntilEscape(w io.Writer, r io.Reader) error {
	buf := make([]byte, 64)
	for {
		n, err := r.Read(buf)
		for i := range n {
			if buf[i] == 0x1d {
				return nil
			}
			if _, err := w.Write(buf[i : i+1]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

func newLabPower(f *labFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "power MACHINE on|off|cycle|shutdown|status",
		Short: "Press a virtual server's power button, through its BMC",
		Long: `Press a virtual server's power button, through its BMC. A namespace node has neither; it is ended and started as if it
had: off is a power cut, and shutdown too.`,
		Example: `  regiond lab power node1 status
  regiond lab power node1 off         # cuts the power`,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return lab.PowerActionNames(), cobra.ShellCompDirectiveNoFileComp
			}
			return f.completeMachine(args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := f.open()
			if err != nil {
				return err
			}
			if err := l.CheckPower(args[0], args[1]); err != nil {
				return err
			}
			if vm, err := l.VM(args[0]); err != nil {
				return err
			} else if !vm {
				program, err := os.Executable()
				if err != nil {
					return err
				}
				state, err := l.PowerNode(cmd.Context(), args[0], args[1], program)
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), state)
				}
				return err
			}
			return l.RunInSeedNetwork(cmd.Context(), cmd.OutOrStdout(), "lab", "bmc", args[0], args[1], "--lab", f.name, "--root", f.root)
		},
	}
}

func newLabExec(f *labFlags) *cobra.Command {
	var node string
	c := &cobra.Command{
		Use:   "exec -- COMMAND [ARG...]",
		Short: "Run a command on the lab's seed host, or on a namespace node",
		Example: `  regiond lab exec -- regiond status
  regiond lab exec -- regiond kubectl get servers
  regiond lab exec --node n1 -- ovs-vsctl show`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := f.open()
			if err != nil {
				return err
			}
			argv, err := l.ExecArgs(args)
			if node != "" {
				argv, err = l.NodeExecArgs(node, args)
			}
			if err != nil {
				return err
			}
			path, err := exec.LookPath(argv[0])
			if err != nil {
				return err
			}
			return syscall.Exec(path, argv, os.Environ())
		},
	}
	c.Flags().StringVar(&node, "node", "", "name of a namespace node (default: the seed host)")
	// Fails for a flag that does not exist; this one does.
	_ = c.RegisterFlagCompletionFunc("node", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return f.completeMachine(nil)
	})
	return c
}
