package configgen

import (
	"strings"
	"testing"
)

// refersToLDAP sets an option of nova.conf to the operator's own secret.
const refersToLDAP = `{"nova": {"conf": {"DEFAULT": {"default_flavor": {"secret": "ldap-password"}}}}}`

func withOwnSecret(values, overrides, secret string) Cluster {
	c := testCluster(values, overrides)
	c.Secrets[OwnSecrets] = map[string]any{"ldap-password": secret}
	return c
}

// An operator's own secret reaches every target as set, whatever characters it has, and is never
// shown.
func TestOwnSecrets(t *testing.T) {
	s := mustSource(t, nil)
	const secret = `p$my_ip $$host{{ "x" }}\n 'q`
	c := withOwnSecret(refersToLDAP, "", secret)
	want := applied(t, s, c, []Node{node1})
	for _, file := range []string{"nova/etc/nova/nova.conf", "node1/etc/nova/nova.conf"} {
		var line string
		for l := range strings.Lines(want[file]) {
			if name, value, _ := strings.Cut(l, " = "); name == "default_flavor" {
				line = strings.TrimSuffix(value, "\n")
			}
		}
		if got := osloTemplate(line, map[string]string{"my_ip": "10.0.0.1", "host": "x"}); got != secret {
			t.Errorf("%s: oslo.config reads %q of %q, want %q", file, got, line, secret)
		}
	}
	got := map[string]string{}
	err := s.ExternalSecrets(c, []Node{node1}, func(o Output) error {
		if strings.Contains(string(o.Content), secret) {
			t.Errorf("%s shows the secret", o.Name)
		}
		external(t, c.Secrets, strings.TrimSuffix(o.Name, ".yaml"), o.Content, got)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{"config-nova/etc.nova.nova.conf": "nova/etc/nova/nova.conf", "config-compute-node1/etc.nova.nova.conf": "node1/etc/nova/nova.conf"} {
		if got[file] != want[content] {
			t.Errorf("External Secrets renders %s to\n%s\nwant\n%s", file, got[file], want[content])
		}
	}
	e, err := s.Explain(mustValues(t, s, c), "nova", "nova.conf", "DEFAULT.default_flavor")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := e.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	mustSay(t, b.String(), "nova.conf.DEFAULT.default_flavor = a secret")

	c.Secrets = nil // unknown secrets are shown by name
	files, _, err := s.Render(mustValues(t, s, c), "nova")
	if err != nil {
		t.Fatal(err)
	}
	mustSay(t, files[1].Content, "default_flavor = <secret:own.ldap-password>")
}

func TestOwnSecretsThatAreRefused(t *testing.T) {
	s := mustSource(t, nil)
	unset := testCluster(refersToLDAP, "")
	onNode := withOwnSecret("", "", "x")
	onNode.Declaration.Nodes = append(onNode.Declaration.Nodes, own("node1", refersToLDAP, ""))
	for name, tc := range map[string]struct {
		c    Cluster
		want string
	}{
		"not set": {unset, "spec.openstack.clusters[0].values.nova.conf.DEFAULT.default_flavor (region.yaml:66): refers to the secret ldap-password, " +
			"which is not set; set it with: regiond secret set lab ldap-password --from-file FILE"},
		"no name":      {testCluster(strings.ReplaceAll(refersToLDAP, `"ldap-password"`, "1"), ""), "refers to a secret by 1, which is not a name"},
		"a path":       {testCluster(strings.ReplaceAll(refersToLDAP, "ldap-password", "x.y"), ""), `refers to a secret by "x.y", which is not a name`},
		"of a node":    {onNode, "refers to a secret; only values and overrides of the cluster can"},
		"a line break": {withOwnSecret(refersToLDAP, "", "S3CRET\nhost = x"), "the secret ldap-password has a line break"},
		"regiond's option": {withOwnSecret(`{"nova": {"conf": {"database": {"connection": {"secret": "ldap-password"}}}}}`, "", "S3CRET"),
			"regiond sets this option itself"},
	} {
		t.Run(name, func(t *testing.T) {
			v, _, err := s.Values(tc.c)
			if err == nil {
				_, _, err = s.NodeValues(v, node1)
			}
			if err == nil {
				t.Fatal("no error")
			}
			mustSay(t, err.Error(), tc.want)
			if strings.Contains(err.Error(), "S3CRET") {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

func TestCheckOwnSecret(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"ldap-password", `p$my_ip "q`, ""},
		{"LDAP", "x", "is not the name of a secret"},
		{"a.b", "x", "is not the name of a secret"},
		{"", "x", "is not the name of a secret"},
		{"a", "", "is empty"},
		{"a", "S3CRET\n", "line break"},
		{"a", " S3CRET", "white space"},
		{"a", `"S3CRET"`, "quotes"},
		{"a", `S3CRET\$x`, "backslash"},
	} {
		err := CheckOwnSecret(tc.name, tc.value)
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "S3CRET")) {
			t.Errorf("CheckOwnSecret(%q, %q): got %v, want %q", tc.name, tc.value, err, tc.want)
		}
	}
}
