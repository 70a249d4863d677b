//go:build e2e

package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/test/lab"
	"regiond.dev/regiond/test/lab/namespace"
)

// oneNode is the least that can be readmitted: a node that is a namespace, without OpenStack.
const oneNode = "spec: {machines: [{name: n1, kind: namespace}]}"

// clientFile of the agent, below the data partition.
const clientFile = "agent/client.pem"

// TestReadmission: a host whose certificate expired while it was off comes back by the key on its data partition, once an
// operator has let it. What is on the partition stays, and so do the disks of guests. Certificates from before have no rights.
func TestReadmission(t *testing.T) {
	l := NewLab(t, *regiond, "r")
	l.Wait(l.Up("--config", l.Write(oneNode)))
	const guest = "/var/lib/nova/instances/8d3f/disk"
	l.node("mkdir", "-p", filepath.Dir(guest))
	l.node("dd", "if=/dev/urandom", "of="+guest, "bs=1M", "count=8")
	if out, err := l.command("lab", "exec", "--lab", l.name, "--", "regiond", "server", "readmit", "n1", "--yes").CombinedOutput(); err == nil || !strings.Contains(string(out), "is valid until") {
		t.Errorf("readmit of a host that is in service: got %v %s, want a refusal", err, out)
	}

	disk := l.node("sha256sum", guest)
	l.Run("lab", "power", "--lab", l.name, "n1", "off")
	key := l.expire("n1")
	partition := l.partition("n1")
	l.Run("lab", "power", "--lab", l.name, "n1", "on")
	var plan enrollment.Readmission
	l.Eventually("the host asks", 3*time.Minute, func() (bool, string) {
		out, err := l.command("lab", "exec", "--lab", l.name, "--", "regiond", "server", "readmit", "n1", "-o", "json").CombinedOutput()
		return err == nil && json.Unmarshal(out, &plan) == nil && !plan.Asked.IsZero(), fmt.Sprintf("%v %s", err, out)
	})
	if len(plan.Keys) != 1 || plan.Keys[0] != keyID(l, key) || !plan.AgentAsks || !strings.Contains(plan.Need, "has not reached it") || plan.AskedFrom == "" {
		t.Errorf("evidence %+v, want the key %s", plan, keyID(l, key))
	}
	readmitted := time.Now()
	t.Log(l.Seed("regiond", "server", "readmit", "n1", "--yes"))
	l.Eventually("the host is heard again", 3*time.Minute, func() (bool, string) {
		at := l.heartbeat("n1")
		return at.After(readmitted), at.String()
	})
	certificate := l.certificate("n1")
	if !key.Equal(certificate.PrivateKey.(crypto.Signer).Public()) || time.Until(certificate.Leaf.NotAfter) < 80*24*time.Hour {
		t.Errorf("the certificate is of the key %s until %s, want the key %s and 90 days", keyID(l, certificate.PrivateKey.(crypto.Signer).Public()), certificate.Leaf.NotAfter, keyID(l, key))
	}
	if d := different(partition, l.partition("n1")); len(d) > 0 {
		t.Errorf("files of the data partition that are others than before: %v", d)
	}
	if now := l.node("sha256sum", guest); now != disk {
		t.Errorf("the guest's disk: got %s, want %s", now, disk)
	}
	if out, err := l.command("lab", "exec", "--lab", l.name, "--", "regiond", "server", "readmit", "n1", "--yes").CombinedOutput(); err == nil {
		t.Errorf("readmit again: got %s, want a refusal", out)
	}

	t.Run("a certificate from before has no rights", func(t *testing.T) { earlierCertificate(l.on(t), certificate) })
}

// earlierCertificate makes a new identity for the host, as after its disk was lost.
func earlierCertificate(l *Lab, pulled tls.Certificate) {
	l.wantAnswer("in use", pulled, http.StatusOK)
	l.Run("lab", "power", "--lab", l.name, "n1", "off")
	data := l.data("n1")
	if err := os.Remove(filepath.Join(data, clientFile)); err != nil {
		l.Fatal(err)
	}
	l.Seed("regiond", "host", "enroll", "n1", "--again", "--profile", "n1", "-f", lab.SeedRegionFile, "--identity", "/run/lab/machines/n1/data/new.json")
	if err := os.Rename(filepath.Join(data, "new.json"), filepath.Join(data, identity.File)); err != nil {
		l.Fatal(err)
	}
	l.wantAnswer("a new identity was made", pulled, http.StatusForbidden)
	l.Run("lab", "power", "--lab", l.name, "n1", "on")
	l.Eventually("the host has joined again", 3*time.Minute, func() (bool, string) {
		m := l.Status().Machines[0]
		return m.Ready && l.heard("n1"), fmt.Sprintf("%+v", m)
	})
	l.wantAnswer("of the new identity", l.certificate("n1"), http.StatusOK)
	l.wantAnswer("of the one before", pulled, http.StatusForbidden)
}

