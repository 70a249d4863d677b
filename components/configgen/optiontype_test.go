package configgen

import (
	"encoding/json"
	"testing"
)

func TestWhatOptionsTake(t *testing.T) {
	for kind, tc := range map[string]struct {
		takes     string
		good, bad []string
	}{
		`{"type":"boolean"}`:                                  {"true or false", []string{"true", "No", "1", "off"}, []string{"maybe", "", "2"}},
		`{"type":"integer","min":1}`:                          {"an integer of at least 1", []string{"1", " 7 ", "+3"}, []string{"0", "-1", "4G", "1.5", "ten"}},
		`{"type":"integer","min":0,"max":65535}`:              {"an integer of 0 to 65535", []string{"0", "65535"}, []string{"65536"}},
		`{"type":"integer","choices":[4,6]}`:                  {"one of 4, 6", []string{"4"}, []string{"5"}},
		`{"type":"float","min":0}`:                            {"a number of at least 0", []string{"0.4", "1e3"}, []string{"lots", "1e400", "nan", "inf", "-0.1"}},
		`{"type":"string","choices":["kvm","qemu"]}`:          {`one of "kvm", "qemu"`, []string{"kvm"}, []string{"vmx", "KVM", ""}},
		`{"type":"string","choices":["A"],"ignoreCase":true}`: {`one of "A"`, []string{"a"}, []string{"b"}},
		`{"type":"string","maxLength":3}`:                     {"at most 3 characters", []string{"äöü"}, []string{"abcd"}},
		`{"type":"list"}`:                                     {"a list, items separated by commas", []string{"", "a,b"}, nil},
		`{"type":"list","items":{"type":"integer"}}`:          {"a list, each item an integer", []string{"", "1, 2,", "1"}, []string{"1,x", "x"}},
		`{"type":"list","bounds":true}`:                       {"a list, items separated by commas", []string{"[]", "[a,b]"}, []string{"a,b"}},
		`{"type":"list","items":{"type":"dict"}}`:             {"a list, each item NAME:VALUE pairs, separated by commas", []string{"a:1,b:2"}, []string{"a"}},
		`{"type":"dict"}`:                                     {"NAME:VALUE pairs, separated by commas", []string{"", "a:1,b:2"}, []string{"a"}},
		`{"type":"range"}`:                                    {"a range of integers, FIRST-LAST", []string{"1-4", "7"}, []string{"x"}},
		`{"type":"address"}`:                                  {"an IP address", []string{"10.0.0.1", "::1"}, []string{"10.0.0.256", "host"}},
		`{"type":"host"}`:                                     {"a host name or an IP address", []string{"a.example", "::1", "my_host"}, []string{"-a", "a b"}},
		`{"type":"uri","schemes":["http","https"]}`:           {"a URL with the scheme http or https", []string{"https://a/b"}, []string{"ftp://a", "a"}},
		`{"type":"any"}`:                                      {"a text", []string{"", "x"}, nil},
		`{"type":"string","multi":true}`:                      {"a text", []string{"x"}, nil},
	} {
		var o optionType
		if err := json.Unmarshal([]byte(kind), &o); err != nil {
			t.Fatal(err)
		}
		if got := o.takes(); got != tc.takes {
			t.Errorf("%s: got %q as accepted, want %q", kind, got, tc.takes)
		}
		for _, text := range tc.good {
			if !o.fits(text) {
				t.Errorf("%s: %q is refused, want it accepted", kind, text)
			}
		}
		for _, text := range tc.bad {
			if o.fits(text) {
				t.Errorf("%s: %q is accepted, want it refused", kind, text)
			}
		}
	}
}

// The option data of regiond's releases have types, and only type names that the checks know.
func TestTypesOfTheCarriedReleases(t *testing.T) {
	all, err := loadOptions()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"string": true, "boolean": true, "integer": true, "float": true, "list": true, "dict": true, "range": true,
		"address": true, "host": true, "uri": true, "any": true}
	for release, projects := range all {
		for _, want := range []struct {
			project, section, option string
			takes                    string
			multi                    bool
		}{
			{"nova", "DEFAULT", "max_concurrent_builds", "an integer of at least 0", false},
			{"nova", "filter_scheduler", "enabled_filters", "a list, items separated by commas", false},
			{"nova", "pci", "alias", "a text", true},
			{"neutron", "DEFAULT", "debug", "true or false", false},
			{"glance", "DEFAULT", "image_size_cap", "an integer of 1 to 9223372036854775808", false},
		} {
			kind := projects[want.project][want.section].Types[want.option]
			if got := kind.takes(); got != want.takes || kind.Multi != want.multi {
				t.Errorf("%s, %s [%s] %s takes %s, several %v, want %s, %v", release, want.project, want.section, want.option, got, kind.Multi,
					want.takes, want.multi)
			}
		}
		for project, sections := range projects {
			for section, data := range sections {
				for option, kind := range data.Types {
					if !known[kind.Type] || kind.Items != nil && !known[kind.Items.Type] || !data.has(option) {
						t.Errorf("%s, %s [%s] %s: %+v", release, project, section, option, kind)
					}
				}
			}
		}
	}
}
