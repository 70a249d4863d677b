package server

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/region"
)

// CredentialsSecret is the name of the Secret with a BMC's user, in Namespace.
func CredentialsSecret(name string) string { return "bmc-" + name }

// Keys of such a Secret. The last is there only for BMCs that have a key of their own.
const (
	KeyUsername = "username"
	KeyPassword = "password"
	KeyBMCKey   = "bmcKey"
)

// Target is a BMC with the credentials of a Secret.
func Target(address netip.AddrPort, protocol region.BMCProtocol, secret *corev1.Secret) bmc.Target {
	return bmc.Target{Address: address, Protocol: protocol, Username: string(secret.Data[KeyUsername]),
		Password: string(secret.Data[KeyPassword]), Key: string(secret.Data[KeyBMCKey])}
}
