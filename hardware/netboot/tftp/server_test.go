package tftp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// served is the content of snponly.efi in the tests: several blocks and a part of one.
var served = bytes.Repeat([]byte("loader\x00\xff\n\r"), 700)

type running struct {
	*Server
	addr *net.UDPAddr
	dir  string
}

// start a server on the loopback interface.
func start(t testing.TB, timeout time.Duration) *running {
	t.Helper()
	parent := t.TempDir()
	dir := filepath.Join(parent, "loaders")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{
		filepath.Join(parent, "secret"):         []byte("secret"),
		filepath.Join(dir, "secret"):            []byte("secret"),
		filepath.Join(dir, "snponly.efi"):       served,
		filepath.Join(dir, "empty.efi"):         nil,
		filepath.Join(dir, "sub", "x"):          []byte("x"),
		filepath.Join(parent, "outside-loader"): []byte("secret"),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../outside-loader", filepath.Join(dir, "link.efi")); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{
		Dir: dir, Files: []string{"undionly.kpxe", "snponly.efi", "empty.efi", "link.efi"},
		Timeout: timeout, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, conn) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &running{Server: s, addr: conn.LocalAddr().(*net.UDPAddr), dir: dir}
}

// client speaks TFTP by hand, so that it can do what real clients do not.
type client struct {
	t    testing.TB
	conn *net.UDPConn
	to   *net.UDPAddr
}

func (s *running) client(t testing.TB) *client {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{t: t, conn: conn, to: s.addr}
}

func (c *client) send(b []byte) {
	c.t.Helper()
	if _, err := c.conn.WriteToUDP(b, c.to); err != nil {
		c.t.Fatal(err)
	}
}

// receive a packet and answer from now on to where it came from (RFC 1350 section 4).
func (c *client) receive() (op uint16, rest []byte) {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
	buf := make([]byte, 70000)
	n, from, err := c.conn.ReadFromUDP(buf)
	if err != nil {
		c.t.Fatal(err)
	}
	c.to = from
	return binary.BigEndian.Uint16(buf), buf[2:n]
}

// Opcodes of RFC 1350 and 2347.
const (
	rrq, wrq, data, ack, errOp, oack = 1, 2, 3, 4, 5, 6
)

func packet(op uint16, strings ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, op)
	for _, s := range strings {
		b = append(append(b, s...), 0)
	}
	return b
}

func (c *client) acknowledge(block uint16) {
	c.t.Helper()
	c.send(binary.BigEndian.AppendUint16([]byte{0, ack}, block))
}

// download the rest of a file from block 1 on; size is that of the blocks.
func (c *client) download(size int) []byte {
	c.t.Helper()
	var got []byte
	for block := uint16(1); ; block++ {
		op, b := c.receive()
		if op != data || binary.BigEndian.Uint16(b) != block {
			c.t.Fatalf("opcode %d %q, want block %d", op, b, block)
		}
		got = append(got, b[2:]...)
		c.acknowledge(block)
		if len(b)-2 < size {
			return got
		}
	}
}

func TestDownload(t *testing.T) {
	s := start(t, time.Second)
	for _, name := range []string{"snponly.efi", "/snponly.efi", "//snponly.efi", `\snponly.efi`, `\\/snponly.efi`,
		"snponly.efi\xff", "/snponly.efi\xff\xff\xff", "snponly.efi\xff6\x04\x0a", "snponly.efi\r\n"} {
		c := s.client(t)
		c.send(packet(rrq, name, "octet"))
		if got := c.download(512); !bytes.Equal(got, served) {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(served))
		}
	}
}

func TestBlockSizeIsCapped(t *testing.T) {
	s := start(t, time.Second)
	for asked, want := range map[string]string{"65464": "1468", "9000": "1468", "1468": "1468", "1024": "1024", "512": "512"} {
		c := s.client(t)
		c.send(packet(rrq, "snponly.efi", "octet", "blksize", asked))
		op, b := c.receive()
		if op != oack || string(b) != "blksize\x00"+want+"\x00" {
			t.Fatalf("asked for %s: opcode %d %q", asked, op, b)
		}
		c.acknowledge(0)
		size := map[string]int{"1468": 1468, "1024": 1024, "512": 512}[want]
		if got := c.download(size); !bytes.Equal(got, served) {
			t.Errorf("block size %s: %d bytes", want, len(got))
		}
	}
}

