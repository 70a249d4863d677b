package bootloader

import (
	"strings"
	"testing"
)

func TestAddKernelArguments(t *testing.T) {
	arguments := []string{"quiet", `dyndbg="file x.c +p"`, "a=$b"}
	entry, err := addToEntry("title x\noptions root=PARTLABEL=root-a \r\n# options of old\noptions second\n", arguments)
	if want := "title x\noptions root=PARTLABEL=root-a quiet dyndbg=\"file x.c +p\" a=$b\n# options of old\noptions second quiet dyndbg=\"file x.c +p\" a=$b\n"; err != nil || entry != want {
		t.Errorf("entry %q (%v)", entry, err)
	}
	grub, err := addToGRUB("if linux /k root=x\nthen\n\tlinux /k2 y\nfi\necho linux /no\n", arguments)
	if want := "if linux /k root=x quiet 'dyndbg=\"file x.c +p\"' 'a=$b'\nthen\n\tlinux /k2 y quiet 'dyndbg=\"file x.c +p\"' 'a=$b'\nfi\necho linux /no\n"; err != nil || grub != want {
		t.Errorf("grub.cfg %q (%v)", grub, err)
	}
	if got := quoteGRUB("it's"); got != `'it'\''s'` {
		t.Errorf("quoted %s", got)
	}
	for _, add := range []func(string, []string) (string, error){addToEntry, addToGRUB} {
		if _, err := add("title x\n", arguments); err == nil {
			t.Error("a file without the line was accepted")
		}
	}
	if err := CheckArguments([]string{"ok", ""}); err == nil || !strings.Contains(err.Error(), `""`) {
		t.Errorf("empty argument: %v", err)
	}
}
