package check

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"regiond.dev/regiond/region"
)

// Validate applies all rules, those of the schema included, to a region that was not read from a
// file. The problems have no positions.
func Validate(r *region.Region) error {
	text, err := region.ViewYAML(r)
	if err != nil {
		return err
	}
	_, err = Load(text, "")
	var problems Problems
	if !errors.As(err, &problems) {
		return err
	}
	for i := range problems {
		problems[i].Line, problems[i].Column = 0, 0
	}
	return problems
}

// validate applies the rules that the schema cannot say. Rules skip empty values: whether a value
// must be given is the schema's business, except where said otherwise.
func validate(written *region.Region, index positions, file string) Problems {
	v := &validator{file: file, index: index}
	r := written.DeepCopy()
	region.Default(r)
	v.label("metadata.name", r.Name)
	v.networks(written, r)
	v.directory("spec.controlPlane.dataDir", r.Spec.ControlPlane.DataDir)
	v.directory("spec.images.dir", r.Spec.Images.Dir)
	v.hardware(r)
	v.openstack(written, r)
	v.backup(r)
	return v.problems
}

// validator collects problems.
type validator struct {
	file     string
	index    positions
	problems Problems
	// seeds are the seed host's own addresses.
	seeds namedAddresses
	// provisioning network, invalid when it is wrong.
	provisioning netip.Prefix
	// static addresses that DHCP must not lease.
	static namedAddresses
}

// namedAddress is an address and the field that gives it.
type namedAddress struct {
	path    string
	address netip.Addr
}

// namedAddresses holds each address once, with the first field that gives it.
type namedAddresses struct {
	list []namedAddress
	seen map[netip.Addr]string
}

func (n *namedAddresses) add(path string, a netip.Addr) {
	if n.seen == nil {
		n.seen = map[netip.Addr]string{}
	}
	if _, found := n.seen[a]; !found {
		n.seen[a] = path
		n.list = append(n.list, namedAddress{path, a})
	}
}

// bad reports a value: `"value" message; suggestion`.
func (v *validator) bad(path, value, message, suggestion string) {
	at := v.index.at(path)
	v.problems = append(v.problems, Problem{
		File: v.file, Line: at.line, Column: at.column,
		Field: path, Value: shorten(value), Message: quote(value) + " " + message, Suggestion: suggestion,
	}.spelt())
}

// missing reports a field that the schema does not require but the rest of the region does.
func (v *validator) missing(path, why, suggestion string) {
	at := v.index.at(path)
	v.problems = append(v.problems, Problem{
		File: v.file, Line: at.line, Column: at.column,
		Field: path, Message: "required field is missing: " + why, Suggestion: suggestion,
	})
}

// where names another field in a message.
func (v *validator) where(path string) string {
	if v.file == "" || !v.index.written(path) {
		return path
	}
	return fmt.Sprintf("%s (line %d)", path, v.index.at(path).line)
}

// meant is a "did you mean", or the other suggestion when there is no guess.
func meant(guess, otherwise string) string {
	if guess == "" {
		return otherwise
	}
	return "did you mean " + quote(guess) + "?"
}

// label checks a name that becomes a host name, the name of a Kubernetes object, or part of one.
func (v *validator) label(path, name string) {
	if name == "" {
		return
	}
	if errs := validation.IsDNS1123Label(name); len(errs) == 0 {
		return
	}
	guess := strings.Trim(strings.Map(func(c rune) rune {
		if c == '_' || c == '.' || c == ' ' {
			return '-'
		}
		return c
	}, strings.ToLower(name)), "-")
	if len(validation.IsDNS1123Label(guess)) > 0 {
		guess = ""
	}
	v.bad(path, name, "is not a DNS label (RFC 1123)", meant(guess, "use at most 63 of a-z, 0-9 and '-', which begin and end with a letter or digit"))
}

// uniqueNames reports names that are given twice and references to names that are not given.
type uniqueNames struct {
	v     *validator
	noun  string
	paths map[string]string
	names []string
	// unclear says that some item has no name, so that a missing reference proves nothing.
	unclear bool
}

func (v *validator) uniqueNames(noun string) *uniqueNames {
	return &uniqueNames{v: v, noun: noun, paths: map[string]string{}}
}

func (u *uniqueNames) add(path, name string) {
	if name == "" {
		u.unclear = true
		return
	}
	if first, found := u.paths[name]; found {
		u.v.bad(path, name, fmt.Sprintf("is already the name of the %s %s", u.noun, u.v.where(first)), "give each "+u.noun+" its own name")
		return
	}
	u.paths[name] = path
	u.names = append(u.names, name)
}

// refer reports a reference to a name that no item has.
func (u *uniqueNames) refer(path, name, list string) {
	if name == "" || u.unclear || u.paths[name] != "" {
		return
	}
	u.v.bad(path, name, fmt.Sprintf("is not the name of any %s in %s", u.noun, list),
		orElse(didYouMean(name, u.names, u.noun), "add one there"))
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// directory checks where regiond keeps files. `regiond reset` removes what is in them, so that
// the directories of the system itself are refused.
func (v *validator) directory(field, dir string) {
	clean := path.Clean(dir)
	switch clean {
	case "/", "/bin", "/boot", "/dev", "/efi", "/etc", "/home", "/lib", "/media", "/mnt", "/opt", "/proc", "/root", "/run",
		"/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/lib", "/usr/local", "/var", "/var/cache", "/var/lib", "/var/log", "/var/tmp":
		v.bad(field, dir, "is a directory of the system, which regiond would share with others", "did you mean "+quote(path.Join(clean, "regiond"))+"?")
	default:
		v.absolute(field, dir)
	}
}

// absolute checks a path on the seed host.
func (v *validator) absolute(field, file string) bool {
	if file == "" {
		return false
	}
	clean := path.Clean(file)
	switch {
	case strings.ContainsFunc(file, func(c rune) bool { return c < ' ' || c == 0x7f }):
		v.bad(field, file, "has control characters", "use a plain path")
	case !path.IsAbs(file):
		v.bad(field, file, "is not an absolute path", "begin it with '/'; it is a path on the seed host")
	case clean != file:
		v.bad(field, file, "is not a clean path", "did you mean "+quote(clean)+"?")
	default:
		return true
	}
	return false
}

const leaseTimePath = "spec.networks.provisioning.dhcp.leaseTime"

// leaseForm is the pattern in the schema: what Go writes for a duration of whole seconds.
var leaseForm = regexp.MustCompile(`^([0-9]+h)?([0-9]+m)?([0-9]+s)?$`)

// checkDuration checks a lease time before it is decoded.
func checkDuration(s string) Problem {
	p := Problem{Value: shorten(s)}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		p.Message, p.Suggestion = quote(s)+" is not a duration", "write hours, minutes and seconds, e.g. 1h30m"
	case d < 2*time.Minute:
		p.Message, p.Suggestion = quote(s)+" is less than 2m", "clients renew at half of it, while an installer may be busy; write 2m or more"
	case !leaseForm.MatchString(s):
		p.Message, p.Suggestion = quote(s)+" is not in whole hours, minutes and seconds", meant(d.Round(time.Second).String(), "")
	case d/time.Second >= 1<<32-1:
		p.Message, p.Suggestion = quote(s)+" does not fit the 32 bits of DHCP's lease time (RFC 2132 section 9.2)", "write less"
	}
	return p
}
