// Package monitoring is what Prometheus needs to watch a region: what to scrape, and which alerts to
// raise. The metrics themselves are each room's own.
package monitoring

import _ "embed"

// Alerts are alerting rules (Prometheus, "Alerting rules"), a rule file in YAML. Each says what it
// means, its likely causes, and the commands to run.
//
//go:embed alerts.yaml
var Alerts string

// Scrape is a scrape configuration (Prometheus, scrape_config_file) for a Prometheus or an agent on
// the control host: regiond serves its metrics there only. The rules need the job's name.
//
//go:embed scrape.yaml
var Scrape string
