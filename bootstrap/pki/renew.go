package pki

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// Renew renews the certificates that Issue has issued since Load and would not keep now. It returns
// their names as in the inventory, sorted. A failure does not prevent the renewal of the others.
func (p *PKI) Renew() (renewed []string, err error) {
	for _, a := range []*Authority{p.Cluster, p.Etcd, p.FrontProxy} {
		names, failed := a.renew()
		err = errors.Join(err, failed)
		for _, n := range names {
			name, failed := filepath.Rel(p.dir, filepath.Join(a.dir, n))
			err = errors.Join(err, failed)
			renewed = append(renewed, name)
		}
	}
	slices.Sort(renewed)
	return renewed, err
}

func (a *Authority) renew() (renewed []string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(a.issued)) {
		_, anew, failed := a.ensure(name, a.issued[name])
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("renewing %s: %w", a.path(name).CertFile, failed))
		} else if anew {
			renewed = append(renewed, name)
		}
	}
	return renewed, err
}
