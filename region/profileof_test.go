package region

import "testing"

func TestProfileOf(t *testing.T) {
	profile := func(name string, m ProfileMatch) Profile { return Profile{Name: name, Match: m} }
	dell, db, rest := profile("dell", ProfileMatch{Manufacturer: "Dell*"}), profile("db", ProfileMatch{Name: "db-*"}), profile("rest", ProfileMatch{})
	for name, tc := range map[string]struct {
		profiles []Profile
		server   StaticServer
		want     string
		sure     bool
	}{
		"named":                    {[]Profile{rest, dell}, StaticServer{Name: "a", Profile: "dell"}, "dell", true},
		"named, but not there":     {[]Profile{rest}, StaticServer{Name: "a", Profile: "other"}, "", false},
		"by its name":              {[]Profile{db, rest}, StaticServer{Name: "db-1"}, "db", true},
		"not by its name":          {[]Profile{db, rest}, StaticServer{Name: "web-1"}, "rest", true},
		"after one that may match": {[]Profile{dell, rest}, StaticServer{Name: "a"}, "rest", false},
		"none":                     {[]Profile{db}, StaticServer{Name: "a"}, "", false},
		"one that may match":       {[]Profile{dell}, StaticServer{Name: "a"}, "", false},
	} {
		p, sure := ProfileOf(&Hardware{Profiles: tc.profiles}, tc.server)
		got := ""
		if p != nil {
			got = p.Name
		}
		if got != tc.want || sure != tc.sure {
			t.Errorf("%s: %q, %v, want %q, %v", name, got, sure, tc.want, tc.sure)
		}
	}
}
