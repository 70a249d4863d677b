package kubeadm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"regiond.dev/regiond/test/bench/proc"
	"regiond.dev/regiond/test/lab"
)

// plane is a control plane that was started, on a host of its own.
type plane struct {
	lab     lab.Lab
	started time.Time
	// ended gets the result of what brings the control plane up, if it ends.
	ended chan error
}

func newPlane(what string) *plane {
	return &plane{lab: lab.Lab{Name: fmt.Sprintf("bench-%s-%d", what, os.Getpid()), Root: lab.DefaultRoot}}
}

func silent(string, ...any) {}

// own brings regiond's control plane up, calls f with the time that it took, and removes it.
func (b Bench) own(ctx context.Context, f func(*plane, time.Duration) error) (err error) {
	p := newPlane("own")
	defer func() { err = errors.Join(err, p.lab.Down(silent)) }()
	if err := p.lab.Up(ctx, lab.UpConfig{Program: b.Regiond, ImageDir: b.ImageDir, Report: silent}); err != nil {
		return err
	}
	p.started = time.Now()
	ready, err := until(ctx, newObserver(p.lab).controlPlane, nil)
	if err != nil {
		return fmt.Errorf("regiond: %w", err)
	}
	if err := b.take(p.lab.SeedDir()); err != nil {
		return err
	}
	return f(p, ready.Sub(p.started))
}

// kubeadm brings its control plane up, calls f with the time that it took, and removes it.
func (b Bench) kubeadm(ctx context.Context, f func(*plane, time.Duration) error) (err error) {
	p := newPlane("peer")
	defer func() { err = errors.Join(err, p.lab.Down(silent)) }()
	if err := b.prepare(ctx, p.lab); err != nil {
		return fmt.Errorf("preparing kubeadm's host: %w", err)
	}
	init, err := b.enter(ctx, p.lab, "kubeadm", "init", "--config", configFile(lab.SeedData), "--ignore-preflight-errors=all")
	if err != nil {
		return err
	}
	var said bytes.Buffer
	init.Stdout, init.Stderr = &said, &said
	p.started, p.ended = time.Now(), make(chan error, 1)
	if err := init.Start(); err != nil {
		return err
	}
	go func() {
		err := init.Wait()
		if err != nil {
			err = fmt.Errorf("kubeadm init: %w: %s", err, said.String())
		}
		p.ended <- err
		close(p.ended)
	}()
	ready, err := until(ctx, newObserver(p.lab).controlPlane, p.ended)
	if err != nil {
		return errors.Join(err, end(filepath.Join(p.lab.SeedDir(), kubeletLog)))
	}
	return f(p, ready.Sub(p.started))
}

// end of a log, as an error, if there is one.
func end(file string) error {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	const most = 2000
	return fmt.Errorf("%s: … %s", filepath.Base(file), b[max(0, len(b)-most):])
}

// idle measures a control plane at rest.
func (p *plane) idle(ctx context.Context) (u proc.Usage, err error) {
	if p.ended != nil {
		select {
		case err := <-p.ended:
			if err != nil {
				return u, err
			}
		case <-ctx.Done():
			return u, ctx.Err()
		}
	}
	if _, err := until(ctx, newObserver(p.lab).proxy, nil); err != nil {
		return u, fmt.Errorf("kube-proxy: %w", err)
	}
	select {
	case <-ctx.Done():
		return u, ctx.Err()
	case <-time.After(settle):
	}
	status, err := p.lab.Status(ctx)
	if err != nil {
		return u, err
	}
	return proc.Measure(ctx, func() (pids []int, err error) {
		all, err := p.lab.SeedNetwork().Processes()
		for _, pid := range all {
			if pid != status.Seed { // the first process is the lab's
				pids = append(pids, pid)
			}
		}
		return pids, err
	}, window)
}
