// Package machine is a virtual server of the lab: one QEMU process that its BMC powers. It
// implements what package bmc asks of a machine.
package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/digitalocean/go-qemu/qmp"

	"regiond.dev/regiond/machine/atomicfile"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/test/lab/bmc"
)

// monitorTimeout bounds the wait for QEMU to open its monitor, and for one command to be answered.
const monitorTimeout = 20 * time.Second

// Machine is one virtual server. Its zero value is not usable, see New.
type Machine struct {
	Config
	log     *slog.Logger
	console *Console

	mu      sync.Mutex
	process *process // nil when off
}

// process is one run of QEMU, from power-on to power-off.
type process struct {
	cmd     *exec.Cmd
	monitor *qmp.SocketMonitor
	reset   chan struct{} // gets a value after each RESET event
	exited  chan struct{} // closed when the process is gone
}

// New prepares the files of a machine: disks and firmware variables that exist are kept, as
// they would be in a machine that was switched off.
func New(c Config, log *slog.Logger) (*Machine, error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	for i, d := range c.Disks {
		if err := createDisk(c.diskFile(i), d.Bytes); err != nil {
			return nil, fmt.Errorf("machine %s: disk %d: %w", c.Name, i, err)
		}
	}
	if c.Firmware == inventory.FirmwareUEFI {
		if err := copyOnce(c.ovmfFile("OVMF_VARS_4M.fd"), c.varsFile()); err != nil {
			return nil, fmt.Errorf("machine %s: firmware variables: %w (Debian's package ovmf holds them)", c.Name, err)
		}
	}
	return &Machine{Config: c, log: log.With(slog.String("machine", c.Name)), console: newConsole()}, nil
}

func createDisk(file string, size int64) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() >= size {
		return err
	}
	return f.Truncate(size)
}

func copyOnce(from, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return atomicfile.Write(to, b, 0o600)
}

// PowerState tells whether the machine is on.
func (m *Machine) PowerState(context.Context) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.on(), nil
}

func (m *Machine) on() bool {
	if m.process == nil {
		return false
	}
	select {
	case <-m.process.exited:
		return false
	default:
		return true
	}
}

// PowerOn starts the machine with the given device first in the boot order, this once: the order
// of the boots after it has the disk first again. QEMU hands the order to the firmware at reset
// only, so the next boot's order can be set before the first instruction has run.
func (m *Machine) PowerOn(ctx context.Context, b bmc.Boot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.on() {
		return nil
	}
	p, err := m.start(b)
	if err != nil {
		return fmt.Errorf("machine %s: power on: %w (see %s)", m.Name, err, m.Config.log("qemu.log"))
	}
	m.process = p
	m.log.InfoContext(ctx, "power on", slog.Int("pid", p.cmd.Process.Pid), slog.Any("boot", b.Device))
	return nil
}

func (m *Machine) start(b bmc.Boot) (*process, error) {
	for _, s := range []string{m.qmpSocket(), m.consoleSocket()} {
		if err := os.Remove(s); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	log, err := os.OpenFile(m.Config.log("qemu.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command("qemu-system-x86_64", m.args(b)...)
	cmd.Stdout, cmd.Stderr = log, log
	// The rack loses its power with the process that emulates it. (Pdeathsig is bound to the
	// starting thread: the lab's daemon never ends a thread, see namespace.Enter.)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, reset: make(chan struct{}, 1), exited: make(chan struct{})}
	go func() {
		err := cmd.Wait()
		m.log.Info("power is off", slog.Int("pid", cmd.Process.Pid), slog.Any("exit", err))
		close(p.exited)
	}()
	if err := m.connect(p); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	if err := p.setBootOrder(bmc.Boot{}); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	if err := p.run("cont", nil); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

// connect opens the monitor and the console, which QEMU creates shortly after it starts.
func (m *Machine) connect(p *process) error {
	deadline := time.Now().Add(monitorTimeout)
	for {
		mon, err := qmp.NewSocketMonitor("unix", m.qmpSocket(), time.Second)
		if err == nil {
			if err = mon.Connect(); err == nil {
				p.monitor = mon
				break
			}
		}
		select {
		case <-p.exited:
			return fmt.Errorf("qemu ended at once: %v", p.cmd.ProcessState)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("qemu's monitor did not open within %s: %w", monitorTimeout, err)
		}
	}
	events, err := p.monitor.Events(context.Background())
	if err != nil {
		return err
	}
	go func() { // ends with the monitor, which ends with the process
		for e := range events {
			if e.Event == "RESET" {
				select {
				case p.reset <- struct{}{}:
				default:
				}
			}
		}
	}()
	c, err := net.Dial("unix", m.consoleSocket())
	if err != nil {
		return err
	}
	m.console.attach(c)
	return nil
}

// PowerOff cuts the power.
func (m *Machine) PowerOff(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.on() {
		return nil
	}
	m.log.InfoContext(ctx, "power off", slog.Int("pid", m.process.cmd.Process.Pid))
	return m.process.kill()
}

// Reset is the reset button, with the given device first in the boot order, this once.
func (m *Machine) Reset(ctx context.Context, b bmc.Boot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.on() {
		return fmt.Errorf("machine %s: reset: power is off", m.Name)
	}
	p := m.process
	if err := p.setBootOrder(b); err != nil {
		return fmt.Errorf("machine %s: reset: %w", m.Name, err)
	}
	select { // an event of an earlier reset
	case <-p.reset:
	default:
	}
	if err := p.run("system_reset", nil); err != nil {
		return fmt.Errorf("machine %s: reset: %w", m.Name, err)
	}
	select {
	case <-p.reset:
	case <-p.exited:
		return fmt.Errorf("machine %s: reset: qemu ended: %v", m.Name, p.cmd.ProcessState)
	case <-time.After(monitorTimeout):
		return fmt.Errorf("machine %s: reset: not seen within %s", m.Name, monitorTimeout)
	}
	m.log.InfoContext(ctx, "reset", slog.Any("boot", b.Device))
	return p.setBootOrder(bmc.Boot{})
}

// SoftOff presses the power button (ACPI); it returns before the machine is off.
func (m *Machine) SoftOff(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.on() {
		return nil
	}
	return m.process.run("system_powerdown", nil)
}

// Console opens the serial console. Every opener sees all output from then on.
func (m *Machine) Console(context.Context) (io.ReadWriteCloser, error) {
	return m.console.open(), nil
}

func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

// setBootOrder sets what the firmware is told at the next reset.
func (p *process) setBootOrder(b bmc.Boot) error {
	nic, disk := bootIndexes(b)
	for _, set := range []struct {
		path  string
		index int
	}{
		// QEMU refuses an index that is in use, even by the same device.
		{"nic0", -1},
		{"disk0", -1},
		{"disk0", disk},
		{"nic0", nic},
	} {
		err := p.run("qom-set", map[string]any{"path": "/machine/peripheral/" + set.path, "property": "bootindex", "value": set.index})
		if err != nil {
			return fmt.Errorf("set boot order: %w", err)
		}
	}
	return nil
}

func (p *process) run(command string, arguments map[string]any) error {
	c := qmp.Command{Execute: command}
	if arguments != nil { // a nil map would be sent as null, which QEMU refuses
		c.Args = arguments
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if _, err := p.monitor.Run(b); err != nil {
		return fmt.Errorf("qemu: %s: %w", command, err)
	}
	return nil
}
