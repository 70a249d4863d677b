package bmctest

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"regiond.dev/regiond/test/lab/bmc"
)

// Credentials and identity of the virtual BMCs.
const (
	Username     = "admin"
	Password     = "correct horse 20byte" // all of the 20 bytes that IPMI v2.0 allows
	UUID         = "6f1c2a3b-4d5e-4f60-8192-a3b4c5d6e7f8"
	Manufacturer = "LabCo"
	Product      = "vServer"
	SerialNumber = "SN0001"
)

// Server is a running virtual BMC on loopback.
type Server struct {
	*bmc.BMC
	Machine *Machine
	Network *Network
	Address netip.AddrPort

	t      testing.TB
	config bmc.Config
	cancel context.CancelFunc
	done   chan error
}

// Start runs a virtual BMC on a free port until the test ends.
func Start(t testing.TB, change ...func(*bmc.Config)) *Server {
	t.Helper()
	s := &Server{t: t, Machine: &Machine{}}
	s.config = bmc.Config{
		Username: Username, Password: Password, Machine: s.Machine, UUID: UUID,
		FRU: bmc.FRU{Manufacturer: Manufacturer, Product: Product, SerialNumber: SerialNumber},
		Log: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&s.config)
	}
	s.start("127.0.0.1:0")
	t.Cleanup(s.Stop)
	return s
}

func (s *Server) start(address string) {
	s.t.Helper()
	var conn net.PacketConn
	var err error
	// After a restart the port may have been lent to a client for a moment.
	Eventually(s.t, "the BMC listens on "+address, func() bool {
		conn, err = net.ListenPacket("udp4", address)
		return err == nil
	})
	s.Network = &Network{PacketConn: conn, payloads: map[byte]int{}}
	s.Address = conn.LocalAddr().(*net.UDPAddr).AddrPort()
	s.config.Conn = s.Network
	if s.BMC, err = bmc.New(s.config); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.done = cancel, make(chan error, 1)
	go func() { s.done <- s.BMC.Serve(ctx) }()
}

// Stop ends the BMC; nothing listens afterwards.
func (s *Server) Stop() {
	if s.cancel == nil {
		return
	}
	s.cancel()
	s.cancel = nil
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Errorf("virtual BMC: %v", err)
		}
	case <-time.After(10 * time.Second):
		s.t.Error("virtual BMC did not stop within 10 s")
	}
}

// Restart is a BMC that was restarted: same address, same machine, no sessions.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.start(s.Address.String())
}

// Eventually polls a condition for up to ten seconds.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("not within 10 s: %s", what)
		case <-tick.C:
		}
	}
}

// testWriter gives log lines to the test. Lines after its end are lost.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Logf("%s", b)
	}
	return len(b), nil
}
