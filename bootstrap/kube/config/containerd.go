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

// containerdTemplate is version 4 of containerd's configuration (2.3 and later). All files of this
// containerd, including pods' network namespaces and CNI's results, are below the data directory,
// so that a reset knows them and they never collide with another containerd on the host.
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

// Registries returns the folder with containerd's configuration of registries.
func (n Node) Registries() string { return datadir.Config.In(n.DataDir, "registries") }

// RegistryDir returns its subfolder for regiond's own registry.
func (n Node) RegistryDir() string { return filepath.Join(n.Registries(), oci.Registry) }

func (n Node) registryFile() string { return filepath.Join(n.RegistryDir(), "hosts.toml") }

// registryTemplate configures regiond's registry of component images (containerd, docs/hosts.md).
// The keys before any table concern the registry itself; there is no mirror or fallback.
var registryTemplate = template.Must(template.New("hosts.toml").Funcs(template.FuncMap{"quote": strconv.Quote}).Parse(`server = {{quote .Server}}
capabilities = ["pull", "resolve"]
ca = {{quote .CA}}
client = [[{{quote .Certificate}}, {{quote .Key}}]]
`))

// registry renders the file that containerd reads at each pull, together with the certificate: a
// renewed one needs no restart.
func (n Node) registry() ([]byte, error) {
	var b bytes.Buffer
	err := registryTemplate.Execute(&b, map[string]any{
		"Server": "https://" + netip.AddrPortFrom(n.Address, RegistryPort).String(),
		"CA":     n.PKI.Cluster.CertFile(),
		// The registry requires a client certificate of the region's authority; this is the host's own.
		"Certificate": n.Certificates.KubeletClient.CertFile,
		"Key":         n.Certificates.KubeletClient.KeyFile,
	})
	return b.Bytes(), err
}
