package bootloader

import (
	"strings"
	"testing"
)

const entryA = `title    regiond node (slot a)
sort-key regiond
version  1
linux    /regiond/a/vmlinuz
initrd   /regiond/a/initrd
options  root=PARTLABEL=root-a rw regiond.mode=boot panic=10 systemd.machine_id=firmware console=tty0 console=ttyS0,115200
`

func TestEntry(t *testing.T) {
	if got := Entry(SlotA, 1); got != entryA {
		t.Errorf("entry of slot a:\n%s\nwant:\n%s", got, entryA)
	}
	b := strings.NewReplacer("slot a", "slot b", "root-a", "root-b", "regiond/a/", "regiond/b/", "version  1", "version  7").Replace(entryA)
	if got := Entry(SlotB, 7); got != b {
		t.Errorf("entry of slot b:\n%s\nwant:\n%s", got, b)
	}
	if got, want := EntryPath(SlotB), "loader/entries/regiond-b+3.conf"; got != want {
		t.Errorf("path %q, want %q", got, want)
	}
}

func TestFiles(t *testing.T) {
	texts := map[string]string{}
	for _, text := range Files() {
		texts[text.Path] = text.Content
	}
	if texts["loader/entries/regiond-a+3.conf"] != entryA {
		t.Error("the entry of slot a is not that of Entry")
	}
	for _, want := range []string{"timeout 0\n", "editor no\n"} {
		if !strings.Contains(texts["loader/loader.conf"], want) {
			t.Errorf("loader.conf lacks %q", want)
		}
	}
	// GRUB refuses an environment block of another size.
	env := texts["grub/grubenv"]
	if len(env) != 1024 || !strings.HasPrefix(env, "# GRUB Environment Block\nslot=a\n#") {
		t.Errorf("grubenv has %d bytes, begins %q", len(env), env[:40])
	}
	for _, want := range []string{
		"linux /regiond/$boot/vmlinuz root=PARTLABEL=root-$boot rw regiond.mode=boot",
		"initrd /regiond/$boot/initrd\n",
		"save_env trial\n",
	} {
		if !strings.Contains(texts["grub/grub.cfg"], want) {
			t.Errorf("grub.cfg lacks %q", want)
		}
	}
}
