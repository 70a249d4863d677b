package configuration

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func file(path, content string) File {
	return File{Path: path, Mode: "0644", Owner: "root", Group: "root", Content: content}
}

// What stands in Secrets of regions that run must come out of a merge unchanged, or every host
// would be given another configuration.
func TestMergeOfOneContributorKeepsTheDigest(t *testing.T) {
	for name, tt := range map[string]struct{ content, digest string }{
		"a compute host": {
			`{"files":[{"path":"/etc/neutron/agent.ini","mode":"0640","owner":"root","group":"neutron","content":"[DEFAULT]\na = \u003cb\u003e \u0026 \"c\"\n"},` +
				`{"path":"/etc/regiond/network","mode":"0644","owner":"root","group":"root","content":"br-int\n","network":true},` +
				`{"path":"/etc/systemd/system/nova-compute.service","mode":"0644","owner":"root","group":"root","content":"[Service]\n"}],` +
				`"services":[{"name":"regiond-network.service","files":["/etc/regiond/network"],"oneshot":true},{"name":"nova-compute.service","files":["/etc/systemd/system/nova-compute.service"]},{"name":"agent.service","files":["/etc/neutron/agent.ini"],"reload":true}]}`,
			"af54342f2647eb878e2cf17a1980e450999e4cb15803801c128b46c20b53af88"},
		"a host that left its cluster": {
			`{"files":null,"services":null}`,
			"3b110b2237f230c49b38dac4f18969f3ae52b84e6950c5a3d8acf464ed37e6d6"},
		"a host with nothing to run": {
			`{"files":[],"services":[]}`,
			"c4dc599df61799969695d0e2745bd5cdff33dc5622e7367b0024d2198258b2fc"},
	} {
		conf, digest, err := Decode([]byte(tt.content))
		if err != nil || digest != tt.digest {
			t.Fatalf("%s: digest %s, %v; want %s", name, digest, err, tt.digest)
		}
		merged, err := Merge(Contribution{"openstack", conf})
		if err != nil {
			t.Fatal(err)
		}
		content, digest, err := merged.Encode()
		if err != nil || digest != tt.digest || string(content) != tt.content {
			t.Errorf("%s: got digest %s, %v; want %s\n%s", name, digest, err, tt.digest, content)
		}
	}
}

func TestMerge(t *testing.T) {
	openstack := Contribution{"openstack", Configuration{
		Files:    []File{file("/etc/nova/nova.conf", "n"), file("/etc/systemd/system/nova-compute.service", "u")},
		Services: []Service{{Name: "nova-compute.service", Files: []string{"/etc/nova/nova.conf"}}}}}
	dpdk := Contribution{"ovs-dpdk", Configuration{
		Files:    []File{file("/etc/default/ovs-dpdk", "d"), file("/etc/modules-load.d/vfio.conf", "v")},
		Services: []Service{{Name: "z.service"}, {Name: "a.service", Files: []string{"/etc/default/ovs-dpdk", "/etc/nova/nova.conf"}}}}}
	want := Configuration{
		Files:    []File{dpdk.Files[0], dpdk.Files[1], openstack.Files[0], openstack.Files[1]},
		Services: []Service{openstack.Services[0], dpdk.Services[0], dpdk.Services[1]}}
	for _, order := range [][]Contribution{{openstack, dpdk}, {dpdk, openstack}} {
		got, err := Merge(order...)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
		}
		if err := got.Check(); err != nil {
			t.Error(err)
		}
	}
	if got, err := Merge(); err != nil || !reflect.DeepEqual(got, Configuration{}) {
		t.Errorf("of no contributions: got %+v, %v", got, err)
	}
}

func TestMergeRefusesTwoOwners(t *testing.T) {
	unit := file("/etc/systemd/system/nova-compute.service", "u")
	nova := Configuration{Files: []File{file("/etc/nova/nova.conf", "n"), unit}, Services: []Service{{Name: "nova-compute.service"}}}
	for name, tt := range map[string]struct {
		other Configuration
		want  []string
	}{
		"the same file, even of the same content": {Configuration{Files: []File{file("/etc/nova/nova.conf", "n")}}, []string{"file /etc/nova/nova.conf"}},
		"the same service":                        {Configuration{Services: []Service{{Name: "nova-compute.service"}}}, []string{"unit nova-compute.service"}},
		"a drop-in for another's unit": {Configuration{Files: []File{file("/etc/systemd/system/nova-compute.service.d/x.conf", "")}},
			[]string{"unit nova-compute.service"}},
		"the same unit file":                  {Configuration{Files: []File{unit}}, []string{"file /etc/systemd/system/nova-compute.service", "unit nova-compute.service"}},
		"a file where another needs a folder": {Configuration{Files: []File{file("/etc/nova", "")}}, []string{"file /etc/nova"}},
		"a folder where another has a file":   {Configuration{Files: []File{file("/etc/nova/nova.conf/x", "")}}, []string{"file /etc/nova/nova.conf"}},
	} {
		// Either name may be the first one by the alphabet.
		for _, other := range []string{"a-bundle", "z-bundle"} {
			for _, order := range [][]Contribution{{{"openstack", nova}, {other, tt.other}}, {{other, tt.other}, {"openstack", nova}}} {
				got, err := Merge(order...)
				var names []string
				for e := range joined(err) {
					c := &ConflictError{}
					if !errors.As(e, &c) {
						t.Fatalf("%s: %v", name, e)
					}
					names = append(names, c.Kind+" "+c.Name)
					for _, n := range []string{"openstack", other} {
						if !strings.Contains(e.Error(), n) {
							t.Errorf("%s: %v does not name %s", name, e, n)
						}
					}
				}
				if !reflect.DeepEqual(names, tt.want) || len(got.Files) > 0 {
					t.Errorf("%s: got %q and %+v, want %q and no configuration", name, names, got, tt.want)
				}
			}
		}
	}
	for _, bad := range [][]Contribution{{{"a", nova}, {"a", Configuration{}}}, {{"", nova}}} {
		if _, err := Merge(bad...); err == nil {
			t.Errorf("contributors %q and so on were merged", bad[0].Contributor)
		}
	}
}

// joined are the errors of errors.Join.
func joined(err error) func(yield func(error) bool) {
	return func(yield func(error) bool) {
		if err == nil {
			return
		}
		for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
			if !yield(e) {
				return
			}
		}
	}
}