// node runs a command on n1.
func (l *Lab) node(args ...string) string {
	l.Helper()
	return l.Run(append([]string{"lab", "exec", "--lab", l.name, "--node", "n1", "--"}, args...)...)
}

// data partition of a namespace node.
func (l *Lab) data(node string) string {
	return filepath.Join(lab.DefaultRoot, l.name, "machines", node, "data")
}

// heard says whether a host's heartbeat is fresh.
func (l *Lab) heard(node string) bool {
	l.Helper()
	return time.Since(l.heartbeat(node)) < 20*time.Second
}

// heartbeat is when a host was last heard, zero if never.
func (l *Lab) heartbeat(node string) time.Time {
	l.Helper()
	at, err := time.Parse(time.RFC3339Nano, l.Kubectl("get", "lease", node, "--namespace", "regiond-hosts", "-o", "jsonpath={.spec.renewTime}"))
	if err != nil {
		return time.Time{}
	}
	return at
}

// certificate of a node's agent, with its key.
func (l *Lab) certificate(node string) tls.Certificate {
	l.Helper()
	file := filepath.Join(l.data(node), clientFile)
	c, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		l.Fatal(err)
	}
	return c
}

// expire puts a certificate of the same key that has expired in the place of the agent's, as if the node had been off until then.
func (l *Lab) expire(node string) interface{ Equal(crypto.PublicKey) bool } {
	l.Helper()
	c := l.certificate(node)
	key := c.PrivateKey.(crypto.Signer)
	expired := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: c.Leaf.Subject, NotBefore: time.Now().Add(-90 * 24 * time.Hour), NotAfter: time.Now().Add(-time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, expired, expired, key.Public(), key)
	if err != nil {
		l.Fatal(err)
	}
	file := filepath.Join(l.data(node), clientFile)
	content, err := os.ReadFile(file)
	if err != nil {
		l.Fatal(err)
	}
	block, rest := pem.Decode(content) // the key comes first
	content = append(content[:len(content)-len(rest)], pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
		l.Fatalf("%s begins with %s", file, block.Type)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		l.Fatal(err)
	}
	return key.Public().(interface{ Equal(crypto.PublicKey) bool })
}

func keyID(l *Lab, key crypto.PublicKey) string {
	l.Helper()
	spki, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		l.Fatal(err)
	}
	return enroll.KeyID(spki)
}

// partition is what a node's data partition holds, by path, but for the agent's certificate.
func (l *Lab) partition(node string) map[string]string {
	l.Helper()
	sums := map[string]string{}
	err := filepath.WalkDir(l.data(node), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, clientFile) {
			return err
		}
		content, err := os.ReadFile(path)
		sum := sha256.Sum256(content)
		sums[path] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil || len(sums) == 0 {
		l.Fatalf("%d files: %v", len(sums), err)
	}
	return sums
}

// wantAnswer asks the API server for n1's Host, from the seed host's network.
func (l *Lab) wantAnswer(when string, certificate tls.Certificate, want int) {
	l.Helper()
	var id identity.Identity
	content, err := os.ReadFile(filepath.Join(l.data("n1"), identity.File))
	if err == nil {
		err = json.Unmarshal(content, &id)
	}
	if err != nil {
		l.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(id.CA))
	api := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}},
		DialContext: namespace.Namespace{Name: "rl-" + l.name + "-seed"}.Dial}}
	defer api.CloseIdleConnections()
	l.Eventually("the answer to the certificate "+when, 10*time.Second, func() (bool, string) {
		resp, err := api.Get(id.KubernetesURL + "/apis/regiond.dev/v1alpha1/hosts/n1")
		if err != nil {
			return false, err.Error()
		}
		resp.Body.Close()
		return resp.StatusCode == want, fmt.Sprintf("%s, want %d", resp.Status, want)
	})
}
