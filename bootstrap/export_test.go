package bootstrap

// RemoveData lets tests remove a data directory without tearing down the host's control plane.
func (r Reset) RemoveData(report func(string, ...any)) error { return r.removeData(report) }

// Taken lists what others made in a directory.
var Taken = taken

// ListenRegistry opens the registry of component images.
var ListenRegistry = listenRegistry
