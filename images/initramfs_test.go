package images

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/klauspost/compress/zstd"
)

const (
	testDep = `kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz kernel/lib/crc16.ko.xz kernel/fs/mbcache.ko.xz
kernel/fs/jbd2/jbd2.ko.xz:
kernel/fs/mbcache.ko.xz:
kernel/lib/crc16.ko.xz:
kernel/drivers/net/virtio_net.ko.xz: kernel/drivers/net/net_failover.ko.xz kernel/net/core/failover.ko.xz
kernel/drivers/net/net_failover.ko.xz: kernel/net/core/failover.ko.xz
kernel/net/core/failover.ko.xz:
kernel/fs/nls/nls_iso8859-1.ko:
kernel/sound/soundcore.ko.xz:
`
	testBuiltin = "kernel/drivers/virtio/virtio_pci.ko\nkernel/net/packet/af_packet.ko\n"
	testAlias   = `# Aliases extracted from modules themselves.
alias fs-ext4 ext4
alias virtio:d00000001v* virtio_net
alias sound-service-*-0 soundcore
alias crypto-crc32c crc32c_generic
alias fs-ext4 ext4
`
)

func TestPlanModules(t *testing.T) {
	plan, err := planModules([]string{"virtio_net", "virtio_pci", "ext4", "nls_iso8859_1"}, testDep, testBuiltin)
	if err != nil {
		t.Fatal(err)
	}
	want := "failover.ko\nnet_failover.ko\nvirtio_net.ko\njbd2.ko\ncrc16.ko\nmbcache.ko\next4.ko\nnls_iso8859-1.ko\n"
	if got := plan.order(); got != want {
		t.Errorf("order %q, want %q", got, want)
	}
	for _, line := range []string{"virtio_net.ko: net_failover.ko failover.ko\n", "failover.ko:\n", "ext4.ko: jbd2.ko crc16.ko mbcache.ko\n"} {
		if !strings.Contains(plan.dep(), line) {
			t.Errorf("modules.dep %q lacks %q", plan.dep(), line)
		}
	}
	if got, want := plan.aliases(testAlias), "alias fs-ext4 ext4\nalias virtio:d00000001v* virtio_net\n"; got != want {
		t.Errorf("aliases %q, want %q", got, want)
	}
}

func TestPlanModulesNamesMissing(t *testing.T) {
	_, err := planModules([]string{"ext4", "gone", "lost"}, testDep, testBuiltin)
	if err == nil || !strings.Contains(err.Error(), "gone, lost") || strings.Contains(err.Error(), "ext4") {
		t.Errorf("got error %v, want one that names only the missing modules", err)
	}
}

