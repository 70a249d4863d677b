// Package bmc is the lab's virtual BMC: an IPMI v2.0 server over LAN in front of a machine that its caller owns.
//
// Protocol, sessions and ciphers are go-ipmi's server (v0.9.1). What that lacks or gets wrong is here: boot
// flags that are consumed by one boot and expire, Get System GUID, a temperature sensor, the system event log, chassis
// control that answers before it acts, and a filter in front of it (see filter.go for why).
//
// Section numbers are those of the IPMI specification v2.0 revision 1.1.
package bmc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	gobmc "github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/clock"
	"github.com/bougou/go-ipmi/pkg/handlers"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/types"
	"github.com/bougou/go-ipmi/pkg/vmproto"

	hardware "regiond.dev/regiond/hardware/bmc"
)

// Config of a virtual BMC.
type Config struct {
	// Address to listen on over UDP, e.g. 10.98.0.11:623. Not used when Conn is given.
	Address string
	// Conn is served instead of Address. Serve closes it.
	Conn net.PacketConn
	// Username (at most 16 bytes) and Password (at most 20) of the one user, an administrator.
	Username string
	Password string
	// Machine whose BMC this is.
	Machine Machine
	// FRU is what the BMC says of the chassis.
	FRU FRU
	// UUID of the system in RFC 4122 text form, the same that is given to QEMU by -uuid.
	UUID string
	// CipherSuites accepted. Default 3 and 17.
	CipherSuites []types.CipherSuiteID
	// Clock for session time-outs, boot flag expiry and the event log. Default the real one.
	Clock clock.Clock
	Log   *slog.Logger
}

// FRU is the content of FRU device 0.
type FRU struct {
	Manufacturer string
	Product      string
	SerialNumber string
}

// BMC is a virtual BMC.
type BMC struct {
	c       Config
	log     *slog.Logger
	clock   clock.Clock
	state   *gobmc.BMC
	reg     *handlers.Registry
	filter  *filter
	boot    *bootOptions
	events  *eventLog
	power   *power
	mu      sync.Mutex
	clients map[uint32]struct{} // IDs of sessions that sent a command
}

const (
	lanChannel = 1
	userID     = 2 // 1 is the nameless user (section 22.28)
	// Limits in bytes (sections 22.28 and 22.30).
	maxUsername = 16
	maxPassword = 20
)

// New makes a virtual BMC and binds its address, so that clients of Serve need not wait.
func New(c Config) (*BMC, error) {
	c.Clock = cmp.Or[clock.Clock](c.Clock, clock.Real)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if len(c.CipherSuites) == 0 {
		c.CipherSuites = []types.CipherSuiteID{types.CipherSuiteID3, types.CipherSuiteID17}
	}
	if c.Machine == nil {
		return nil, errors.New("virtual BMC: no machine given")
	}
	if len(c.Username) == 0 || len(c.Username) > maxUsername || len(c.Password) > maxPassword {
		return nil, fmt.Errorf("virtual BMC: user name must have 1 to %d bytes and password at most %d", maxUsername, maxPassword)
	}
	// Most real BMCs send the SMBIOS structure's bytes, so this one does (see hardware/bmc.ByteOrder).
	guid, err := hardware.UUIDToGUID(c.UUID, hardware.OrderSMBIOS)
	if err != nil {
		return nil, fmt.Errorf("virtual BMC: %w", err)
	}
	storage, err := newStorage(c.FRU)
	if err != nil {
		return nil, fmt.Errorf("virtual BMC: FRU: %w", err)
	}

	b := &BMC{c: c, log: c.Log, clock: c.Clock, clients: map[uint32]struct{}{}}
	b.boot = newBootOptions(c.Clock)
	b.events = newEventLog(c.Clock)
	b.power = newPower(c.Machine, b.boot, b.events, c.Log)

	b.state = gobmc.New(gobmc.DeviceInfo{
		DeviceID:       0x20,
		DeviceRevision: 1,
		FirmwareMajor:  1,
		FirmwareMinor:  0x00,
		// Section 20.1: BCD with the least significant digit first; go-ipmi's documentation says 0x20.
		IPMIVersion:    0x02,
		ManufacturerID: 7154, // the IPMI forum's: nobody's product
		ProductID:      1,
		// Chassis, FRU, SEL, SDR, sensors (table 20-2).
		AdditionalDeviceSupport: 0x8f,
	}, guid, &hardwareLayer{storage: storage, console: &console{machine: c.Machine, log: c.Log}},
		gobmc.WithClock(c.Clock), gobmc.WithCipherSuites(c.CipherSuites), gobmc.WithV15Disabled())
	// A console that goes away, as with every power cycle, is attached again by itself.
	b.state.SOL.SetReconnectPolicy(&gobmc.ReconnectPolicy{Initial: 250 * time.Millisecond, Factor: 2, Cap: 2 * time.Second})

	user, err := b.state.Users.Add(userID, c.Username)
	if err != nil {
		return nil, fmt.Errorf("virtual BMC: user: %w", err)
	}
	user.SetPassword([]byte(c.Password))
	user.Enabled = true
	user.ChannelAccess[lanChannel] = gobmc.UserChannelAccess{MaxPrivilege: gobmc.PrivilegeLevelAdministrator, Enabled: true, LinkAuth: true}

	b.reg = handlers.NewRegistry()
	b.reg.Use(b.guard)
	handlers.RegisterAllHandlers(b.reg)
	b.register()
	registerSDRInfo(b.reg, storage.sdr, c.Clock.Now())

	conn := c.Conn
	if conn == nil {
		if conn, err = net.ListenPacket("udp", c.Address); err != nil {
			return nil, fmt.Errorf("virtual BMC: %w", err)
		}
	}
	b.filter = &filter{conn: conn, log: c.Log}
	return b, nil
}

