package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/preview"
)

func newConfigRenderCommand() *cobra.Command {
	var what configFlags
	var target, output, dir string
	cmd := &cobra.Command{
		Use:   "render",
		Short: "Render the configuration of OpenStack's pods and nodes",
		Long: `Render the configuration of an OpenStack cluster's pods and nodes from a region file: every file, as regiond
applies it, and of nodes the network and kernel arguments that their profile gives them. Nothing is changed, and no
control plane is needed: nodes are those that the region file names, or the hosts of the control plane if it answers.
The profile of a server that its inventory decides is known on the seed host only.

Secrets are shown as <secret:PATH>, unless --with-secrets reads them from the control plane.

Targets, all made of the same templates, values and secrets:
  apply             the files themselves
  kustomize         base and overlay of the Kubernetes objects: "kustomize build overlay" makes what apply does. The
                    operator's patches are in it, nodes are not. Digests of images that were not built are zeros
  external-secrets  a ConfigMap and an ExternalSecret (external-secrets.io/v1) for each role: secrets are left to
                    the operator, all else is filled in
  ansible           a playbook with Jinja2 templates, group_vars and host_vars; secrets are in a file of their own`,
		Example: `  # What will node1 get?
  regiond config render -f region.yaml --node node1

  # Everything below a folder, to compare with what another region file makes
  regiond config render -f region.yaml --dir /tmp/new && diff -r /tmp/old /tmp/new

  # For Ansible, with the secrets of the running region
  sudo regiond config render -f region.yaml --target ansible --with-secrets --dir playbook

  regiond config render -f region.yaml -o json | jq -r '.[] | select(.path == "/etc/nova/nova.conf") | .content'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(preview.Targets, target) {
				return invalid(fmt.Errorf("unknown target %q; there are %s", target, strings.Join(preview.Targets, ", ")))
			}
			if strings.Contains(output, "/") && dir == "" { // as -o meant until it meant the format everywhere
				cmd.PrintErrf("warning: -o is the format; a folder is named by --dir %s\n", output)
				output, dir = "text", output
			}
			if err := checkFormat(output, "text", "json"); err != nil {
				return err
			}
			if dir != "" && output == "json" {
				return invalid(errors.New("--dir writes the files themselves, -o json all of them as one document; give one of them"))
			}
			what.checked = true // what is worth a warning is told with it
			p, err := what.load(cmd)
			if err != nil {
				return err
			}
			if err := renderTo(cmd.OutOrStdout(), p, target, output, dir); err != nil {
				return err
			}
			if caution := p.Caution(target); caution != "" {
				cmd.PrintErrln("warning: " + caution)
			}
			return nil
		},
	}
	what.add(cmd)
	cmd.Flags().StringArrayVar(&what.nodes, "node", nil, "node to render, repeatable (default: all)")
	cmd.Flags().BoolVar(&what.withSecrets, "with-secrets", false, "read the cluster's secrets from the control plane, and write them out")
	cmd.Flags().StringVar(&target, "target", preview.TargetApply, "what to make: "+strings.Join(preview.Targets, ", "))
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format: text or json")
	cmd.Flags().StringVar(&dir, "dir", "", "folder to write the files to, readable by you only; those of an earlier render are removed")
	// They fail for flags that do not exist.
	_ = cmd.RegisterFlagCompletionFunc("target", cobra.FixedCompletions(preview.Targets, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagDirname("dir")
	_ = cmd.RegisterFlagCompletionFunc("node", what.completeNodes)
	return cmd
}

// renderedFile is one file in JSON.
type renderedFile struct {
	Name    string `json:"name"`
	Role    string `json:"role,omitempty"`
	Node    string `json:"node,omitempty"`
	Path    string `json:"path,omitempty"`
	Mode    string `json:"mode,omitempty"`
	Owner   string `json:"owner,omitempty"`
	Group   string `json:"group,omitempty"`
	Network bool   `json:"network,omitempty"`
	Content string `json:"content"`
}

// renderTo writes a target as text, as JSON or to a folder.
func renderTo(w io.Writer, p *preview.Preview, target, output, dir string) error {
	switch {
	case dir != "":
		return renderFolder(w, p, target, dir)
	case output == "text":
		return p.Render(target, func(o configgen.Output) error {
			about := o.Name
			if o.File.Path != "" {
				about = fmt.Sprintf("%s (%s %s:%s)", o.Name, o.File.Mode, o.File.Owner, o.File.Group)
			}
			content := strings.TrimSuffix(string(o.Content), "\n")
			_, err := fmt.Fprintf(w, "==> %s <==\n%s\n\n", about, content)
			return err
		})
	}
	all := []renderedFile{}
	err := p.Render(target, func(o configgen.Output) error {
		all = append(all, renderedFile{o.Name, o.Role, o.Node, o.File.Path, o.File.Mode, o.File.Owner, o.File.Group, o.File.Network, string(o.Content)})
		return nil
	})
	if err == nil {
		err = writeAs(w, "json", all)
	}
	return err
}

// renderFolder writes a target's files, and removes those that an earlier render left.
func renderFolder(w io.Writer, p *preview.Preview, target, dir string) error {
	folder, err := configgen.OpenFolder(dir)
	if err != nil {
		return err
	}
	err = p.Render(target, func(o configgen.Output) error {
		if err := folder.Write(o); err != nil {
			return err
		}
		_, err := fmt.Fprintln(w, o.Name)
		return err
	})
	if err == nil {
		err = folder.Clean()
	}
	return errors.Join(err, folder.Close())
}
