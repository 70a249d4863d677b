package config

import (
	"fmt"
	"net/netip"
)

// nodePrefixLength is the length of a node's part of the pod range: 254 pods, as the node IPAM controller would assign.
const nodePrefixLength = 24

// FirstNodePodCIDR is the part of the pod range that the first control host takes. It is assigned here and not by the node IPAM
// controller, for which a fresh node waits some five seconds.
func FirstNodePodCIDR(cluster netip.Prefix) (netip.Prefix, error) {
	length := nodePrefixLength
	if cluster.Addr().Is6() {
		length = 64
	}
	if cluster.Bits() > length {
		return netip.Prefix{}, fmt.Errorf("pod range %s is too small: a node takes a /%d of it", cluster, length)
	}
	return netip.PrefixFrom(cluster.Masked().Addr(), length), nil
}

// KubernetesIP is the address of the Service kubernetes: the first of the range, as the API server assigns it.
func KubernetesIP(services netip.Prefix) netip.Addr { return nth(services, 1) }

// DNSIP is the address of the cluster's DNS Service: the tenth of the range, by convention.
func DNSIP(services netip.Prefix) netip.Addr { return nth(services, 10) }

func nth(p netip.Prefix, n int) netip.Addr {
	a := p.Masked().Addr()
	for range n {
		a = a.Next()
	}
	return a
}