// An initramfs is created as in a build, and read back.
func TestInitramfs(t *testing.T) {
	needRoot(t)
	system := t.TempDir()
	modules := filepath.Join(system, "usr/lib/modules/6.12-test")
	for name, content := range map[string]string{
		"modules.dep": testDep, "modules.builtin": testBuiltin, "modules.alias": testAlias,
		"kernel/fs/nls/nls_iso8859-1.ko": "plain module",
	} {
		if err := writeFile(modules, name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"drivers/net/virtio_net", "drivers/net/net_failover", "net/core/failover"} {
		// Debian compresses its modules with xz of xz-utils.
		cmd := exec.Command("xz", "--check=crc32", "--lzma2=dict=1MiB", "--stdout")
		cmd.Stdin = strings.NewReader("module " + filepath.Base(name))
		content, err := cmd.Output()
		if err != nil {
			t.Fatalf("xz (Debian: xz-utils): %v", err)
		}
		if err := writeFile(modules, "kernel/"+name+".ko.xz", content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	work := t.TempDir()
	a := &assembly{
		rec: &recipe{modules: []string{"virtio_net", "nls_iso8859_1"}}, root: &rootfs{dir: t.TempDir()},
		system: system, kernel: "6.12-test", work: work, out: t.TempDir(),
	}
	for _, init := range []string{"the first init", "the init"} {
		if err := a.initramfs(t.Context(), &program{content: []byte(init)}); err != nil {
			t.Fatal(err)
		}
	}
	if cached, err := filepath.Glob(filepath.Join(a.root.dir, modulesPrefix+"*")); len(cached) != 1 || err != nil {
		t.Errorf("cached archives of modules: %v, %v; want one", cached, err)
	}
	content, err := os.ReadFile(filepath.Join(a.out, InitramfsFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(content)%4 != 0 {
		t.Errorf("the initramfs has %d bytes, want a multiple of 4, so that the kernel finds the ticket behind it", len(content))
	}
	checkArchive(t, unpackFrames(t, content))
}

// unpackFrames unpacks zstd frames at offsets that are multiples of 4, and joins their archives
// without the trailers.
func unpackFrames(t *testing.T, content []byte) []byte {
	t.Helper()
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	const magic = "\x28\xb5\x2f\xfd"
	var plain []byte
	for len(content) > 0 {
		end := len(content)
		for at := 4; at < len(content); at += 4 {
			if string(content[at:at+4]) == magic {
				end = at
				break
			}
		}
		frame, err := decoder.DecodeAll(bytes.TrimRight(content[:end], "\x00"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(frame, []byte("070701")) {
			t.Fatalf("an archive begins with %q, want the magic of newc", frame[:6])
		}
		trailer := bytes.LastIndex(frame, []byte("TRAILER!!!"))
		if content = content[end:]; len(content) > 0 {
			frame = frame[:trailer-110] // the trailer's header, cpio(5)
		}
		plain = append(plain, frame...)
	}
	return plain
}

func checkArchive(t *testing.T, archive []byte) {
	t.Helper()
	want := map[string]string{
		"init": "the init", "modules/order": "failover.ko\nnet_failover.ko\nvirtio_net.ko\nnls_iso8859-1.ko\n",
		"modules/virtio_net.ko": "module virtio_net", "modules/net_failover.ko": "module net_failover", "modules/failover.ko": "module failover",
		"modules/nls_iso8859-1.ko": "plain module", "modules/modules.alias": "alias virtio:d00000001v* virtio_net\n",
		"modules/modules.dep": "failover.ko:\nnet_failover.ko: failover.ko\nvirtio_net.ko: net_failover.ko failover.ko\nnls_iso8859-1.ko:\n",
	}
	var dirs []string
	reader := cpio.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Guid != 0 || header.ModTime.Unix() != sourceDate {
			t.Errorf("%s: got owner %d:%d and time %v", header.Name, header.Uid, header.Guid, header.ModTime)
		}
		if header.Mode.IsDir() {
			dirs = append(dirs, header.Name)
			continue
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := want[header.Name]; !ok || text != string(content) {
			t.Errorf("%s holds %q, want %q", header.Name, content, text)
		}
		if executable := header.Mode.Perm()&0o111 != 0; executable != (header.Name == "init") {
			t.Errorf("%s: got mode %o", header.Name, header.Mode.Perm())
		}
		if dir := filepath.Dir(header.Name); dir != "." && !slices.Contains(dirs, dir) {
			t.Errorf("%s comes before its folder", header.Name)
		}
		delete(want, header.Name)
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
	for _, dir := range []string{"proc", "sys", "dev", "run", "etc/regiond"} {
		if !slices.Contains(dirs, dir) {
			t.Errorf("folder %s is missing", dir)
		}
	}
}

func TestInitramfsTooBig(t *testing.T) {
	files := []cpioFile{{"init", 0o755, make([]byte, 300)}, {"modules/mlx5_core.ko", 0o644, make([]byte, 500)}, {"modules/order", 0o644, nil}}
	err := checkInitramfsSize(maxInitramfs+1, files)
	if err == nil || !strings.Contains(err.Error(), "10000001 bytes") || !strings.Contains(err.Error(), "modules/mlx5_core.ko 500, init 300") {
		t.Errorf("error %v does not name the size and the biggest parts", err)
	}
	if err := checkInitramfsSize(maxInitramfs, files); err != nil {
		t.Error(err)
	}
}

func TestCheckStatic(t *testing.T) {
	if err := checkStatic([]byte("#!/bin/sh\n")); err == nil {
		t.Error("a script is accepted as a static program")
	}
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := checkStatic(shell); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("got error %v for /bin/sh, want that it is linked dynamically", err)
	}
}
