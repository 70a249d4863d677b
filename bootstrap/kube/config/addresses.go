package config

import (
	"fmt"
	"net/netip"
)

// nodePrefixLength is the prefix length of a node's part of the pod range: 254 pods, as the node
// IPAM controller would assign.
const nodePrefixLength = 24

// FirstNodePodCIDR returns the first control host's part of the pod range. It is assigned here
// rather than by the node IPAM controller, which a new node would wait for some five seconds.
func FirstNodePodCIDR(cluster netip.Prefix) (netip.Prefix, error) {
	length := nodePrefixLength
	if cluster.Addr().Is6() {
		length = 64
	}
	if cluster.Bits() > length {
		return netip.Prefix{}, fmt.Errorf("pod range %s is too small: a node needs a /%d of it", cluster, length)
	}
	return netip.PrefixFrom(cluster.Masked().Addr(), length), nil
}

// KubernetesIP returns the address of the Service kubernetes: the first of the range, as assigned
// by the API server.
func KubernetesIP(services netip.Prefix) netip.Addr { return nth(services, 1) }

// DNSIP returns the address of the cluster's DNS Service: the tenth of the range, by convention.
func DNSIP(services netip.Prefix) netip.Addr { return nth(services, 10) }

func nth(p netip.Prefix, n int) netip.Addr {
	a := p.Masked().Addr()
	for range n {
		a = a.Next()
	}
	return a
}