// Addr is where the BMC listens.
func (b *BMC) Addr() net.Addr { return b.filter.LocalAddr() }

// Dropped counts the datagrams that were no IPMI.
func (b *BMC) Dropped() uint64 { return b.filter.dropped.Load() }

// Panics counts the commands on which a handler of go-ipmi panicked.
func (b *BMC) Panics() uint64 { return b.filter.panics.Load() }

// Serve answers over LAN until ctx is done, then closes the socket and ends what was begun on the machine.
func (b *BMC) Serve(ctx context.Context) error {
	srv := server.NewServer(b.state, b.filter, server.WithHandlerRegistry(b.reg))
	closing := func() {
		if err := srv.Close(); err != nil {
			b.log.Warn("closing the BMC's socket", slog.Any("error", err))
		}
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		closing()
	})
	working, finish := context.WithCancel(ctx)
	defer finish()
	var wg sync.WaitGroup
	wg.Go(func() { b.power.run(working) })
	err := srv.Serve(ctx)
	// The socket is closed when this returns, so that the address can be bound again.
	if stop() {
		closing()
	} else {
		<-closed
	}
	finish()
	wg.Wait()
	if ctx.Err() == nil {
		return cmp.Or(err, errors.New("virtual BMC: its socket was closed"))
	}
	return nil
}

// ServeKCS answers QEMU's ipmi-bmc-extern device, so that the guest has /dev/ipmi0, until ctx is done. It closes the listener.
// Commands from there need no login (section 6.3): the guest is the machine's owner.
func (b *BMC) ServeKCS(ctx context.Context, l net.Listener) error {
	return vmproto.NewVMServer(b.state, vmproto.WithVMHandlerRegistry(b.reg)).Serve(ctx, l)
}

// NextBoot gives the boot override that applies to the boot that begins now, and consumes it if it was for one boot. Power
// actions of the BMC do this themselves; it is for a machine whose guest resets itself.
func (b *BMC) NextBoot() Boot { return b.boot.take() }

// guard answers 'unspecified error' for a command whose handler panics, and remembers sessions for Cold Reset.
func (b *BMC) guard(next handlers.Handler) handlers.Handler {
	return handlers.HandlerFunc(func(ctx context.Context, hc *handlers.HandlerContext, data []byte) (out []byte, cc types.CompletionCode, err error) {
		defer func() {
			if r := recover(); r != nil {
				b.filter.panics.Add(1)
				// Not the data, which may be a password.
				b.log.Error("handler panicked", slog.String("command", hc.Command.Name), slog.Int("bytes", len(data)), slog.Any("panic", r))
				out, cc, err = nil, types.CodeUnspecifiedError, nil
			}
		}()
		if hc.Session != nil {
			b.remember(hc.Session.BMCID)
		}
		return next.Handle(ctx, hc, data)
	})
}

// remember a session, and forget those that have ended.
func (b *BMC) remember(id uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.clients[id]; known {
		return
	}
	for other := range b.clients {
		if _, err := b.state.Sessions.Get(other); err != nil {
			delete(b.clients, other)
		}
	}
	b.clients[id] = struct{}{}
}

// register adds the commands that go-ipmi lacks and replaces those that it does differently.
func (b *BMC) register() {
	b.reg.RegisterFunc(types.CommandGetSystemGUID, func(_ context.Context, hc *handlers.HandlerContext, _ []byte) ([]byte, types.CompletionCode, error) {
		return hc.BMC.GUID[:], types.CodeOK, nil
	})
	// go-ipmi maps resets of the BMC to resets of the host.
	b.reg.RegisterFunc(types.CommandColdReset, b.reset)
	b.reg.RegisterFunc(types.CommandWarmReset, b.reset)
	b.boot.register(b.reg)
	b.power.register(b.reg)
	b.events.register(b.reg)
	registerSensor(b.reg, b.c.Machine)
}

// reset of the BMC: all sessions are lost, the host is untouched (section 20.2).
func (b *BMC) reset(context.Context, *handlers.HandlerContext, []byte) ([]byte, types.CompletionCode, error) {
	b.mu.Lock()
	ids := b.clients
	b.clients = map[uint32]struct{}{}
	b.mu.Unlock()
	for id := range ids {
		if err := b.state.Sessions.Close(id); err != nil && !errors.Is(err, gobmc.ErrNoSession) {
			b.log.Warn("BMC reset: closing a session", slog.Any("error", err))
		}
	}
	return nil, types.CodeOK, nil
}

// Sessions is the number of sessions that are open or being opened.
func (b *BMC) Sessions() int { return b.state.Sessions.Count() }
