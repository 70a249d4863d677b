package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/components/preview"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/node"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

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
	p, err := f.load(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return p.Nodes(), cobra.ShellCompDirectiveNoFileComp
}

func (f *configFlags) region(cmd *cobra.Command) (*check.Document, error) {
	if f.checked {
		doc, _, err := loadChecked(cmd, f.file)
		return doc, err
	}
	doc, _, err := loadDocument(cmd, f.file)
	return doc, err
}

func (f *configFlags) load(cmd *cobra.Command) (*preview.Preview, error) {
	doc, err := f.region(cmd)
	if err != nil {
		return nil, err
	}
	i, err := chooseCluster(clusterNames(doc.Region), f.cluster)
	if err != nil {
		return nil, err
	}
	r := doc.Region
	where := dataDirFlags{dataDir: r.Spec.ControlPlane.DataDir}
	const patience = 3 * time.Second // for a control plane that may be down, and that need not be up
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	api, _, err := where.api()
	if err == nil {
		err = reachable(ctx, api, r.Name)
	}
	if err != nil && f.withSecrets {
		return nil, fmt.Errorf("--with-secrets: %w", err)
	}
	if err != nil {
		api = nil
	}
	return preview.Load(ctx, preview.Config{Document: doc, Cluster: i, Nodes: f.nodes, API: api, WithSecrets: f.withSecrets, Network: networkFiles})
}

// networkFiles are those of a host's network: hardware resolves what its profile says, its agent
// writes the files.
func networkFiles(p *region.Profile) ([]preview.NetworkFile, error) {
	network, err := server.ExpectedNetwork(p)
	if err != nil {
		return nil, err
	}
	var files []preview.NetworkFile
	for _, f := range node.RenderNetwork(network) {
		files = append(files, preview.NetworkFile{Path: node.NetworkDir + "/" + f.Name, Content: f.Content})
	}
	return files, nil
}

func clusterNames(r *region.Region) []string {
	names := make([]string, len(r.Spec.OpenStack.Clusters))
	for i, c := range r.Spec.OpenStack.Clusters {
		names[i] = c.Name
	}
	return names
}
