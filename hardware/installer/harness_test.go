package installer_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"regiond.dev/regiond/hardware/installer"
	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/machine/inventory"
)

const mib = diskimage.MiB

// clock runs a thousand times too fast.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 29, 15, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.mu.Unlock()
	return installer.SystemClock{}.Sleep(ctx, d/1000)
}

// machine has files for disks, and folders for mounted partitions.
type machine struct {
	t       *testing.T
	dir     string
	disks   []inventory.Disk
	holders []string
	mounted []string
	// mountErr is returned once by the next Mount.
	mountErr error
}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, dir: t.TempDir()}
	for _, dir := range []string{"esp/loader/entries", "esp/grub", "data", "efivars"} {
		if err := os.MkdirAll(filepath.Join(m.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.write("esp/loader/entries/regiond-a+3.conf", "title regiond node\nlinux /regiond/a/vmlinuz\noptions root=PARTLABEL=root-a rw\n")
	m.write("esp/grub/grub.cfg", "set slot=a\nif linux /regiond/$slot/vmlinuz root=PARTLABEL=root-$slot rw\nthen\n\tboot\nfi\n")
	return m
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) read(name string) string {
	m.t.Helper()
	b, err := os.ReadFile(filepath.Join(m.dir, name))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(b)
}

// addDisk adds a disk full of somebody's data.
func (m *machine) addDisk(name, serial string, size int64) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, name), bytes.Repeat([]byte{0xA5}, int(size)), 0o644); err != nil {
		m.t.Fatal(err)
	}
	m.disks = append(m.disks, inventory.Disk{Name: name, SerialNumber: serial, Bytes: size, Type: inventory.DiskSSD})
}

func (m *machine) Inventory(context.Context) (inventory.Inventory, error) {
	inv := inventory.Inventory{Firmware: inventory.FirmwareUEFI}
	for _, d := range m.disks {
		d.Marker = inventory.DecodeMarker([]byte(m.read(d.Name))[inventory.MarkerOffset:][:inventory.MarkerSize])
		inv.Disks = append(inv.Disks, d)
	}
	return inv, nil
}

func (m *machine) marker(disk int) *inventory.InstallMarker {
	inv, err := m.Inventory(context.Background())
	if err != nil {
		m.t.Fatal(err)
	}
	return inv.Disks[disk].Marker
}

func (m *machine) Neighbours() map[string]inventory.LLDPNeighbour {
	return map[string]inventory.LLDPNeighbour{"52:54:00:00:00:01": {PortID: "swp7"}}
}
func (m *machine) Holders(string) ([]string, error) { return m.holders, nil }
func (m *machine) EFIVariables() string             { return filepath.Join(m.dir, "efivars") }
func (m *machine) OpenDisk(name string) (*diskimage.Disk, error) {
	return diskimage.OpenDisk(filepath.Join(m.dir, name))
}

func (m *machine) Mount(disk string, part diskimage.Part, filesystem string) (string, func() error, error) {
	if err := m.mountErr; err != nil {
		m.mountErr = nil
		return "", nil, err
	}
	m.mounted = append(m.mounted, disk+" "+part.Label+" "+filesystem)
	return filepath.Join(m.dir, part.Label), func() error { return nil }, nil
}

// image is a small image, with what its partitions hold.
type image struct {
	dir      string
	manifest diskimage.Manifest
	contents map[string][]byte
}

func newImage(t *testing.T) *image {
	t.Helper()
	i := &image{dir: t.TempDir(), contents: map[string][]byte{}, manifest: diskimage.Manifest{Version: "test-1", MBR: bytes.Repeat([]byte{0xEB}, 440)}}
	random := rand.NewChaCha8([32]byte{1})
	for _, p := range []struct {
		label string
		mib   int64
		full  []int64
	}{{"bios", 1, []int64{0}}, {"esp", 6, []int64{0, 4}}, {"root-a", 24, []int64{0, 1, 2, 6, 7, 8, 9, 15, 20, 23}}, {"data", 4, []int64{0}}} {
		content := make([]byte, p.mib*mib)
		for _, m := range p.full {
			// Half random and half a pattern, so that it compresses a little.
			if _, err := random.Read(content[m*mib : m*mib+mib/2]); err != nil {
				t.Fatal(err)
			}
			copy(content[m*mib+mib/2:(m+1)*mib], bytes.Repeat([]byte("regiond "), mib/16))
		}
		chunks, err := diskimage.Split(t.Context(), bytes.NewReader(content), p.mib*mib, filepath.Join(i.dir, diskimage.ChunkDir))
		if err != nil {
			t.Fatal(err)
		}
		i.contents[p.label] = content
		i.manifest.Partitions = append(i.manifest.Partitions, diskimage.Partition{Label: p.label, Size: p.mib * mib, Chunks: chunks})
	}
	if err := i.manifest.Validate(); err != nil {
		t.Fatal(err)
	}
	return i
}

// least is the size of the smallest disk for newImage: 1 + 1 + 6 + 2*24 + 4 + 1 MiB.
const least = 61 * mib

// regiond is the other side: it gives one instruction after the other (the last one for ever), serves
// chunks, and remembers what it was told.
type regiond struct {
	t            *testing.T
	api, files   *httptest.Server
	image        *image
	mu           sync.Mutex
	instructions []enroll.Instruction
	inventories  []enroll.InventoryReport
	reports      []enroll.Progress
	fetched      map[string]int
	// apiFault and chunkFault answer in regiond's place when they return true. n counts from 1: requests to the
	// API, and requests of that chunk.
	apiFault   func(w http.ResponseWriter, r *http.Request, n int) bool
	chunkFault func(w http.ResponseWriter, sum string, n int) bool
	requests   int
}

