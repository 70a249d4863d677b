package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
)

var keyIdentity = []byte("identity")

// Identity is the identity of this host in the cluster of this data directory. etcd's members and
// every certificate contain the address; a host that returns with another one (a moved DHCP lease,
// a cloned disk) must not start: its etcd member would be lost, and the control plane with it
// (harvester#3733, rke2#3176).
type Identity struct {
	// Region is metadata.name of the Region.
	Region string `json:"region"`
	// Address of the host in the management network.
	Address string `json:"address"`
	// Node name in Kubernetes.
	Node string `json:"node"`
	// PodCIDR and ServiceCIDR are the ranges of pods' and Services' addresses. Both are fixed for the
	// life of a control plane: the node's bridge and every pod have addresses in PodCIDR, and a
	// Service can't change its clusterIPs. Records of versions until December 2026 lack them; the next
	// start fills them in.
	PodCIDR     string `json:"podCIDR,omitempty"`
	ServiceCIDR string `json:"serviceCIDR,omitempty"`
}

// ErrIdentityChanged is wrapped by the errors of CheckIdentity for a different identity.
var ErrIdentityChanged = errors.New("this data directory belongs to another identity")

// CheckIdentity records the identity at the first start and refuses any other one later.
func (j *Journal) CheckIdentity(now Identity) error {
	return j.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketNode)
		v := b.Get(keyIdentity)
		if v == nil {
			return put(b, now)
		}
		var was Identity
		if err := json.Unmarshal(v, &was); err != nil {
			return fmt.Errorf("journal: record of this host's identity: %w", err)
		}
		if err := was.same(now); err != nil || was.PodCIDR != "" && was.ServiceCIDR != "" {
			return err
		}
		return put(b, now)
	})
}

func put(b *bbolt.Bucket, id Identity) error {
	v, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return b.Put(keyIdentity, v)
}

func (was Identity) same(now Identity) error {
	switch {
	case was.Region != now.Region:
		return fmt.Errorf("%w: it was created for region %q, region.yaml has %q; "+
			"use the other region.yaml, set another controlPlane.dataDir, or run `regiond reset` to remove the old region",
			ErrIdentityChanged, was.Region, now.Region)
	case was.Address != now.Address:
		return fmt.Errorf("%w: the control plane was started with address %s, region.yaml now has %s; "+
			"its etcd member and its certificates contain the old address, and servers connect to it. "+
			"Give the host the address %s again (static, not by DHCP) and set it in region.yaml",
			ErrIdentityChanged, was.Address, now.Address, was.Address)
	case was.Node != now.Node:
		return fmt.Errorf("%w: the node is known to Kubernetes as %q, the host is now named %q; "+
			"restore the host name: hostnamectl set-hostname %s",
			ErrIdentityChanged, was.Node, now.Node, was.Node)
	case was.PodCIDR != "" && was.PodCIDR != now.PodCIDR:
		return rangeChanged("podCIDR", "the addresses of pods", was.PodCIDR, now.PodCIDR)
	case was.ServiceCIDR != "" && was.ServiceCIDR != now.ServiceCIDR:
		return rangeChanged("serviceCIDR", "the addresses of Services", was.ServiceCIDR, now.ServiceCIDR)
	}
	return nil
}

func rangeChanged(field, what, was, now string) error {
	return fmt.Errorf("%w: spec.controlPlane.%s was %s when the control plane was created, region.yaml now has %s; %s are in use and can't "+
		"change. Set it back to %s, or run `regiond reset` to remove the region and create a new one", ErrIdentityChanged, field, was, now, what, was)
}

// Identity returns the recorded identity; ok is false before the first start.
func (j *Journal) Identity() (id Identity, ok bool, err error) { return identityIn(j.db) }

func identityIn(db *bbolt.DB) (id Identity, ok bool, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketNode)
		if b == nil {
			return nil
		}
		v := b.Get(keyIdentity)
		if v == nil {
			return nil
		}
		ok = true
		return json.Unmarshal(v, &id)
	})
	return id, ok, err
}

// ReadIdentity reads the record of a journal that is not open. A missing file has no record.
func ReadIdentity(path string) (Identity, error) {
	db, err := openSound(path)
	if errors.Is(err, os.ErrNotExist) {
		return Identity{}, nil
	}
	if err != nil {
		return Identity{}, err
	}
	id, _, err := identityIn(db)
	return id, errors.Join(err, db.Close())
}
