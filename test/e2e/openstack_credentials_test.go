//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// brokerAccess tries with the host's own credentials for the broker what is in its arguments, each
// on a connection of its own, since a refusal ends it: "get QUEUE", or "bind KEY" of its own queue
// to the exchange. It prints what became of each.
const brokerAccess = `
import re, sys, amqp
host, tries = sys.argv[1], sys.argv[2:]
url = re.search(r"(?m)^transport_url = rabbit://([^:]+):([^@]+)@([^/]+)/(.+)$", open("/etc/nova/nova.conf").read()).groups()
for what in tries:
    verb, name = what.split()
    with amqp.Connection(host=url[2], userid=url[0], password=url[1], virtual_host=url[3]) as c:
        try:
            ch = c.channel()
            ch.basic_get(name) if verb == "get" else ch.queue_bind("compute." + host, "nova", name)
            print(what + ": allowed")
        except amqp.exceptions.AccessRefused:
            print(what + ": refused")
`

// hostCredentials does with what is on a host what someone would do who has broken into it.
func hostCredentials(l *Lab, host, other, vm string) {
	conf := l.Run("lab", "exec", "--lab", l.name, "--node", host, "--", "cat", "/etc/nova/nova.conf")
	user := regexp.MustCompile(`(?m)^\[placement\]\n(?:.+\n)*?username = (.+)\npassword = (.+)$`).FindStringSubmatch(conf)
	if user == nil || user[1] != "compute-"+host {
		l.Fatalf("got %q, want a user of the host's own in [placement]", user)
	}
	guest := ""
	for _, s := range l.OpenStack("server", "list", "--all-projects") {
		if s["Name"] == vm {
			guest = fmt.Sprint(s["ID"])
		}
	}
	if guest == "" {
		l.Fatalf("no guest %s", vm)
	}
	as := func(args ...string) (string, error) {
		c := l.command(append([]string{"lab", "exec", "--lab", l.name, "--", "regiond", "openstack", "--", "--os-username", user[1], "--os-password", user[2],
			"--os-project-name", "service"}, args...)...)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := as("token", "issue"); err != nil {
		l.Fatalf("the host's user can't log in: %v\n%s", err, out)
	}
	for _, refused := range [][]string{{"user", "list"}, {"server", "delete", guest}, {"server", "list", "--all-projects"}, {"image", "create", "--public", "x"}} {
		out, err := as(refused...)
		if _, ended := err.(*exec.ExitError); !ended {
			l.Errorf("as %s, %v: got %v, want it refused\n%s", user[1], refused, err, out)
		}
	}
	for try, want := range map[string]string{"get compute." + host: "allowed", "bind compute." + host: "allowed", "get compute." + other: "refused",
		"get conductor": "refused", "bind compute." + other: "refused", "bind #": "refused"} {
		out := l.Run("lab", "exec", "--lab", l.name, "--node", host, "--", "python3", "-c", brokerAccess, host, try)
		if strings.TrimSpace(out) != try+": "+want {
			l.Errorf("broker: got %q, want %s: %s", out, try, want)
		}
	}
	if _, err := as("token", "issue"); err != nil {
		l.Errorf("the host's user can't log in any more: %v", err)
	}
	l.VM("ping", vm, "vm2")
}
