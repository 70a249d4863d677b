package images

import (
	"path"
	"strings"
	"testing"
)

func mustRecipe(t *testing.T) *recipe {
	t.Helper()
	r, err := recipeOf(Releases[0])
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecipeIsComplete(t *testing.T) {
	r := mustRecipe(t)
	for name, list := range map[string][]string{
		"packages": r.packages, "tools": r.tools, "exclude": r.exclude, "drop": r.drop,
		"modules": r.modules, "enable": r.enable, "mask": r.mask,
	} {
		seen := map[string]bool{}
		for _, line := range list {
			if seen[line] || strings.ContainsAny(line, " \t") {
				t.Errorf("node/%s: line %q is a duplicate or has white space", name, line)
			}
			seen[line] = true
		}
		if len(list) == 0 {
			t.Errorf("node/%s is empty", name)
		}
	}
	for _, p := range append(r.packages, r.tools...) {
		if r.lock[p] == "" {
			t.Errorf("package %s is not in node/%s.lock", p, r.release)
		}
	}
	for _, p := range r.packages {
		if strings.Contains(p, "ssh") || p == "apt" {
			t.Errorf("package %s does not belong on a node", p)
		}
	}
	// Every enabled unit of regiond's own is in node/files.
	for _, unit := range r.enable {
		if _, err := recipeFiles.ReadFile(path.Join("node/files/etc/systemd/system", unit)); strings.HasPrefix(unit, "regiond-") && err != nil {
			t.Error(err)
		}
	}
}

func TestUnknownRelease(t *testing.T) {
	_, err := recipeOf("sarge")
	if err == nil || !strings.Contains(err.Error(), `"sarge"`) || !strings.Contains(err.Error(), "trixie") {
		t.Errorf("got error %v, want one with the release and the known ones", err)
	}
}

// Every change of the image changes its version, and only a change of the packages requires
// mmdebstrap.
func TestKeys(t *testing.T) {
	type keys struct{ rootfs, version string }
	keysOf := func(change func(*recipe, *string, *programs)) keys {
		r := mustRecipe(t)
		packages, p := "systemd=257\n", programs{agent: "a", init: "i"}
		change(r, &packages, &p)
		rootfs, err := r.rootfsKey()
		if err != nil {
			t.Fatal(err)
		}
		version, err := r.version(rootfs, packages, p)
		if err != nil {
			t.Fatal(err)
		}
		return keys{rootfs, version}
	}
	base := keysOf(func(*recipe, *string, *programs) {})
	if again := keysOf(func(*recipe, *string, *programs) {}); again != base {
		t.Fatalf("the same recipe has keys %v, then %v", base, again)
	}
	if !strings.HasPrefix(base.version, "trixie-") || len(base.version) != len("trixie-")+12 {
		t.Errorf("got version %q, want release and 12 digits", base.version)
	}
	for name, c := range map[string]struct {
		change func(*recipe, *string, *programs)
		rootfs bool
	}{
		"package added": {func(r *recipe, _ *string, _ *programs) { r.packages = append(r.packages, "less") }, true},
		"tool added":    {func(r *recipe, _ *string, _ *programs) { r.tools = append(r.tools, "less") }, true},
		"exclude added": {func(r *recipe, _ *string, _ *programs) { r.exclude = append(r.exclude, "/x") }, true},
		"drop added":    {func(r *recipe, _ *string, _ *programs) { r.drop = append(r.drop, "net") }, true},
		"moved": {func(r *recipe, _ *string, _ *programs) {
			r.tools, r.packages = append(r.tools, r.packages[0]), r.packages[1:]
		}, true},
		"security update":  {func(_ *recipe, s *string, _ *programs) { *s = "systemd=258\n" }, false},
		"agent":            {func(_ *recipe, _ *string, p *programs) { p.agent = "b" }, false},
		"init":             {func(_ *recipe, _ *string, p *programs) { p.init = "b" }, false},
		"programs swapped": {func(_ *recipe, _ *string, p *programs) { p.agent, p.init = p.init, p.agent }, false},
		"module added":     {func(r *recipe, _ *string, _ *programs) { r.modules = append(r.modules, "sfc") }, false},
		"unit masked":      {func(r *recipe, _ *string, _ *programs) { r.mask = append(r.mask, "x.service") }, false},
	} {
		got := keysOf(c.change)
		if got.version == base.version {
			t.Errorf("%s: the version stays %s", name, got.version)
		}
		if (got.rootfs != base.rootfs) != c.rootfs {
			t.Errorf("%s: root file system's key %s, before %s; want a change: %v", name, got.rootfs, base.rootfs, c.rootfs)
		}
	}
}

func TestMmdebstrapArgs(t *testing.T) {
	r := &recipe{release: "trixie", packages: []string{"systemd", "udev"}, tools: []string{"ipxe"}, exclude: []string{"/usr/share/man/*"}}
	args := mmdebstrapArgs(r, "http://mirror.example.net/debian", "/it's", "/it's/out")
	for _, want := range []string{
		"--variant=essential", "--include=systemd,udev", "--dpkgopt=path-exclude=/usr/share/man/*",
		`--customize-hook='/it'\''s/customize.sh' "$1" '/it'\''s/out' '/it'\''s/drop' 'ipxe'`,
	} {
		found := false
		for _, a := range args {
			found = found || a == want
		}
		if !found {
			t.Errorf("no argument %s in %q", want, args)
		}
	}
	if last := args[len(args)-3:]; last[0] != "trixie" || last[1] != "/it's/out/rootfs.tar.zst" || last[2] != "http://mirror.example.net/debian" {
		t.Errorf("got last arguments %q, want release, target, mirror", last)
	}
}
