package kubeadm

import (
	"bytes"
	"fmt"
	"os"
	"slices"

	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/kube/config"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/lab"
)

// Settings that the two clusters have in common, because the host demands them: its cgroups, its
// capabilities, its disk.
var (
	kubeletSettings = []string{"cgroupDriver", "evictionHard", "failCgroupV1", "failSwapOn", "imageGCHighThresholdPercent",
		"imageGCLowThresholdPercent", "maxOpenFiles", "oomScoreAdj", "resolvConf"}
	proxySettings = []string{"conntrack", "mode", "oomScoreAdj"}
)

// configuration of kubeadm, which is its defaults but for what the host demands. dataDir is
// regiond's, on such a host.
func configuration(dataDir, version string) ([]byte, error) {
	kubelet, err := settings(datadir.Config.In(dataDir, "kubelet.yaml"))
	if err != nil {
		return nil, err
	}
	proxy, err := settings(datadir.Config.In(dataDir, "kube-proxy.yaml"))
	if err != nil {
		return nil, err
	}
	const group = "kubeadm.k8s.io/v1beta4"
	var out bytes.Buffer
	for _, document := range []map[string]any{
		{
			"apiVersion":       group,
			"kind":             "InitConfiguration",
			"localAPIEndpoint": map[string]any{"advertiseAddress": lab.SeedAddress.String()},
			"nodeRegistration": map[string]any{
				"name":            "seed",
				"criSocket":       "unix://" + config.ContainerdSocket(lab.SeedData),
				"imagePullPolicy": "Never", // they are there, and nothing is behind the lab's network
			},
		},
		{
			"apiVersion":        group,
			"kind":              "ClusterConfiguration",
			"kubernetesVersion": version,
			"dns":               map[string]any{"disabled": true}, // it runs in pods, which are not measured
			// The default range of Services' addresses holds the lab's own.
			"networking": map[string]any{"podSubnet": proxy["clusterCIDR"], "serviceSubnet": region.DefaultServiceCIDR},
		},
		pick(kubelet, kubeletSettings),
		pick(proxy, proxySettings),
	} {
		b, err := yaml.Marshal(document)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "---\n%s", b)
	}
	return out.Bytes(), nil
}

func settings(file string) (map[string]any, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := yaml.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

// pick settings of a component's configuration, and what says whose it is.
func pick(all map[string]any, names []string) map[string]any {
	out := map[string]any{}
	for name, value := range all {
		if name == "apiVersion" || name == "kind" || slices.Contains(names, name) {
			out[name] = value
		}
	}
	return out
}
