package kustomize

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"regiond.dev/regiond/region/check"
)

// dataPlaceholder is the prefix of paths in the base that are on the seed host's data disk.
const dataPlaceholder = "/DATA-DIR/"

// finish does what Kustomize has no transformer for: names by content, and this cluster's settings
// of pods.
func (o Overlay) finish(u *unstructured.Unstructured) error {
	spec, err := podSpec(u)
	if err != nil || spec == nil {
		return err
	}
	containers := append(list(spec, "initContainers"), list(spec, "containers")...)
	if err := checkImages(containers); err != nil {
		return err
	}
	for _, v := range list(spec, "volumes") {
		if err := o.finishVolume(v, containers); err != nil {
			return fmt.Errorf("volume %v: %w", v["name"], err)
		}
	}
	if u.GetKind() == "Job" { // its template is immutable, and completed work must not run again
		hash, err := digest(u.Object["spec"])
		if err != nil {
			return err
		}
		u.SetName(u.GetName() + "-" + hash)
	}
	return nil
}

// checkImages refuses image names of the base that the release lacks.
func checkImages(containers []map[string]any) error {
	for _, c := range containers {
		if image, _ := c["image"].(string); !strings.ContainsAny(image, "/:@") {
			return fmt.Errorf("container %v: the release has no image %q", c["name"], image)
		}
	}
	return nil
}

func (o Overlay) finishVolume(v map[string]any, containers []map[string]any) error {
	if host, ok := v["hostPath"].(map[string]any); ok {
		if p, _ := host["path"].(string); strings.HasPrefix(p, dataPlaceholder) {
			host["path"] = path.Join(o.DataDir, strings.TrimPrefix(p, dataPlaceholder))
		}
	}
	secret, ok := v["secret"].(map[string]any)
	if !ok {
		return nil
	}
	name, _ := secret["secretName"].(string)
	config, ok := o.Configs[name]
	if !ok {
		return nil
	}
	secret["secretName"] = config.Secret
	if _, written := secret["items"]; written {
		return checkKeys(name, config, list(secret, "items"))
	}
	mountPath, err := mountedAt(fmt.Sprint(v["name"]), containers)
	if err != nil {
		return err
	}
	mode := int64(0o440)
	if m, ok := secret["defaultMode"].(int64); ok {
		mode = m
	} else {
		secret["defaultMode"] = mode
	}
	var items []any
	for _, f := range config.Files {
		below, ok := strings.CutPrefix(f.Path, strings.TrimSuffix(mountPath, "/")+"/")
		if !ok {
			continue
		}
		item := map[string]any{"key": Key(f.Path), "path": below}
		if f.Executable {
			item["mode"] = mode | (mode & 0o444 >> 2)
		}
		items = append(items, item)
	}
	if len(items) == 0 {
		return fmt.Errorf("%s has no file below %s, where the volume is mounted", name, mountPath)
	}
	slices.SortFunc(items, func(a, b any) int {
		return strings.Compare(a.(map[string]any)["key"].(string), b.(map[string]any)["key"].(string))
	})
	secret["items"] = items
	return nil
}

// checkKeys refuses items of the base without a file: the kubelet would wait for them forever.
func checkKeys(name string, config Config, items []map[string]any) error {
	var keys []string
	for _, f := range config.Files {
		keys = append(keys, Key(f.Path))
	}
	for _, i := range items {
		if key := fmt.Sprint(i["key"]); !slices.Contains(keys, key) {
			return fmt.Errorf("%s has no file %s; %s", name, key, check.DidYouMean(key, keys, "key"))
		}
	}
	return nil
}

// mountedAt returns the path at which all containers mount a volume.
func mountedAt(volume string, containers []map[string]any) (string, error) {
	at := ""
	for _, c := range containers {
		for _, m := range list(c, "volumeMounts") {
			p, _ := m["mountPath"].(string)
			switch {
			case m["name"] != volume:
			case at != "" && at != p:
				return "", fmt.Errorf("it is mounted at both %s and %s; list the volume's items, or use two volumes", at, p)
			default:
				at = p
			}
		}
	}
	if at == "" {
		return "", fmt.Errorf("no container mounts it")
	}
	return at, nil
}

// podSpecPath returns the path of the pod specification in a kind, nil if it has none.
func podSpecPath(kind string) []string {
	switch kind {
	case "Deployment", "StatefulSet", "DaemonSet", "Job":
		return []string{"spec", "template", "spec"}
	case "CronJob":
		return []string{"spec", "jobTemplate", "spec", "template", "spec"}
	case "Pod":
		return []string{"spec"}
	}
	return nil
}

// podSpec returns the specification of an object's pods, nil if it has none.
func podSpec(u *unstructured.Unstructured) (map[string]any, error) {
	where := podSpecPath(u.GetKind())
	if where == nil {
		return nil, nil
	}
	spec := u.Object
	for _, f := range where {
		next, ok := spec[f].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s is missing", strings.Join(where, "."))
		}
		spec = next
	}
	return spec, nil
}

// list returns the list of maps below a key, without elements that are not maps, which the API
// server will refuse.
func list(m map[string]any, key string) []map[string]any {
	values, _ := m[key].([]any)
	var all []map[string]any
	for _, v := range values {
		if e, ok := v.(map[string]any); ok {
			all = append(all, e)
		}
	}
	return all
}

// digest returns 10 hex digits of the SHA-256 of a value's JSON, whose keys are sorted.
func digest(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])[:10], nil
}
