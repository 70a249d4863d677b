package oci

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"regiond.dev/regiond/images/debian"
)

func TestRecipes(t *testing.T) {
	want := []string{"client", "glance", "keystone", "mariadb", "memcached", "neutron", "nova", "placement", "rabbitmq"}
	for _, release := range Releases() {
		r, err := recipeOf(release)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(slices.Values(r.names())); !slices.Equal(got, want) {
			t.Errorf("%s: images %q, want %q", release, got, want)
		}
		for _, i := range r.built() {
			if r.lock[i.main] == "" {
				t.Errorf("%s.lock: no version of %s, which gives image %s its version", release, i.main, i.name)
			}
		}
	}
	if _, err := recipeOf("zed"); err == nil || !strings.Contains(err.Error(), "epoxy") {
		t.Errorf("unknown release: got error %v, want one that lists the known ones", err)
	}
}

// testFiles returns the files of a small recipe.
func testFiles() map[string]string {
	return map[string]string{
		"releases": "# c\nold bookworm\nnew trixie b=old expired\n", "users": "u 5\n", "images": "a base u pa\nb common u pb\n",
		"packages/base": "adduser\n", "packages/common": "python3\n", "packages/a": "pa\n", "packages/b": "# c\npb\n",
		"drop": "run/*\netc/*/*.conf\netc/init.d\n", "options": "b b.* oslo.*\n", "new.lock": "pa=1\n", "old.lock": "pa=1\n",
	}
}

func parseTest(release string, files map[string]string) (*recipe, error) {
	r := &recipe{release: release, packages: map[string][]string{}}
	return r, r.parse(func(name string) string { return files[name] })
}

func TestRecipeParse(t *testing.T) {
	r, err := parseTest("new", testFiles())
	if err != nil {
		t.Fatal(err)
	}
	if r.suite != "trixie" || !r.expired || r.borrowed["b"] != "old" || len(r.built()) != 1 || r.built()[0].name != "a" {
		t.Errorf("got %+v, want trixie, expired, b borrowed from old, and a built", r)
	}
	if got := r.stack("b"); !slices.Equal(got, []string{"b", "common", "base"}) {
		t.Errorf("stack of b: got %q", got)
	}
	if got := r.stack("a"); !slices.Equal(got, []string{"a", "base"}) {
		t.Errorf("stack of a: %q", got)
	}
}

func TestRecipeRefusesNonsense(t *testing.T) {
	for _, c := range []struct{ file, content, want string }{
		{"releases", "new\n", `"new"`},
		{"releases", "new trixie b=new\n", "another release"},
		{"users", "u x\n", `"u x"`},
		{"users", "u 0\n", "above 0"},
		{"images", "a base u\n", "want name"},
		{"images", "a middle u pa\n", `"middle"`},
		{"images", "a base nobody pa\n", `"nobody"`},
		{"packages/a", "# nothing\n", "packages/a"},
		{"drop", "etc/[\n", "etc/["},
		{"options", "c x\n", `"c x"`},
		{"new.lock", "pa\n", "new.lock"},
	} {
		files := testFiles()
		files[c.file] = c.content
		if _, err := parseTest("new", files); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: error %v, want one with %q", c.file, c.content, err, c.want)
		}
	}
}

// Everything that determines the images' content changes the key; a lock file, which is only
// compared, does not.
func TestRecipeKey(t *testing.T) {
	base, err := parseTest("new", testFiles())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, content string
		same          bool
	}{
		{"packages/a", "pa\nmore\n", false},
		{"packages/common", "python3\nmore\n", false},
		{"drop", "run/*\n", false},
		{"enter.sh", "#!/bin/sh\n", false},
		{"users", "u 6\n", false},
		{"packages/b", "pb\nmore\n", true}, // it is the other release's image
		{"new.lock", "pa=2\n", true},
	} {
		files := testFiles()
		files[c.file] = c.content
		r, err := parseTest("new", files)
		if err != nil {
			t.Fatal(err)
		}
		if (r.key == base.key) != c.same {
			t.Errorf("%s: got the same key: %t, want %t", c.file, !c.same, c.same)
		}
	}
}

func TestDropped(t *testing.T) {
	r, err := parseTest("new", testFiles())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"run": false, "run/lock": true, "run/lock/subsys": true, "etc/nova/nova.conf": true, "etc/nova/api-paste.ini": false,
		"etc/init.d": true, "etc/init.d/x": true, "usr/etc/init.d": false, "etc/a.conf": false,
	} {
		if got := r.dropped(path); got != want {
			t.Errorf("%s dropped: %v, want %v", path, got, want)
		}
	}
}

func TestURIsSize(t *testing.T) {
	text := "Reading package lists...\n'http://d/a_1.deb' a_1.deb 100 SHA256:00\n'http://d/b_1.deb' b_1.deb 2300 SHA256:00\nW: 1 2 3\n"
	if got := urisSize(text); got != 2400 {
		t.Errorf("got %d bytes, want 2400", got)
	}
}

func TestOptionsDiff(t *testing.T) {
	known := Options{"nova": {
		"DEFAULT": {Options: []string{"a", "b"}},
		"libvirt": {Options: []string{"virt_type"}, Deprecated: map[string]string{"old": "virt_type"}},
	}}
	now := Options{"nova": {"DEFAULT": {Options: []string{"a", "c"}}, "libvirt": {Options: []string{"virt_type"}}}}
	want := []string{"-nova.DEFAULT.b", "+nova.DEFAULT.c", "-nova.libvirt.old"}
	if got := known.diff(now); !slices.Equal(got, want) {
		t.Errorf("diff %q, want %q", got, want)
	}
	if got := known.diff(known); got != nil {
		t.Errorf("diff with itself: got %q, want none", got)
	}
}

func TestLockedErrorNamesChanges(t *testing.T) {
	err := lockedError("epoxy", debian.Lock{"a": "1"}.Diff(debian.Lock{"a": "2"}))
	for _, want := range []string{"a 1 -> 2", "epoxy.lock", "--locked"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
}

func TestCurrentOfNothing(t *testing.T) {
	_, err := Current(t.TempDir(), "epoxy")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "regiond image build --components --openstack epoxy") {
		t.Errorf("got error %v, want fs.ErrNotExist with the command that builds them", err)
	}
	if sets, err := List(t.TempDir()); err != nil || sets != nil {
		t.Errorf("list: got %v, error %v, want nothing", sets, err)
	}
}