// RFC 2347: option names are case-insensitive. They come back as they were written, and unknown ones don't.
func TestOptionNamesInCapitals(t *testing.T) {
	s := start(t, time.Second)
	c := s.client(t)
	c.send(packet(rrq, "snponly.efi", "OCTET", "TSIZE", "0", "windowsize", "4", "BlkSize", "1024", "blksize", "512", "timeout"))
	if op, b := c.receive(); op != oack || string(b) != "TSIZE\x007000\x00BlkSize\x001024\x00" {
		t.Fatalf("opcode %d %q, want both options acknowledged once", op, b)
	}
	c.acknowledge(0)
	if got := c.download(1024); !bytes.Equal(got, served) {
		t.Errorf("%d bytes, want %d", len(got), len(served))
	}
}

// A block whose acknowledgement is lost is sent again, a repeated acknowledgement sends nothing
// twice, and what another client sends to the transfer is not heard.
func TestLostAndRepeatedPackets(t *testing.T) {
	s := start(t, 50*time.Millisecond)
	c := s.client(t)
	c.send(packet(rrq, "snponly.efi", "octet"))
	for range 2 { // the second after the time-out
		if op, b := c.receive(); op != data || binary.BigEndian.Uint16(b) != 1 {
			t.Fatalf("opcode %d %q, want block 1 and block 1 again", op, b[:2])
		}
	}
	stranger := s.client(t)
	stranger.to = c.to
	stranger.acknowledge(1)
	c.acknowledge(1)
	c.acknowledge(1)
	for block := uint16(2); ; block++ {
		op, b := c.receive()
		if op != data || binary.BigEndian.Uint16(b) != block {
			t.Fatalf("opcode %d %q, want block %d once", op, b[:2], block)
		}
		c.acknowledge(block)
		if len(b)-2 < 512 {
			break
		}
	}
}

// EDK2 asks for the size, ends that transfer with an error, and asks again for the file.
func TestSizeThenFile(t *testing.T) {
	s := start(t, time.Second)
	c := s.client(t)
	c.send(packet(rrq, "snponly.efi", "octet", "tsize", "0"))
	if op, b := c.receive(); op != oack || string(b) != "tsize\x007000\x00" {
		t.Fatalf("opcode %d %q", op, b)
	}
	c.send([]byte("\x00\x05\x00\x08User aborted the transfer\x00"))
	c = s.client(t)
	c.send(packet(rrq, "snponly.efi", "octet", "blksize", "1468"))
	c.receive()
	c.acknowledge(0)
	if got := c.download(1468); !bytes.Equal(got, served) {
		t.Errorf("%d bytes", len(got))
	}
	eventually(t, func() bool { return testutil.ToFloat64(s.transfers.WithLabelValues("snponly.efi", "sent")) == 1 })
	if n := testutil.ToFloat64(s.bytes); n == 0 {
		t.Error("the bytes that were sent are not counted")
	}
	if n := testutil.ToFloat64(s.transfers.WithLabelValues("snponly.efi", "failed")); n != 0 {
		t.Errorf("%v transfers count as failed", n)
	}
	if n := testutil.ToFloat64(s.transfers.WithLabelValues("snponly.efi", "size-only")); n != 1 {
		t.Errorf("%v transfers count as size-only", n)
	}
}

func TestNothingElseIsServed(t *testing.T) {
	s := start(t, time.Second)
	for _, name := range []string{
		"../../etc/passwd", "/etc/passwd", "../secret", "secret", "/secret", "loaders/../secret", "sub/x", "..\\secret", "C:\\secret",
		"snponly.efi/../secret", "./snponly.efi", "snponly.efi/", "snponly.efi.sig", "snponly.efi2", "SNPONLY.EFI", " snponly.efi", "\xff", "",
		"/", ".", "..", "/proc/self/environ", "%2e%2e/secret", "autoexec.ipxe", "undionly.kpxe", "empty.efi", "link.efi",
	} {
		c := s.client(t)
		begun := time.Now()
		c.send(packet(rrq, name, "octet", "blksize", "1468", "tsize", "0"))
		if op, b := c.receive(); op != errOp || binary.BigEndian.Uint16(b) != 1 {
			t.Errorf("%q: opcode %d %q, want error 1, file not found", name, op, b)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("%q: the answer took %s", name, took)
		}
	}
	// A NUL ends the name: what follows is the mode, not a path.
	c := s.client(t)
	c.send(append(packet(rrq, "snponly.efi\x00../secret"), packet(0, "octet")[2:]...))
	if got := c.download(512); !bytes.Equal(got, served) {
		t.Errorf("%q", got)
	}
}

