package httpboot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	mac     = "52:54:00:00:00:0a"
	from    = "10.99.0.100:4711"
	chunkID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	ask     = "/ipxe?mac=52-54-00-00-00-0a&uuid=6F1C2D3E-4a5b-4c6d-8e7f-0123456789ab&serial=SN%2042&platform=efi"
)

// fixture is a server with files, one lease and a decider that the test sets.
type fixture struct {
	*Server
	dir string

	mu    sync.Mutex
	now   time.Time
	job   *Job
	err   error
	asked []Client
}

func (f *fixture) Netboot(_ context.Context, c Client) (*Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, c)
	return f.job, f.err
}

func (f *fixture) Holder(a netip.Addr) (net.HardwareAddr, bool) {
	if a != netip.MustParseAddr("10.99.0.100") {
		return nil, false
	}
	hw, err := net.ParseMAC(mac)
	return hw, err == nil
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	dir := t.TempDir()
	for path, content := range map[string]string{
		"secret":                              "top secret",
		"vmlinuz":                             "the kernel",
		"initramfs":                           "the initramfs",
		"snponly.efi":                         "the loader",
		"images/secret":                       "top secret",
		"images/node/secret":                  "top secret",
		"images/node/v1/manifest.json":        "top secret",
		"images/node/v1/chunks/" + chunkID:    "a chunk of the image",
		"images/node/v1/chunks/.hidden":       "top secret",
		"images/node/v1/vmlinuz":              "top secret",
		"images/node/empty/chunks/" + chunkID: "",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A link inside the folder is followed, one that leads out is not.
	for link, target := range map[string]string{"images/node/current": "v1", "images/node/out": "../.."} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "chunks"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "chunks", chunkID), []byte("top secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := &fixture{dir: dir, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	file := func(name string) func() (string, error) {
		return func() (string, error) { return filepath.Join(dir, name), nil }
	}
	s, err := New(Config{
		Address: netip.MustParseAddr("10.99.0.1"), Decider: f, Leases: f,
		Kernel: file("vmlinuz"), Initramfs: file("initramfs"), Loader: filepath.Join(dir, "snponly.efi"),
		ImageDir: filepath.Join(dir, "images"), Now: f.clock,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Server = s
	return f
}

func (f *fixture) get(path, peer string) *httptest.ResponseRecorder {
	return f.do(http.MethodGet, path, peer)
}

func (f *fixture) do(method, path, peer string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://10.99.0.1/", nil)
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return nil
	}
	r.URL, r.RequestURI, r.RemoteAddr = u, path, peer
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

func TestFiles(t *testing.T) {
	f := newFixture(t)
	for path, want := range map[string]string{
		"/netboot/vmlinuz":                  "the kernel",
		"/netboot/initramfs":                "the initramfs",
		"/netboot/snponly.efi":              "the loader",
		"/images/v1/chunks/" + chunkID:      "a chunk of the image",
		"/images/current/chunks/" + chunkID: "a chunk of the image",
	} {
		if w := f.get(path, from); w.Code != 200 || w.Body.String() != want {
			t.Errorf("GET %s: %d %q", path, w.Code, w.Body)
		}
		if w := f.do(http.MethodHead, path, from); w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") != fmt.Sprint(len(want)) {
			t.Errorf("HEAD %s: %d %q %v", path, w.Code, w.Body, w.Header())
		}
		for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE"} {
			if w := f.do(method, path, from); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
	if w := f.get("/boot.ipxe", from); w.Code != 200 || !strings.Contains(w.Body.String(), "chain http://10.99.0.1/ipxe?") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

func TestRange(t *testing.T) {
	f := newFixture(t)
	r := httptest.NewRequest("GET", "http://10.99.0.1/images/v1/chunks/"+chunkID, nil)
	r.Header.Set("Range", "bytes=2-6")
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	if w.Code != http.StatusPartialContent || w.Body.String() != "chunk" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

var strangePaths = []string{
	"/", "//", "/.", "/..", "/../secret", "/../../etc/passwd", "/netboot", "/netboot/", "/netboot/vmlinuz/", "//netboot/vmlinuz", "/netboot//vmlinuz",
	"/netboot/./vmlinuz", "/netboot/../netboot/vmlinuz", "/netboot/%76mlinuz", "/netboot%2fvmlinuz", "/NETBOOT/vmlinuz", "/netboot/vmlinuz%00", "/boot.ipxe/",
	"/netboot/../secret", "/netboot/..%2fsecret", "/netboot/..%2f..%2fetc%2fpasswd", "/netboot/%2e%2e/secret", "/netboot/ticket/", "/netboot/ticket/..cpio",
	"/images", "/images/", "/images/v1", "/images/v1/", "/images/v1/chunks", "/images/v1/chunks/", "/images/v1/manifest.json", "/images/v1/vmlinuz",
	"/images/v1/chunks/../manifest.json", "/images/v1/chunks/..%2fmanifest.json", "/images/v1/chunks/.hidden", "/images/../chunks/" + chunkID,
	"/images/./chunks/" + chunkID, "/images/..%2f/chunks/" + chunkID, "/images/%2e%2e/chunks/" + chunkID, "/images//chunks/" + chunkID, "/images/v1//chunks/" + chunkID,
	"//images/v1/chunks/" + chunkID, "/images/v1/chunks/" + strings.ToUpper(chunkID), "/images/v1/chunks/" + chunkID + "0", "/images/v1/chunks/" + chunkID[1:],
	"/images/v1/chunks/" + chunkID + "/", "/images/v1\\chunks/" + chunkID, "/images/v1%5c..%5c/chunks/" + chunkID, "/images/v1/chunks/%30" + chunkID[1:],
	"/images/node/v1/chunks/" + chunkID, "/etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/\x7f", "/é", "/images/nothere/chunks/" + chunkID,
	"/images/v1/chunks/" + strings.Repeat("f", 64), "/ipxe/", "/debug/pprof/", "/metrics",
}

// Each is a plain 404: no redirect, no listing, nothing of another path.
func TestStrangePaths(t *testing.T) {
	f := newFixture(t)
	for _, path := range strangePaths {
		w := f.get(path, from)
		if w == nil {
			continue // no URL at all: net/http answers 400 before the handler
		}
		if w.Code != http.StatusNotFound || w.Header().Get("Location") != "" {
			t.Errorf("GET %q: %d %v %q", path, w.Code, w.Header(), w.Body)
		}
	}
	if w := f.get("/images/out/chunks/"+chunkID, from); w.Code == 200 {
		t.Errorf("a link led out of the images folder: %q", w.Body)
	}
	if w := f.get("/images/empty/chunks/"+chunkID, from); w.Code != http.StatusServiceUnavailable {
		t.Errorf("an empty file: %d", w.Code)
	}
}

// The same over a real connection, with nothing between that cleans the path.
func TestStrangePathsOnTheWire(t *testing.T) {
	f := newFixture(t)
	l, stop := f.listen(t)
	defer stop()
	for _, path := range strangePaths {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if !regexp.MustCompile(`^HTTP/1\.1 40[04] `).Match(answer) || bytes.Contains(answer, []byte("top secret")) || bytes.Contains(answer, []byte("root:")) {
			t.Errorf("GET %q: %q", path, answer)
		}
	}
}

func (f *fixture) listen(t *testing.T) (net.Listener, func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Serve(ctx, l) }()
	return l, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error("Serve:", err)
		}
	}
}

func TestMissingFilesAreTriedAgain(t *testing.T) {
	f := newFixture(t)
	f.config.Kernel = func() (string, error) { return "", errors.New("no image is built") }
	f.config.ImageDir = filepath.Join(f.dir, "nothere")
	if err := os.Remove(filepath.Join(f.dir, "initramfs")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/netboot/vmlinuz", "/netboot/initramfs", "/images/v1/chunks/" + chunkID} {
		w := f.get(path, from)
		// iPXE obeys Retry-After for ever, past the count of the script.
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "" || strings.Contains(w.Body.String(), f.dir) {
			t.Errorf("%s: %d %v %q", path, w.Code, w.Header(), w.Body)
		}
	}
}

// More machines than places: all are served in the end.
func TestTransfersQueue(t *testing.T) {
	f := newFixture(t)
	for range maxTransfers {
		f.transfers <- struct{}{}
	}
	results := make(chan int, 10)
	for range 10 {
		go func() { results <- f.get("/images/v1/chunks/"+chunkID, from).Code }()
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	w := httptest.NewRecorder()
	f.ServeHTTP(w, httptest.NewRequestWithContext(gone, "GET", "/netboot/vmlinuz", nil))
	if w.Body.Len() != 0 {
		t.Error("served one who is gone")
	}
	if code := f.get("/boot.ipxe", from).Code; code != 200 {
		t.Errorf("a script had to wait: %d", code)
	}
	select {
	case code := <-results:
		t.Errorf("answered %d without a place", code)
	default:
	}
	for range maxTransfers {
		<-f.transfers
	}
	for range 10 {
		if code := <-results; code != 200 {
			t.Error(code)
		}
	}
}

// FuzzHTTPPath asks for any path: nothing crashes, redirects, or shows what is not served.
func FuzzHTTPPath(f *testing.F) {
	for _, p := range strangePaths {
		f.Add(p)
	}
	f.Add(ask)
	f.Add("/images/v1/chunks/" + chunkID)
	s := newFixture(f)
	f.Fuzz(func(t *testing.T, path string) {
		w := s.get(path, from)
		if w == nil {
			return
		}
		if strings.Contains(w.Body.String(), "top secret") || w.Header().Get("Location") != "" || w.Code == 500 {
			t.Errorf("GET %q: %d %v %q", path, w.Code, w.Header(), w.Body)
		}
	})
}
