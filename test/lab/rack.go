package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"regiond.dev/regiond/test/lab/bmc"
	"regiond.dev/regiond/test/lab/machine"
)

// ipmiPort of every virtual BMC (RMCP, IANA).
const ipmiPort = 623

// RunRack is the lab's rack: it holds the virtual servers and their BMCs until ctx is done,
// in the network namespace of the rack, which the caller has entered.
func (l Lab) RunRack(ctx context.Context, kvm bool, log *slog.Logger) error {
	user, err := l.credentials()
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	var machines []*machine.Machine
	for i, spec := range l.Spec.Machines {
		if !spec.VM() {
			continue
		}
		c, err := l.machine(i)
		if err != nil {
			return err
		}
		c.KVM = kvm
		m, err := machine.New(c, log)
		if err != nil {
			return err
		}
		machines = append(machines, m)
		b, err := bmc.New(bmc.Config{
			Address:  bmcAddressPort(i).String(),
			Username: user.Username,
			Password: user.Password,
			Machine:  m,
			FRU:      bmc.FRU{Manufacturer: machine.Manufacturer, Product: machine.Product, SerialNumber: c.SerialNumber},
			UUID:     c.UUID,
			Log:      log.With(slog.String("machine", c.Name)),
		})
		if err != nil {
			return fmt.Errorf("machine %s: bmc: %w", c.Name, err)
		}
		g.Go(func() error { return b.Serve(ctx) })
		kcs, err := listen(filepath.Join(c.Dir, "kcs.sock"))
		if err != nil {
			return err
		}
		g.Go(func() error { return b.ServeKCS(ctx, kcs) })
		console, err := listen(filepath.Join(c.Dir, "console.sock"))
		if err != nil {
			return err
		}
		g.Go(func() error { return serveConsole(ctx, console, m) })
	}
	log.Info("rack is up", slog.Int("machines", len(machines)))
	err = g.Wait()
	for _, m := range machines {
		err = errors.Join(err, m.PowerOff(context.WithoutCancel(ctx)))
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// credentials is the file that a Credential of the region refers to.
type credentials struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// credentials of the lab's BMCs.
func (l Lab) credentials() (c credentials, err error) {
	b, err := os.ReadFile(l.file(fileCredentials))
	if err != nil {
		return c, err
	}
	if err := yaml.UnmarshalStrict(b, &c); err != nil {
		return c, fmt.Errorf("%s: %w", l.file(fileCredentials), err)
	}
	return c, nil
}

// listen on a unix socket, in place of one that an earlier process left.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// serveConsole joins whoever connects to the serial line.
func serveConsole(ctx context.Context, l net.Listener, m *machine.Machine) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
		go func() {
			defer c.Close()
			t, err := m.Console(ctx)
			if err != nil {
				fmt.Fprintln(c, err)
				return
			}
			defer t.Close()
			go func() {
				if _, err := io.Copy(t, c); err == nil {
					t.Close() // the reader hung up
				}
			}()
			if _, err := io.Copy(c, t); err != nil {
				return // hung up
			}
		}()
	}
}
