package openstack

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/kustomize"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

// maxSecret bounds the files of a Secret in bytes (Kubernetes' MaxSecretSize is 1 MiB for the
// values).
const maxSecret = 1 << 20

// RoleFernet has Keystone's Fernet keys. Keystone reads them for each token, and they rotate while
// it runs: their Secret keeps its name and changes in place, for another name would start Keystone
// again. Templates of earlier versions have them in role keystone.
const RoleFernet = "fernet"

// AnnotationContent is the digest of what is in a Secret that changes in place.
const AnnotationContent = "regiond.dev/content"

// ConfigSecret is the name of a role's Secret in the manifests; in the cluster, a digest of its
// content follows unless it changes in place.
func ConfigSecret(role string) string { return "config-" + role }

// configs renders the configuration of pods into one Secret for each role, which is immutable and named by its content unless it
// changes in place: a pod that is started again gets the configuration that it was made with, and a changed one makes new pods.
func (c *Composer) configs(in Input, s *State) ([]*unstructured.Unstructured, map[string]kustomize.Config, error) {
	var secrets []*unstructured.Unstructured
	s.Configs = map[string][]configgen.File{}
	configs := map[string]kustomize.Config{}
	var errs []error
	for _, role := range c.source.Roles() {
		if role == configgen.RoleCompute {
			continue
		}
		files, warnings, err := c.source.Render(s.Values, role)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.cluster.warnings = append(s.cluster.warnings, configgen.Texts(warnings)...)
		s.Configs[role] = files
		secret, err := configSecret(in.Cluster.Name, role, files)
		if err != nil {
			errs = append(errs, fmt.Errorf("configuration of %s: %w", role, err))
			continue
		}
		secrets = append(secrets, secret)
		config := kustomize.Config{Secret: secret.GetName()}
		for _, f := range files {
			config.Files = append(config.Files, kustomize.ConfigFile{Path: f.Path, Executable: executable(f.Mode)})
		}
		configs[ConfigSecret(role)] = config
	}
	return secrets, configs, errors.Join(errs...)
}

// executable reports whether a mode, in octal, lets anyone execute the file.
func executable(mode string) bool {
	return strings.ContainsAny(strings.TrimLeft(mode, "0"), "1357")
}

func configSecret(cluster, role string, files []configgen.File) (*unstructured.Unstructured, error) {
	data, size := map[string]any{}, 0
	h := sha256.New()
	for _, f := range files {
		key := kustomize.Key(f.Path)
		if _, taken := data[key]; taken {
			return nil, fmt.Errorf("%s: another file has the same key %s", f.Path, key)
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(f.Content))
		size += len(f.Content)
		// Writing to a hash never fails (hash.Hash).
		fmt.Fprintf(h, "%q %d\n%s\n", key, len(f.Content), f.Content)
	}
	if size > maxSecret {
		return nil, fmt.Errorf("its files have %d bytes, and a Secret holds at most %d", size, maxSecret)
	}
	digest := hex.EncodeToString(h.Sum(nil))
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data}}
	u.SetNamespace(Namespace(cluster))
	if role == RoleFernet {
		u.SetName(ConfigSecret(role))
		u.SetAnnotations(map[string]string{AnnotationContent: digest})
	} else {
		u.Object["immutable"] = true
		u.SetName(ConfigSecret(role) + "-" + digest[:10])
	}
	l := labels(cluster)
	l[LabelConfig] = role
	u.SetLabels(l)
	return u, nil
}

// kinds lists kinds in the order in which they are applied within a gate: those that pods need to
// start come first, unlisted ones last.
var kinds = []string{"Namespace", "ServiceAccount", "Role", "RoleBinding", "Secret", "ConfigMap", "PersistentVolumeClaim", "NetworkPolicy",
	"PodDisruptionBudget", "Service", "Job", "StatefulSet", "Deployment", "DaemonSet", "CronJob"}

// order sorts objects gate by gate, then by kind and name.
func order(objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		if g := o.GetAnnotations()[AnnotationGate]; g != "" && !slices.Contains(region.Gates, g) {
			return fmt.Errorf("%s %s: annotation %s: there is no gate %q; %s", o.GetKind(), o.GetName(), AnnotationGate, g,
				check.DidYouMean(g, region.Gates, "gate"))
		}
	}
	rank := func(o *unstructured.Unstructured) [2]int {
		kind := slices.Index(kinds, o.GetKind())
		if kind < 0 {
			kind = len(kinds)
		}
		return [2]int{slices.Index(region.Gates, o.GetAnnotations()[AnnotationGate]), kind} // -1: before all gates
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		x, y := rank(a), rank(b)
		if d := slices.Compare(x[:], y[:]); d != 0 {
			return d
		}
		return strings.Compare(a.GetKind()+"/"+a.GetName(), b.GetKind()+"/"+b.GetName())
	})
	return nil
}