func TestWriteRequestsAreRefused(t *testing.T) {
	s := start(t, time.Second)
	for _, name := range []string{"snponly.efi", "new.efi", "../new"} {
		c := s.client(t)
		c.send(packet(wrq, name, "octet"))
		if op, b := c.receive(); op != errOp {
			t.Errorf("%s: opcode %d %q", name, op, b)
		}
	}
	if got, err := os.ReadFile(filepath.Join(s.dir, "snponly.efi")); err != nil || !bytes.Equal(got, served) {
		t.Errorf("the file changed: %d bytes, %v", len(got), err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "new.efi")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was written: %v", err)
	}
	eventually(t, func() bool { return testutil.ToFloat64(s.drops.WithLabelValues("write-request")) == 3 })
}

func TestMalformedPacketsAreCounted(t *testing.T) {
	s := start(t, time.Second)
	c := s.client(t)
	bad := [][]byte{{}, {0}, {0, 1}, {0, 1, 'x'}, {0, 9, 1, 2}, {0, 3, 0, 1, 'x'}, {0, 4, 0, 1}, {0, 5, 0, 1, 0}, {0, 1, 'n', 'o', 'n', 'u', 'l'}}
	for _, b := range bad {
		c.send(b)
	}
	eventually(t, func() bool { return testutil.ToFloat64(s.drops.WithLabelValues("malformed")) >= float64(len(bad)-1) })
	c = s.client(t)
	c.send(packet(rrq, "snponly.efi", "octet"))
	if got := c.download(512); !bytes.Equal(got, served) {
		t.Error("the server does not serve any more")
	}
}

// A client that goes silent must not hold the server's end.
func TestShutdownWithASilentClient(t *testing.T) {
	s := start(t, 100*time.Millisecond)
	c := s.client(t)
	c.send(packet(rrq, "snponly.efi", "octet"))
	c.receive()
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.After(5 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("waited 5 s in vain")
		}
	}
}

// FuzzRequest reads any bytes as a request: what is agreed to was asked for, and a packet that names it fits into a frame.
func FuzzRequest(f *testing.F) {
	f.Add(packet(rrq, "snponly.efi", "octet", "BLKSIZE", "1468", "tsize", "0", "tsize", "0"))
	f.Add([]byte{0, 1, 0, 0, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRequest(b)
		if err != nil {
			return
		}
		size, agreed := agree(r.options, 7000, MaxBlockSize)
		if size < minBlockSize || size > MaxBlockSize || len(agreed) > 2 {
			t.Errorf("%q: block size %d, options %q", b, size, agreed)
		}
		for _, o := range agreed {
			if !bytes.Contains(b, []byte(o.name)) {
				t.Errorf("%q: option %q was not asked for", b, o.name)
			}
		}
	})
}

// FuzzName asks for files by any name: what is served is one of the loaders, and the name begins with it.
func FuzzName(f *testing.F) {
	for _, name := range []string{"snponly.efi", `\snponly.efi`, "undionly.kpxe\xff", "/../snponly.efi", ""} {
		f.Add(name)
	}
	s := &Server{config: Config{Files: []string{"undionly.kpxe", "snponly.efi"}}}
	f.Fuzz(func(t *testing.T, name string) {
		file, ok := s.file(name)
		known := slices.Contains(s.config.Files, file)
		if ok != known || ok && !strings.HasPrefix(strings.TrimLeft(name, `/\`), file) {
			t.Errorf("file(%q) = %q, %v", name, file, ok)
		}
		if again, _ := s.file("//" + file + "\xff"); ok && again != file {
			t.Errorf("%q with a trailing byte is %q", file, again)
		}
	})
}

// FuzzTFTP sends any packets to a real server, which must go on serving.
func FuzzTFTP(f *testing.F) {
	f.Add(packet(rrq, "snponly.efi", "octet", "blksize", "1468", "tsize", "0"))
	f.Add(packet(rrq, "../../etc/passwd", "netascii", "blksize", "-1"))
	f.Add(packet(wrq, "snponly.efi", "octet", "blksize", "99999999999999999999"))
	f.Add([]byte{0, 4, 0, 0})
	f.Add([]byte{0, 6, 'x', 0})
	s := start(f, 10*time.Millisecond)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 65507 {
			return // no UDP packet
		}
		s.client(t).send(b)
		c := s.client(t)
		c.send(packet(rrq, "autoexec.ipxe", "octet"))
		if op, b := c.receive(); op != errOp {
			t.Errorf("opcode %d %q", op, b)
		}
	})
}
