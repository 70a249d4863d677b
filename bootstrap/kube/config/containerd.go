package config

import (
	"bytes"
	"strconv"
	"text/template"
)

func (n Node) containerdFile() string { return n.path("config", "containerd.toml") }

// Containerd returns containerd's arguments.
func (n Node) Containerd() []string {
	return []string{"containerd", "--config", n.containerdFile(), "--log-level", "info"}
}

// containerdTemplate is version 4 of containerd's configuration (2.3 and later). Everything of this containerd lives below the data
// directory, also pods' network namespaces and CNI's results, so that a reset knows what is ours and another containerd on the host
// is not met.
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
		"Root":        n.path("containerd", "root"),
		"State":       n.path("containerd", "state"),
		"Opt":         n.path("containerd", "opt"),
		"Socket":      n.ContainerdSocket(),
		"TTRPC":       n.ContainerdSocket() + ".ttrpc",
		"OOMScore":    oomScore,
		"RestrictOOM": !n.Host.LowerOOMScore,
		"Sandbox":     n.SandboxImage,
		"Systemd":     n.Host.Systemd,
		"Shim":        n.PayloadDir + "/containerd-shim-runc-v2",
		"Runc":        n.PayloadDir + "/runc",
		"RuncRoot":    n.path("containerd", "runc"),
		"Payload":     n.PayloadDir,
		"Network":     n.path("cni"),
	})
	return b.Bytes(), err
}
