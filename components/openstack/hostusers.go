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

// HostUser is the name of a compute host's own user, of Keystone and of the broker alike.
func HostUser(host string) string { return "compute-" + host }

// HostPasswords are those of a compute host's own users.
type HostPasswords struct{ Keystone, RabbitMQ string }

// HostPasswords derives the passwords of a host from the cluster's secrets. A host that is enrolled again is another one, with another
// UID, and has others. ok is false while the secret that they are derived from is not generated.
func (in Input) HostPasswords(h Host) (p HostPasswords, ok bool) {
	v, _ := secrets.Get(in.Secrets, secretHostKey)
	key, ok := v.(string)
	if !ok || key == "" {
		return HostPasswords{}, false
	}
	return HostPasswords{Keystone: derive(key, "keystone", h), RabbitMQ: derive(key, "rabbitmq", h)}, true
}

// derive makes a password of 256 bits for a purpose (HMAC, RFC 2104), in digits that no file, shell or URL needs to quote.
func derive(key, purpose string, h Host) string {
	mac := hmac.New(sha256.New, []byte(key))
	for _, part := range []string{purpose, h.Name, string(h.UID)} {
		mac.Write([]byte(part)) // does not fail (hash.Hash)
		mac.Write([]byte{0})
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// nodeSecrets are the passwords as the configuration's generator takes them; none while they are not known.
func (in Input) nodeSecrets(h Host) map[string]string {
	p, ok := in.HostPasswords(h)
	if !ok {
		return nil
	}
	return map[string]string{configgen.NodeKeystonePassword: p.Keystone, configgen.NodeRabbitMQPassword: p.RabbitMQ}
}

// HostUsers says whether hosts have their own users with these templates: those of earlier versions had the services' ones.
func (c *Composer) HostUsers() bool { return c.source.Uses("node." + configgen.NodeKeystonePassword) }
