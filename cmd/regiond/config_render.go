package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/components/plan"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

var renderTargets = []string{"apply", "kustomize", "external-secrets", "ansible"}

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
			if !slices.Contains(renderTargets, target) {
				return invalid(fmt.Errorf("unknown target %q; there are %s", target, strings.Join(renderTargets, ", ")))
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
			in, err := what.load(cmd)
			if err != nil {
				return err
			}
			err = renderTo(cmd.OutOrStdout(), in, target, output, dir)
			if target == "ansible" && what.withSecrets && err == nil {
				cmd.PrintErrln(vaultHint)
			}
			return err
		},
	}
	what.add(cmd)
	cmd.Flags().StringArrayVar(&what.nodes, "node", nil, "node to render, repeatable (default: all)")
	cmd.Flags().BoolVar(&what.withSecrets, "with-secrets", false, "read the cluster's secrets from the control plane, and write them out")
	cmd.Flags().StringVar(&target, "target", "apply", "what to make: "+strings.Join(renderTargets, ", "))
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format: text or json")
	cmd.Flags().StringVar(&dir, "dir", "", "folder to write the files to, readable by you only; those of an earlier render are removed")
	// They fail for flags that do not exist.
	_ = cmd.RegisterFlagCompletionFunc("target", cobra.FixedCompletions(renderTargets, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagDirname("dir")
	_ = cmd.RegisterFlagCompletionFunc("node", what.completeNodes)
	return cmd
}

// vaultHint follows secrets that were written in clear.
const vaultHint = "warning: group_vars/*/secrets.yaml holds secrets in clear; before it leaves this host: ansible-vault encrypt DIR/group_vars/*/secrets.yaml"

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
func renderTo(w io.Writer, in *configInput, target, output, dir string) error {
	switch {
	case dir != "":
		return renderFolder(w, in, target, dir)
	case output == "text":
		return in.render(target, func(o configgen.Output) error {
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
	err := in.render(target, func(o configgen.Output) error {
		all = append(all, renderedFile{o.Name, o.Role, o.Node, o.File.Path, o.File.Mode, o.File.Owner, o.File.Group, o.File.Network, string(o.Content)})
		return nil
	})
	if err == nil {
		err = writeAs(w, "json", all)
	}
	return err
}

// renderFolder writes a target's files, and removes those that an earlier render left.
func renderFolder(w io.Writer, in *configInput, target, dir string) error {
	folder, err := configgen.OpenFolder(dir)
	if err != nil {
		return err
	}
	err = in.render(target, func(o configgen.Output) error {
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

// configInput is what is rendered or explained.
type configInput struct {
	source  *configgen.Source
	cluster configgen.Cluster
	nodes   []configgen.Node
	// profiles of nodes by name, as far as they are known.
	profiles map[string]*region.Profile
	region   *region.Region
}

// render renders everything once before it emits anything: nothing is written of what has an error
// in it.
func (in *configInput) render(target string, emit configgen.Emit) error {
	// Warnings were told when the file was read.
	if _, err := in.source.Apply(in.cluster, in.nodes, func(configgen.Output) error { return nil }); err != nil {
		return err
	}
	switch target {
	case "external-secrets":
		return in.source.ExternalSecrets(in.cluster, in.nodes, emit)
	case "ansible":
		return in.source.Ansible(in.cluster, in.nodes, emit)
	case "kustomize":
		return in.manifests(emit)
	}
	if _, err := in.source.Apply(in.cluster, in.nodes, emit); err != nil {
		return err
	}
	for _, n := range in.nodes {
		p := in.profiles[n.Name]
		if p == nil {
			continue
		}
		outputs, err := hostOutputs(n.Name, p)
		if err != nil {
			return err
		}
		for _, o := range outputs {
			if err := emit(o); err != nil {
				return err
			}
		}
	}
	return nil
}

// configFlags say of which cluster and nodes the configuration is.
type configFlags struct {
	file, cluster string
	nodes         []string
	withSecrets   bool
	// checked says that a file with anything wrong in it is refused, as validate does.
	checked bool
}

func (f *configFlags) add(cmd *cobra.Command) {
	addRegionFileFlag(cmd, &f.file)
	cmd.Flags().StringVar(&f.cluster, "cluster", "", "OpenStack cluster (default: the only one)")
	// Fails for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("cluster", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		doc, err := f.region(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return clusterNames(doc.Region), cobra.ShellCompDirectiveNoFileComp
	})
}

func (f *configFlags) completeNodes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	in, err := f.load(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := make([]string, len(in.nodes))
	for i, n := range in.nodes {
		names[i] = n.Name
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (f *configFlags) region(cmd *cobra.Command) (*check.Document, error) {
	if f.checked {
		doc, _, err := loadChecked(cmd, f.file)
		return doc, err
	}
	doc, _, err := loadDocument(cmd, f.file)
	return doc, err
}

func (f *configFlags) load(cmd *cobra.Command) (*configInput, error) {
	doc, err := f.region(cmd)
	if err != nil {
		return nil, err
	}
	i, err := chooseCluster(clusterNames(doc.Region), f.cluster)
	if err != nil {
		return nil, err
	}
	composer, err := openstack.Default()
	if err != nil {
		return nil, err
	}
	in := &configInput{region: doc.Region, source: composer.Source()}
	declaration := &doc.Region.Spec.OpenStack.Clusters[i]
	in.cluster = configgen.Cluster{Declaration: declaration, Region: doc.Region.Name, Field: fmt.Sprintf("spec.openstack.clusters[%d]", i),
		Position: doc.Position}
	where := dataDirFlags{dataDir: doc.Region.Spec.ControlPlane.DataDir}
	const patience = 3 * time.Second // for a control plane that may be down, and that need not be up
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	api, _, apiErr := where.api()
	if apiErr == nil {
		apiErr = reachable(ctx, api, doc.Region.Name)
	}
	if f.withSecrets {
		if apiErr != nil {
			return nil, fmt.Errorf("--with-secrets: %w", apiErr)
		}
		in.cluster.Secrets, err = plan.Secrets(cmd.Context(), api, declaration.Name)
		if err != nil {
			return nil, err
		}
		if in.cluster.Secrets == nil {
			return nil, fmt.Errorf("--with-secrets: cluster %s has no secrets yet; they are generated when regiond first applies it", declaration.Name)
		}
	}
	if apiErr != nil {
		api = nil
	} else if in.cluster.KeystoneRegion, err = plan.EndpointRegion(ctx, api, doc.Region.Name, declaration.Name); err != nil {
		return nil, err
	}
	if in.profiles, err = profilesOf(ctx, api, doc.Region); err != nil {
		return nil, err
	}
	in.nodes, err = plan.NodesOf(ctx, api, doc.Region, declaration, f.nodes)
	return in, err
}

func clusterNames(r *region.Region) []string {
	names := make([]string, len(r.Spec.OpenStack.Clusters))
	for i, c := range r.Spec.OpenStack.Clusters {
		names[i] = c.Name
	}
	return names
}
