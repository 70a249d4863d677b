// Package kubeadm compares regiond's control plane with the same version of the same programs, etcd
// and containerd as kubeadm sets them up: `kubeadm init`, by which a kubelet runs them as static
// pods. Both are started in a lab's seed host, on which nothing else runs: the same namespaces,
// cgroups, disk, configuration of containerd, and network of pods.
//
// Where they can't be the same, it is kubeadm that gains. Its images are there and its containerd
// runs before its time begins, while regiond unpacks, starts and imports in its own. Its CoreDNS is
// left out. regiond's memory is with its controllers, DHCP, TFTP and registry.
package kubeadm

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/test/bench/proc"
)

const (
	runs = 3
	// settle is how long a control plane is left alone before it counts as idle, window how long it
	// is then looked at.
	settle = 30 * time.Second
	window = 30 * time.Second
)

// Bench compares the two.
type Bench struct {
	// Regiond is the program, Programs the folder of kubeadm's (scripts/build-kubeadm).
	Regiond, Programs string
	ImageDir          string
	// Dir takes what is prepared for kubeadm's hosts, on a disk.
	Dir string
}

// Pair of a figure, regiond's and kubeadm's.
type Pair struct{ Own, Kubeadm float64 }

// Share of kubeadm's figure that regiond's is.
func (p Pair) Share() float64 { return p.Own / p.Kubeadm }

// better takes the smaller ones of two pairs.
func (p *Pair) better(q Pair) {
	if *p == (Pair{}) {
		*p = q
	}
	p.Own, p.Kubeadm = min(p.Own, q.Own), min(p.Kubeadm, q.Kubeadm)
}

// Start is the time in seconds from nothing to a control plane whose node can be given pods: the
// better of several runs, in turn.
func (b Bench) Start(ctx context.Context) (best Pair, err error) {
	for range runs {
		var p Pair
		if err := b.own(ctx, func(_ *plane, took time.Duration) error { p.Own = took.Seconds(); return nil }); err != nil {
			return best, err
		}
		if err := b.kubeadm(ctx, func(_ *plane, took time.Duration) error { p.Kubeadm = took.Seconds(); return nil }); err != nil {
			return best, err
		}
		best.better(p)
	}
	return best, nil
}

// Idle is what all processes of the hosts use when a minute has passed since the control plane was
// there: memory in bytes and processor time in per cent of a core.
func (b Bench) Idle(ctx context.Context) (pss, cpu Pair, err error) {
	var own, kubeadm proc.Usage
	err1 := b.own(ctx, func(p *plane, _ time.Duration) (err error) { own, err = p.idle(ctx); return err })
	err2 := b.kubeadm(ctx, func(p *plane, _ time.Duration) (err error) { kubeadm, err = p.idle(ctx); return err })
	if err := errors.Join(err1, err2); err != nil {
		return pss, cpu, err
	}
	return Pair{own.PSS, kubeadm.PSS}, Pair{own.CPU, kubeadm.CPU}, nil
}

// Disk is what the programs take in bytes: each has the shim, runc, the plugins of pods' network,
// and the images that regiond carries.
func (b Bench) Disk() (p Pair, err error) {
	shared, err := size(datadir.Bin.In(b.Dir))
	if err != nil {
		return p, err
	}
	own, err1 := size(b.Regiond)
	kubeadm, err2 := size(b.Programs)
	return Pair{own + shared, kubeadm + shared}, errors.Join(err1, err2)
}

// size of a file, or of all files in a folder.
func size(root string) (bytes float64, err error) {
	err = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += float64(info.Size())
		}
		return err
	})
	return bytes, err
}
