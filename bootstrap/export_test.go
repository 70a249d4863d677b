package bootstrap

// RemoveData lets tests remove a data directory without tearing down the host's control plane.
func RemoveData(dir string, report func(string, ...any)) error {
	return Reset{DataDir: dir}.removeData(report)
}
