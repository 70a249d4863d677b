package config

import (
	"bytes"
	"net/netip"
	"path/filepath"
	"strconv"
	"text/template"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/images/oci"
)

func (n Node) containerdFile() string { return datadir.Config.In(n.DataDir, "containerd.toml") }

// Containerd returns containerd's arguments.
func (n Node) Containerd() []string {
	return []string{"containerd", "--config", n.containerdFile(), "--log-level", "info"}
}

// containerdTemplate is version 4 of containerd's configuration (2.3 and later). Everything of this
// containerd lives below the data directory, also pods' network namespaces and CNI's results, so
// that a reset knows what is ours and another containerd on the host is not met.
var containerdTemplate = template.Must(template.New("containerd.toml").Funcs(template.FuncMap{"quote": strconv.Quote}).Parse(`version = 4
root = {{quote .Root}}
state = {{quote .State}}
oom_score = {{.OOMScore}}
disabled_plugins = [
  "io.containerd.internal.v1.tracing",
  "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.tracing.processor.v1.otlp",
]

[plugins.'io.containerd.server.v1.grpc']
  address = {{quote .Socket}}
[plugins.'io.containerd.server.v1.ttrpc']
  address = {{quote .TTRPC}}
[plugins.'io.containerd.internal.v1.opt']
  path = {{quote .Opt}}

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = {{quote .Sandbox}}
[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = {{quote .Registries}}

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = {{.RestrictOOM}}
  enable_selinux = false
  tolerate_missing_hugetlb_controller = true
  netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.containerd]
  default_runtime_name = "runc"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  runtime_path = {{quote .Shim}}
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    SystemdCgroup = {{.Systemd}}
    BinaryName = {{quote .Runc}}
    Root = {{quote .RuncRoot}}
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = [{{quote .Payload}}]
  conf_dir = {{quote .Network}}
`))

func (n Node) containerd() ([]byte, error) {
	oomScore := -999
	if !n.Host.LowerOOMScore {
		oomScore = 0
	}
	var b bytes.Buffer
	err := containerdTemplate.Execute(&b, map[string]any{
		"Root":        datadir.Containerd.In(n.DataDir, "root"),
		"State":       datadir.Containerd.In(n.DataDir, "state"),
		"Opt":         datadir.Containerd.In(n.DataDir, "opt"),
		"Socket":      n.ContainerdSocket(),
		"TTRPC":       n.ContainerdSocket() + ".ttrpc",
		"OOMScore":    oomScore,
		"RestrictOOM": !n.Host.LowerOOMScore,
		"Sandbox":     n.SandboxImage,
		"Registries":  n.Registries(),
		"Systemd":     n.Host.Systemd,
		"Shim":        n.PayloadDir + "/containerd-shim-runc-v2",
		"Runc":        n.PayloadDir + "/runc",
		"RuncRoot":    datadir.Containerd.In(n.DataDir, "runc"),
		"Payload":     n.PayloadDir,
		"Network":     datadir.CNI.In(n.DataDir),
	})
	return b.Bytes(), err
}

// Registries is the folder that tells containerd where registries are.
func (n Node) Registries() string { return datadir.Config.In(n.DataDir, "registries") }

// RegistryDir is the part of it that is about regiond's own registry.
func (n Node) RegistryDir() string { return filepath.Join(n.Registries(), oci.Registry) }

func (n Node) registryFile() string { return filepath.Join(n.RegistryDir(), "hosts.toml") }

// registryTemplate says where regiond's registry of component images is (containerd, docs/hosts.md). The keys before any
// table speak of the registry itself; there is no mirror, and no other place to fall back to.
var registryTemplate = template.Must(template.New("hosts.toml").Funcs(template.FuncMap{"quote": strconv.Quote}).Parse(`server = {{quote .Server}}
capabilities = ["pull", "resolve"]
ca = {{quote .CA}}
client = [[{{quote .Certificate}}, {{quote .Key}}]]
`))

// registry is read by containerd at each pull, and the certificate with it: a renewed one needs no restart.
func (n Node) registry() ([]byte, error) {
	var b bytes.Buffer
	err := registryTemplate.Execute(&b, map[string]any{
		"Server": "https://" + netip.AddrPortFrom(n.Address, RegistryPort).String(),
		"CA":     n.PKI.Cluster.CertFile(),
		// The registry wants a certificate of the region's authority for clients; this is the host's own.
		"Certificate": n.Certificates.KubeletClient.CertFile,
		"Key":         n.Certificates.KubeletClient.KeyFile,
	})
	return b.Bytes(), err
}
