package cluster

import (
	"fmt"
	"strings"

	"regiond.dev/regiond/bootstrap/datadir"
)

// remedy says what to do about the cause of a component's exit, if known.
func remedy(component, cause, dataDir string) string {
	damaged := strings.HasPrefix(cause, "panic: ") || strings.HasPrefix(cause, "unexpected fault address") || strings.HasPrefix(cause, "fatal error: fault") ||
		strings.Contains(cause, "invalid database") || strings.Contains(cause, "checksum") || strings.Contains(cause, "crc mismatch") ||
		strings.Contains(cause, "database file isn't correct") || strings.Contains(cause, "version mismatch")
	switch {
	case strings.Contains(cause, "no space left on device"):
		return fmt.Sprintf("free space on the file system of %s (df %s); it restarts automatically", dataDir, dataDir)
	case component == "containerd" && damaged:
		return fmt.Sprintf("its database may be damaged: stop regiond, move %s away and restart regiond; images are imported and containers created again",
			datadir.Containerd.In(dataDir, "root"))
	case component == "etcd" && damaged:
		return fmt.Sprintf("its data in %s may be damaged: stop regiond and restore it from a backup; it contains all objects of the region",
			datadir.Etcd.In(dataDir))
	}
	return ""
}
