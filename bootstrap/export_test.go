package bootstrap

// RemoveData lets tests remove a data directory without tearing down the host's control plane.
func (r Reset) RemoveData(report func(string, ...any)) error { return r.removeData(report) }

// ForeignEntries lists entries that others created in a directory.
var ForeignEntries = foreignEntries

// ListenRegistry opens the registry of component images.
var ListenRegistry = listenRegistry
