// Package node is the agent on installed servers. At boot it configures the network from the identity
// that the installer left; then it joins the region with a one-time token, reports what runs, and
// keeps a heartbeat. It reads and writes its own Host and Lease only.
//
// It speaks to the API server with plain HTTPS and JSON: of Kubernetes it needs four requests, and
// client libraries would be most of its size.
package node
