package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/pki"
	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/status"
)

func newCertificateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "certificate",
		Short: "The region's certificates",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newCertificateListCommand())
	return cmd
}

func newCertificateListCommand() *cobra.Command {
	var where dataDirFlags
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all certificates: what uses them, when they expire, when they are renewed",
		Long: `List all certificates of the region, those that expire first at the top: the control plane's, from the disk of
this host, and those of the hosts' agents, from what regiond has signed.

regiond renews its own certificates, and agents theirs, when a third of their life is left. Nothing has to be
done for it, except if the last column says so. Authorities are valid for ten years and are not renewed.

Without a running regiond, the control plane's certificates are listed without their users.`,
		Example: `  regiond certificate list
  regiond certificate list -o json | jq -r '.[] | select(.notAfter < "2027-01-01") | .name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(output, "table", "json", "yaml"); err != nil {
				return err
			}
			dataDir, err := where.resolve()
			if err != nil {
				return err
			}
			own, err := controlPlaneCertificates(cmd.Context(), dataDir)
			if err != nil {
				return err
			}
			hosts, failed := where.hostKeys(cmd.Context())
			all := status.ListCertificates(own, hosts)
			if output == "table" {
				err = all.Table(cmd.OutOrStdout(), time.Now())
			} else {
				err = writeAs(cmd.OutOrStdout(), output, all)
			}
			return errors.Join(err, failed)
		},
	}
	where.add(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "format: table, json or yaml")
	return cmd
}

// controlPlaneCertificates are those in the data directory. A running regiond knows who uses them.
func controlPlaneCertificates(ctx context.Context, dataDir string) ([]pki.Certificate, error) {
	snapshot, err := daemon.Fetch(ctx, daemon.SocketPath(dataDir))
	if err == nil && len(snapshot.Certificates) > 0 {
		return snapshot.Certificates, nil
	}
	all, err := pki.Inventory(datadir.PKI.In(dataDir))
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no certificates: no region was started here; --data-dir names another data directory", datadir.PKI.In(dataDir))
	}
	return all, err
}

// hostKeys are what was signed for the agents of hosts.
func (f *dataDirFlags) hostKeys(ctx context.Context) (map[string]hostkey.Record, error) {
	api, _, err := f.api()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	records, err := hostkey.List(ctx, api)
	if err != nil {
		return nil, unreachable(fmt.Errorf("the certificates of hosts are not listed: %w; see: regiond status", err))
	}
	return records, nil
}
