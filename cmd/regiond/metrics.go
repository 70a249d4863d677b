package main

import (
	"io"

	"github.com/spf13/cobra"

	"regiond.dev/regiond/status/monitoring"
)

func newMetricsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Configuration for Prometheus: what to scrape, and alerts",
		Long: `Configuration for a Prometheus, or an agent that sends to one, on the control host: regiond serves its
metrics there only, at http://` + metricsAddress + `/metrics.`,
		Example: `  regiond metrics config > /etc/prometheus/regiond.yaml          # scrape_config_files in prometheus.yml
  regiond metrics alerts > /etc/prometheus/regiond-alerts.yaml   # rule_files
  systemctl reload prometheus`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newMetricsConfigCommand(), newMetricsAlertsCommand())
	return cmd
}

func newMetricsConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "config",
		Short:   "Print a scrape configuration",
		Example: "  regiond metrics config > /etc/prometheus/regiond.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), monitoring.Scrape)
			return err
		},
	}
}

func newMetricsAlertsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "alerts",
		Short:   "Print alerting rules, each with its likely causes and the commands to run",
		Example: "  regiond metrics alerts > /etc/prometheus/regiond-alerts.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), monitoring.Alerts)
			return err
		},
	}
}
