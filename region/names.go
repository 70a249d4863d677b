package region

// FieldManager names regiond in metadata.managedFields of what it applies.
const FieldManager = "regiond"

// Namespaces of regiond.
const (
	// NamespaceSystem holds credentials and tokens.
	NamespaceSystem = "regiond-system"
	// NamespaceHosts holds the hosts' Leases and configurations.
	NamespaceHosts = "regiond-hosts"
)

// KindRegion is the kind of region.yaml.
const KindRegion = "Region"
