package configuration

import (
	"strings"
	"testing"
)

func example() Configuration {
	return Configuration{
		Files: []File{{Path: "/etc/a.conf", Mode: "0640", Owner: "root", Group: "nova", Content: "a"},
			{Path: "/etc/b.conf", Mode: "600", Owner: "root", Group: "root", Content: "b", Network: true}},
		Services: []Service{{Name: "a.service", Files: []string{"/etc/a.conf"}}, {Name: "b@1.service", Reload: true, Oneshot: true}},
	}
}

func TestEncodeAndDecode(t *testing.T) {
	content, digest, err := example().Encode()
	if err != nil {
		t.Fatal(err)
	}
	c, again, err := Decode(content)
	if err != nil || again != digest || len(digest) != 64 || len(c.Files) != 2 || c.Files[1] != example().Files[1] {
		t.Errorf("%+v %s %s %v", c, digest, again, err)
	}
	changed := example()
	changed.Files[0].Mode = "0644"
	if c.Digest(c.Services[0]) == changed.Digest(c.Services[0]) || c.Digest(c.Services[1]) != changed.Digest(c.Services[1]) {
		t.Error("digests of services do not follow what the services read")
	}
	large := example()
	large.Files[0].Content = strings.Repeat("x", MaxSize)
	if _, _, err := large.Encode(); err == nil {
		t.Error("a configuration that no Secret holds was encoded")
	}
	if _, _, err := Decode(make([]byte, MaxSize+1)); err == nil {
		t.Error("a configuration that no Secret holds was decoded")
	}
}

func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Configuration){
		"not an absolute":      func(c *Configuration) { c.Files[0].Path = "etc/a.conf" },
		"clean path":           func(c *Configuration) { c.Files[0].Path = "/etc/../a.conf" },
		"there twice":          func(c *Configuration) { c.Files[1].Path = "/etc/a.conf" },
		"mode":                 func(c *Configuration) { c.Files[0].Mode = "4755" },
		"not both names":       func(c *Configuration) { c.Files[0].Owner = "" },
		"not the name":         func(c *Configuration) { c.Services[0].Name = "../a.service" },
		"service a.service":    func(c *Configuration) { c.Services[0].Files = []string{"/etc/c.conf"} },
		"a.service\" is there": func(c *Configuration) { c.Services[1].Name = "a.service" },
	} {
		c := example()
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// What is taken can be encoded again, and stays the same.
func FuzzDecode(f *testing.F) {
	content, _, err := example().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add([]byte(`{"files":[{"path":"/a","mode":"0","owner":"a","group":"b"}],"services":[{"name":"a.target"}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		c, _, err := Decode(content)
		if err != nil {
			return
		}
		first, digest, err := c.Encode()
		if err != nil {
			if len(first) == 0 && len(content) > MaxSize/8 { // escapes make it longer
				return
			}
			t.Fatal(err)
		}
		again, same, err := Decode(first)
		if err != nil || same != digest || len(again.Files) != len(c.Files) {
			t.Errorf("%q: %v", content, err)
		}
	})
}
