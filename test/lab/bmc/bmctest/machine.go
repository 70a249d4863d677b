// Package bmctest runs virtual BMCs in tests: with a machine in memory and a network that loses and delays packets.
package bmctest

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	"regiond.dev/regiond/test/lab/bmc"
)

// Machine is a machine in memory. Its console echoes what is typed.
type Machine struct {
	mu          sync.Mutex
	on          bool
	ignoreSoft  bool
	ignorePower int
	boots       []bmc.Boot
	actions     []string
}

// On says whether the machine is on.
func (m *Machine) On() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.on
}

// Set switches the machine without the BMC, as the operating system or a power button does.
func (m *Machine) Set(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on = on
}

// IgnoreSoftOff makes the operating system deaf to the power button.
func (m *Machine) IgnoreSoftOff() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ignoreSoft = true
}

// IgnorePower makes the next n power-on commands have no effect.
func (m *Machine) IgnorePower(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ignorePower = n
}

// Boots are the overrides of all boots so far.
func (m *Machine) Boots() []bmc.Boot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.boots)
}

// Actions are the power actions so far: on, off, reset, soft.
func (m *Machine) Actions() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.actions)
}

// PowerState implements bmc.Machine.
func (m *Machine) PowerState(context.Context) (bool, error) { return m.On(), nil }

// PowerOn implements bmc.Machine.
func (m *Machine) PowerOn(_ context.Context, boot bmc.Boot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.actions = append(m.actions, "on")
	if m.ignorePower > 0 {
		m.ignorePower--
		return nil
	}
	m.on = true
	m.boots = append(m.boots, boot)
	return nil
}

// PowerOff implements bmc.Machine.
func (m *Machine) PowerOff(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on = false
	m.actions = append(m.actions, "off")
	return nil
}

// Reset implements bmc.Machine.
func (m *Machine) Reset(_ context.Context, boot bmc.Boot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.actions = append(m.actions, "reset")
	m.boots = append(m.boots, boot)
	return nil
}

// SoftOff implements bmc.Machine.
func (m *Machine) SoftOff(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.actions = append(m.actions, "soft")
	if !m.ignoreSoft {
		m.on = false
	}
	return nil
}

// Greeting is what the console says first.
const Greeting = "regiond lab console\r\n"

// Console implements bmc.Machine.
func (m *Machine) Console(context.Context) (io.ReadWriteCloser, error) {
	if !m.On() {
		return nil, errors.New("the machine is off")
	}
	ours, theirs := net.Pipe()
	go func() {
		// Ends when the client closes its side.
		defer ours.Close()
		if _, err := io.WriteString(ours, Greeting); err == nil {
			_, err = io.Copy(ours, ours)
			_ = err // the pipe was closed
		}
	}()
	return theirs, nil
}