func newRegiond(t *testing.T, i *image) *regiond {
	return newRegiondAt(t, i, "127.0.0.1", nil)
}

// newRegiondAt listens on free ports of an address, with that configuration of TLS.
func newRegiondAt(t *testing.T, i *image, address string, config *tls.Config) *regiond {
	t.Helper()
	g := &regiond{t: t, image: i, fetched: map[string]int{}}
	serve := func(handler http.HandlerFunc) *httptest.Server {
		l, err := net.Listen("tcp4", address+":0")
		if err != nil {
			t.Fatal(err)
		}
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler}, TLS: config}
		t.Cleanup(s.Close)
		return s
	}
	g.api, g.files = serve(g.serveAPI), serve(g.serveChunk)
	g.api.StartTLS()
	g.files.Start()
	return g
}

const (
	token     = "job-token"
	imagePath = "/images/test-1"
)

func (g *regiond) ticket() enroll.Ticket {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.api.Certificate().Raw})
	return enroll.Ticket{URL: g.api.URL, CA: string(ca), Token: token}
}

// installTo is the instruction to install the image to the disk of that serial number.
func (g *regiond) installTo(serial string, size int64) enroll.Instruction {
	return enroll.Instruction{Install: &enroll.Install{
		Overwrite: true, // addDisk's are full of data
		Disk:      enroll.DiskIdentity{SerialNumber: serial, Bytes: size}, Manifest: g.image.manifest, ImageURL: g.files.URL + imagePath,
		Identity: identity.Identity{
			Hostname: "server-1", RegionUID: "region-uid", ServerUID: "server-uid", Role: "Compute", Image: "test-1", JoinToken: "join",
			KernelArguments: []string{"hugepages=16", "isolcpus=2-5"},
		},
	}}
}

func (g *regiond) serveAPI(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	if g.apiFault != nil && g.apiFault(w, r, g.requests) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+token || r.Method != http.MethodPost {
		http.Error(w, `{"reason":"TokenUnknown","message":"no such job"}`, http.StatusUnauthorized)
		return
	}
	switch r.URL.Path {
	case enroll.PathInventory:
		var report enroll.InventoryReport
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
			g.t.Errorf("inventory: %v", err)
		}
		g.inventories = append(g.inventories, report)
		next := g.instructions[0]
		if len(g.instructions) > 1 {
			g.instructions = g.instructions[1:]
		}
		if err := json.NewEncoder(w).Encode(next); err != nil {
			g.t.Error(err)
		}
	case enroll.PathProgress:
		var report enroll.Progress
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
			g.t.Errorf("progress: %v", err)
		}
		g.reports = append(g.reports, report)
		w.WriteHeader(http.StatusNoContent)
	default:
		http.NotFound(w, r)
	}
}

func (g *regiond) serveChunk(w http.ResponseWriter, r *http.Request) {
	sum := path.Base(r.URL.Path)
	g.mu.Lock()
	g.fetched[sum]++
	n, fault := g.fetched[sum], g.chunkFault
	g.mu.Unlock()
	if r.URL.Path != imagePath+"/chunks/"+sum {
		http.NotFound(w, r)
		return
	}
	if fault != nil && fault(w, sum, n) {
		return
	}
	http.ServeFile(w, r, filepath.Join(g.image.dir, diskimage.ChunkDir, sum))
}

// last is the last report, which has to have that stage.
func (g *regiond) last(stage string) enroll.Progress {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.reports) == 0 || g.reports[len(g.reports)-1].Stage != stage {
		g.t.Fatalf("reports %+v; want the last one to be %s", g.reports, stage)
	}
	return g.reports[len(g.reports)-1]
}

// failures are the messages of all reports of stage Failed.
func (g *regiond) failures() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var messages []string
	for _, r := range g.reports {
		if r.Stage == "Failed" {
			messages = append(messages, r.Message)
		}
	}
	return strings.Join(messages, "\n")
}

func run(ctx context.Context, g *regiond, m *machine) (installer.Outcome, error) {
	return installer.Run(ctx, installer.Config{
		Ticket: g.ticket(), Machine: m, Version: "test", Clock: newClock(), Log: slog.New(slog.DiscardHandler),
	})
}

// checkInstalled compares every byte of the disk that the image speaks of.
func checkInstalled(t *testing.T, m *machine, i *image, disk string) {
	t.Helper()
	content := []byte(m.read(disk))
	parts, err := diskimage.Layout(&i.manifest, int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		want, ok := i.contents[p.Label]
		if !ok {
			want = make([]byte, mib) // of root-b, the beginning
		}
		if !bytes.Equal(content[p.Offset():][:len(want)], want) {
			t.Errorf("partition %s differs from the image", p.Label)
		}
	}
	f, err := os.Open(filepath.Join(m.dir, disk))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found, _, err := diskimage.ReadTable(f)
	if err != nil || !slices.Equal(found, parts) {
		t.Errorf("partition table %+v (%v), want %+v", found, err, parts)
	}
	if !bytes.Equal(content[:440], i.manifest.MBR) {
		t.Error("boot code is not in the first sector")
	}
}

// hasTable says whether firmware would find a partition table or boot code.
func hasTable(m *machine, disk string) bool {
	content := m.read(disk)
	return content[510:512] == "\x55\xAA" || content[512:520] == "EFI PART" || content[len(content)-512:][:8] == "EFI PART"
}

var errMount = errors.New("mount: input/output error")

// shrink exchanges the disk for a smaller one behind the inventory's back.
func (m *machine) shrink(disk string) {
	if err := os.Truncate(filepath.Join(m.dir, disk), least-mib); err != nil {
		m.t.Fatal(err)
	}
}

// clone copies an instruction, so that a test may change it.
func clone(t *testing.T, in enroll.Instruction) (out enroll.Instruction) {
	t.Helper()
	b, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
