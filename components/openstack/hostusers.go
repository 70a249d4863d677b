package openstack

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"

	"regiond.dev/regiond/components/configgen"
	"regiond.dev/regiond/components/configgen/secrets"
)

// secretHostKey is the path of the secret that hosts' passwords are derived from.
const secretHostKey = "compute.host_key"

// HostUser returns the name of a compute host's own user, which is the same in Keystone and the
// broker.
func HostUser(host string) string { return "compute-" + host }

// HostPasswords are the passwords of a compute host's own users.
type HostPasswords struct{ Keystone, RabbitMQ string }

// HostPasswords derives the passwords of a host from the cluster's secrets. They change when the
// host is enrolled again, because it then has another UID. ok is false until the secret that they
// are derived from has been generated.
func (in Input) HostPasswords(h Host) (p HostPasswords, ok bool) {
	v, _ := secrets.Get(in.Secrets, secretHostKey)
	key, ok := v.(string)
	if !ok || key == "" {
		return HostPasswords{}, false
	}
	return HostPasswords{Keystone: derive(key, "keystone", h), RabbitMQ: derive(key, "rabbitmq", h)}, true
}

// derive derives a password of 256 bits for a purpose (HMAC, RFC 2104), in characters that need no
// quoting in files, shells or URLs.
func derive(key, purpose string, h Host) string {
	mac := hmac.New(sha256.New, []byte(key))
	for _, part := range []string{purpose, h.Name, string(h.UID)} {
		mac.Write([]byte(part)) // never fails (hash.Hash)
		mac.Write([]byte{0})
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// nodeSecrets returns the passwords for the configuration generator; none until they are known.
func (in Input) nodeSecrets(h Host) map[string]string {
	p, ok := in.HostPasswords(h)
	if !ok {
		return nil
	}
	return map[string]string{configgen.NodeKeystonePassword: p.Keystone, configgen.NodeRabbitMQPassword: p.RabbitMQ}
}

// HostUsers reports whether hosts have their own users with these templates: with earlier templates
// they use those of the services.
func (c *Composer) HostUsers() bool { return c.source.Uses("node." + configgen.NodeKeystonePassword) }
