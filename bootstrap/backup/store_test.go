package backup_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"regiond.dev/regiond/bootstrap/backup"
)

func TestParseName(t *testing.T) {
	m := manifest()
	for _, region := range []string{"a", "north-1", "lab-20261201"} {
		m.Region = region
		s, ok := backup.ParseName(backup.FileName(m))
		if !ok || s.Region != region || s.ID != "0a1b2c3d" || !s.Time.Equal(taken) {
			t.Errorf("%s: got %+v, %t", backup.FileName(m), s, ok)
		}
	}
	for _, name := range []string{"", "x.tar.zst.age", ".north-1-0a1b2c3d-20261201T034500Z.tar.zst.age.new-1", "north-1-0a1b2c3d-20261399T034500Z.tar.zst.age"} {
		if s, ok := backup.ParseName(name); ok {
			t.Errorf("%q was taken for a backup: %+v", name, s)
		}
	}
}

func TestExpired(t *testing.T) {
	var all []backup.Stored
	for _, age := range []int{9, 0, 3, 40, 1, 20} { // days
		all = append(all, backup.Stored{Name: fmt.Sprint(age), Time: taken.AddDate(0, 0, -age)})
	}
	for _, c := range []struct {
		keep backup.Keep
		want string
	}{
		{backup.Keep{}, ""},
		{backup.Keep{Count: 2}, "3 9 20 40"},
		{backup.Keep{Days: 10}, "20 40"},
		{backup.Keep{Count: 5, Days: 2}, "40"},
		{backup.Keep{Count: 1, Days: 4}, "9 20 40"},
		{backup.Keep{Count: 10}, ""},
	} {
		var got []string
		for _, s := range c.keep.Expired(all, taken) {
			got = append(got, s.Name)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%+v: got expired %q, want %q", c.keep, s, c.want)
		}
	}
	// One that was made while the clock was ahead must not have those expire that are made now.
	ahead := backup.Stored{Name: "ahead", Time: taken.AddDate(1, 0, 0)}
	if got := (backup.Keep{Count: 1}).Expired([]backup.Stored{ahead, {Name: "new", Time: taken}, {Name: "old", Time: taken.AddDate(0, 0, -1)}}, taken); len(got) != 1 || got[0].Name != "old" {
		t.Errorf("beside one of the future: got %+v expired, want the old one", got)
	}
	// The newest stays however old it is.
	if got := (backup.Keep{Days: 1}).Expired(all, taken.AddDate(1, 0, 0)); len(got) != len(all)-1 {
		t.Errorf("a year later: got %d expired, want all but one", len(got))
	}
}

// Regions that share a destination do not remove each other's backups by their own rules, and one
// that was set up again does not count those of its earlier life.
func TestExpiredIn(t *testing.T) {
	var all []backup.Stored
	for day := range 2 {
		for _, of := range [][2]string{{"north-1", "0a1b2c3d"}, {"north-1", "ffffffff"}, {"south-1", "0a1b2c3d"}} {
			all = append(all, backup.Stored{Name: fmt.Sprintf("%s-%s-%d", of[0], of[1], day), Region: of[0], ID: of[1], Time: taken.AddDate(0, 0, -day)})
		}
	}
	for region, want := range map[string]string{
		"north-1": "north-1-0a1b2c3d-1 north-1-ffffffff-1",
		"":        "north-1-0a1b2c3d-1 north-1-ffffffff-1 south-1-0a1b2c3d-1",
		"west-1":  "",
	} {
		got := []string{}
		for _, s := range (backup.Keep{Count: 1}).ExpiredIn(all, region, taken) {
			got = append(got, s.Name)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("region %q: got expired %q, want %q", region, s, want)
		}
	}
}

// TestSharesDisk: a folder that is not there yet is made where the one above it is.
func TestSharesDisk(t *testing.T) {
	data := t.TempDir()
	for name, c := range map[string]struct {
		of   string
		want bool
	}{
		filepath.Join(data, "backups"): {data, true},
		data:                           {data, true},
		"/proc":                        {data, false},
		"/proc/missing":                {data, false},
	} {
		if got, err := backup.Directory(name).SharesDisk(c.of); got != c.want || err != nil {
			t.Errorf("%s and %s: got %t, %v, want %t", name, c.of, got, err, c.want)
		}
	}
	if _, err := backup.Directory(filepath.Join(data, "a/b")).SharesDisk(data); err == nil {
		t.Error("got no error of a folder that can't be made")
	}
}
