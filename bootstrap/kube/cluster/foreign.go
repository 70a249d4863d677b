package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"regiond.dev/regiond/bootstrap/datadir"
)

// foreignPaths are folders outside the data directory whose names are hard-coded in the components:
// the kubelet's sockets for device plugins, its links to containers' logs, the results of CNI
// plugins, and shims' sockets.
var foreignPaths = []string{"/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers"}

func foreignRecord(dataDir string) string { return datadir.Config.In(dataDir, "created.json") }

// recordForeign records, before the first start, which of the foreign folders the host lacks: those
// are ours to remove later.
func recordForeign(dataDir string) error {
	record := foreignRecord(dataDir)
	if _, err := os.Stat(record); err == nil {
		return nil
	}
	created := []string{}
	for _, path := range foreignPaths {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			created = append(created, path)
		}
	}
	content, err := json.Marshal(created)
	if err != nil {
		return fmt.Errorf("recording the folders that the host lacks: %w", err)
	}
	return writeFile(record, content, 0o600)
}

// releaseForeign removes the foreign folders that were created for us, unless pods of another
// containerd on this host use them. It is called after our pods have ended.
func releaseForeign(dataDir string, log *slog.Logger) error {
	processes, err := readProcesses()
	if err != nil {
		return err
	}
	for _, p := range processes {
		if socket := shimSocket(p.args); socket != "" && sharesMounts(p.pid) {
			log.Warn("keeping folders outside the data directory, because another containerd's pods use them", slog.String("containerd", socket))
			return nil
		}
	}
	return removeForeign(dataDir)
}

// removeForeign removes the foreign folders that were created for us.
func removeForeign(dataDir string) error {
	content, err := os.ReadFile(foreignRecord(dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading which folders were created outside the data directory: %w", err)
	}
	var created []string
	if err := json.Unmarshal(content, &created); err != nil {
		return fmt.Errorf("%s: %w", foreignRecord(dataDir), err)
	}
	var all error
	for _, path := range created {
		// Only paths in this list, because the record is an ordinary file.
		for _, known := range foreignPaths {
			if path == known {
				all = errors.Join(all, os.RemoveAll(path))
			}
		}
	}
	return all
}
