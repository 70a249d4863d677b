package configuration

import (
	"errors"
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

// stored is what was stored before the format had a version, with the digests that hosts attested.
const (
	stored              = `{"files":[{"path":"/etc/a.conf","mode":"0640","owner":"root","group":"nova","content":"a"}],"services":[{"name":"a.service","files":["/etc/a.conf"]}]}`
	storedDigest        = "632d9bfa57060cd629ebfcaf08c9474fe55b92912f65fc3027c97c9fd84894b7"
	storedServiceDigest = "835efd6be0536004d1dbfc85a21823c790cbaa618242c49fc0f5a217f501caf0"
)

func TestFirstVersionIsRead(t *testing.T) {
	c, digest, err := Decode([]byte(stored))
	if err != nil || digest != storedDigest || c.Digest(c.Services[0]) != storedServiceDigest {
		t.Errorf("got %s, %s, %v: hosts attest %s, %s", digest, c.Digest(c.Services[0]), err, storedDigest, storedServiceDigest)
	}
	if content, again, err := c.Encode(); err != nil || again != digest || string(content) != stored {
		t.Errorf("encoded again it is %s, %v: all hosts would get another configuration", content, err)
	}
	if _, _, err := Decode([]byte(strings.Replace(stored, "{", `{"version":1,`, 1))); err != nil {
		t.Errorf("the version by its number: %v", err)
	}
}

func TestUnknownFormatIsRefused(t *testing.T) {
	for name, content := range map[string]string{
		"a later version":             strings.Replace(stored, "{", `{"version":2,`, 1),
		"an unknown field":            strings.Replace(stored, "{", `{"packages":[],`, 1),
		"an unknown field of a file":  strings.Replace(stored, `"mode"`, `"acl":"x","mode"`, 1),
		"an unknown field of service": strings.Replace(stored, `"name"`, `"after":"x","name"`, 1),
	} {
		if _, digest, err := Decode([]byte(content)); !errors.Is(err, ErrUnknown) || digest != "" {
			t.Errorf("%s: got %q, %v, want ErrUnknown", name, digest, err)
		}
	}
	if _, _, err := Decode([]byte(stored + "{}")); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("what is not JSON: %v", err)
	}
}

func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Configuration){
		"not an absolute":             func(c *Configuration) { c.Files[0].Path = "etc/a.conf" },
		"clean path":                  func(c *Configuration) { c.Files[0].Path = "/etc/../a.conf" },
		"listed twice":                func(c *Configuration) { c.Files[1].Path = "/etc/a.conf" },
		"mode":                        func(c *Configuration) { c.Files[0].Mode = "4755" },
		"not both names":              func(c *Configuration) { c.Files[0].Owner = "" },
		"not the name":                func(c *Configuration) { c.Services[0].Name = "../a.service" },
		"service a.service":           func(c *Configuration) { c.Services[0].Files = []string{"/etc/c.conf"} },
		"a.service\" is listed twice": func(c *Configuration) { c.Services[1].Name = "a.service" },
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
