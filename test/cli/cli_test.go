//go:build integration

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var regiond = flag.String("regiond", "", "the regiond binary")

const example = "../../region.example.yaml"

// run returns what a command printed and its exit status.
func run(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	c := exec.CommandContext(t.Context(), *regiond, args...)
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v (say which binary to test: -regiond=/path/to/regiond)", c, err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// commands are all that help shows, found by following it from the root, as "image build".
func commands(t *testing.T, path ...string) [][]string {
	t.Helper()
	out, stderr, status := run(t, append(slices.Clone(path), "--help")...)
	if status != 0 || stderr != "" || !strings.Contains(out, "Usage:\n") {
		t.Errorf("%v --help: status %d, stderr %q, stdout %q", path, status, stderr, out)
	}
	found := [][]string{path}
	_, list, _ := strings.Cut(out, "Available Commands:\n")
	for line := range strings.Lines(list) {
		name, _, ok := strings.Cut(strings.TrimPrefix(line, "  "), " ")
		if !strings.HasPrefix(line, "  ") || !ok {
			break
		}
		if name != "help" && name != "completion" {
			found = append(found, commands(t, append(slices.Clone(path), name)...)...)
		}
	}
	return found
}

func TestHelpAndWrongCommandLines(t *testing.T) {
	all := commands(t)
	if len(all) < 20 {
		t.Fatalf("help leads to %d commands only: %v", len(all), all)
	}
	for _, c := range all {
		name := strings.Join(append([]string{"regiond"}, c...), " ")
		if name == "regiond kubectl" {
			continue // its flags are kubectl's
		}
		out, stderr, status := run(t, append(slices.Clone(c), "--no-such-flag")...)
		if status != 3 || out != "" || stderr != "regiond: unknown flag: --no-such-flag; see: "+name+" --help\n" {
			t.Errorf("%s --no-such-flag: status %d, stdout %q, stderr %q", name, status, out, stderr)
		}
	}
}

// Everything that is wrong ends with a status that tells what kind of mistake it is
// (docs/operators-guide.md), one sentence on standard error, and nothing on standard output.
func TestMistakes(t *testing.T) {
	lab := write(t, "lab.yaml", "apiVersion: regiond.dev/v1alpha1\nkind: Lab\nspec: {machines: []}\n")
	nowhere, down := filepath.Join(t.TempDir(), "none"), dataDir(t, closedPort(t))
	const failed, invalid, unreachable, refused = 1, 3, 4, 6
	for _, c := range []struct {
		status int
		args   []string
		want   string
	}{
		{invalid, []string{"statsu"}, `regiond has no command "statsu"; did you mean status?`},
		{invalid, []string{"config", "veiw"}, `regiond config has no command "veiw"; did you mean view?`},
		{invalid, []string{"image", "x"}, `regiond image has no command "x"; see: regiond image --help`},
		{invalid, []string{"lab", "x"}, `regiond lab has no command "x"`},
		{invalid, []string{"validate", "region.yaml"}, `unexpected arguments for "regiond validate": region.yaml; usage: regiond validate [flags]`},
		{invalid, []string{"image", "remove"}, "an argument is missing; usage: regiond image remove VERSION..."},
		{invalid, []string{"lab", "power", "node1"}, "usage: regiond lab power MACHINE on|off|cycle|shutdown|status"},
		{invalid, []string{"validate", "-f", nowhere}, nowhere + ": no such file or directory; name it with -f"},
		{invalid, []string{"validate", "-f", t.TempDir()}, "is a directory"},
		{invalid, []string{"config", "view", "-f", nowhere}, "name it with -f"},
		{invalid, []string{"run", "-f", nowhere}, "name it with -f"},
		{invalid, []string{"run", "-f", example, "--log-level", "loud"}, "there are debug, info, warn and error"},
		{invalid, []string{"install", "-f", nowhere}, "name it with -f"},
		{invalid, []string{"preflight", "-f", nowhere}, "name it with -f"},
		{invalid, []string{"validate", "-o", "xml"}, `unknown output format "xml"; there are text and json`},
		{invalid, []string{"config", "view", "-o", "xml"}, "there are yaml and json"},
		{invalid, []string{"status", "-o", "xml"}, "there are table, json and yaml"},
		{invalid, []string{"preflight", "-o", "xml"}, "there are table, json and yaml"},
		{invalid, []string{"version", "-o", "xml"}, "there are text, json and yaml"},
		{invalid, []string{"image", "list", "-o", "xml"}, "there are text and json"},
		{invalid, []string{"image", "build", "-o", "xml"}, "there are text and json"},
		{invalid, []string{"image", "build", "--release", "woody"}, `--release "woody": release of Debian is not known; known: trixie`},
		{failed, []string{"image", "remove", "x", "--image-dir", nowhere}, "there is no image x"},
		{invalid, []string{"secret", "list"}, "an argument is missing; usage: regiond secret list CLUSTER"},
		{invalid, []string{"secret", "set", "lab", "x"}, "--from-file is missing"},
		{invalid, []string{"secret", "set", "lab", "x", "--from-file", nowhere}, nowhere + ": no such file or directory"},
		{unreachable, []string{"secret", "set", "lab", "x", "--from-file", example, "--data-dir", nowhere}, "starts a control plane"},
		{invalid, []string{"status", "-f", example, "--data-dir", "/x"}, "give one of them"},
		{unreachable, []string{"kubectl", "--data-dir", nowhere, "get", "nodes"}, "no control plane was started in " + nowhere},
		{invalid, []string{"kubectl", "--data-dir"}, "--data-dir needs a directory"},
		{refused, []string{"reset", "--yes", "--data-dir", "/"}, "/ is not a data directory of regiond"},
		{failed, []string{"lab", "status", "--root", nowhere}, "`regiond lab up --lab default` makes it"},
		{invalid, []string{"lab", "status", "--root", nowhere, "-o", "xml"}, "there are table and json"},
		{failed, []string{"lab", "exec", "--root", nowhere, "--", "true"}, "no lab"},
		{failed, []string{"lab", "console", "--root", nowhere, "node1"}, "no lab"},
		{invalid, []string{"lab", "up", "--root", nowhere, "--lab", "No_Name"}, `lab name "No_Name"`},
		{invalid, []string{"lab", "up", "--root", nowhere, "--config", lab}, "spec.machines: 0 machines"},
		{invalid, []string{"config", "render", "--target", "x", "-f", example}, `unknown target "x"; there are apply`},
		{invalid, []string{"image", "build", "--components", "--openstack", "x"}, `--openstack "x"`},
		{unreachable, []string{"server", "retire", "node1", "--data-dir", nowhere}, "regiond run or regiond install starts a control plane"},
		{unreachable, []string{"server", "retire", "node1", "--data-dir", down}, "connection refused"},
		{unreachable, []string{"openstack", "--data-dir", down, "--", "server", "list"}, "connection refused"},
		{failed, []string{"lab", "down", "--root", nowhere, "--lab", "../x"}, `lab name "../x"`},
	} {
		out, stderr, status := run(t, c.args...)
		if status != c.status || out != "" || !strings.HasPrefix(stderr, "regiond: ") || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, stdout %q, stderr %q; want status %d, %q", c.args, status, out, stderr, c.status, c.want)
		}
	}
	if _, err := os.Stat(nowhere); err == nil {
		t.Errorf("%s was made by a command that failed", nowhere)
	}
}

func TestStructuredOutput(t *testing.T) {
	bad := write(t, "bad.yaml", "apiVersion: regiond.dev/v1alpha1\nkind: Region\nmetadata: {name: r}\nspek: {}\n")
	nowhere := t.TempDir()
	for _, c := range []struct {
		args   []string
		status int
		key    string // that the document has; none in a list
	}{
		{[]string{"validate", "--offline", "-f", example, "-o", "json"}, 0, "problems"},
		{[]string{"validate", "--offline", "-f", bad, "-o", "json"}, 3, "problems"},
		{[]string{"config", "view", "-f", example, "-o", "json"}, 0, "spec"},
		{[]string{"config", "view", "-f", example}, 0, "spec"},
		{[]string{"config", "schema"}, 0, "properties"},
		{[]string{"preflight", "-f", example, "-o", "json"}, 1, ""},
		{[]string{"preflight", "-f", example, "-o", "yaml"}, 1, ""},
		{[]string{"install", "--check", "-f", example, "-o", "json"}, 1, ""},
		{[]string{"status", "--data-dir", nowhere, "-o", "json"}, 4, "controlPlane"},
		{[]string{"status", "--data-dir", nowhere, "-o", "yaml"}, 4, "controlPlane"},
		{[]string{"image", "list", "--image-dir", nowhere, "-o", "json"}, 0, ""},
		{[]string{"version", "-o", "json"}, 0, "kubernetes"},
		{[]string{"version", "-o", "yaml"}, 0, "kubernetes"},
	} {
		out, stderr, status := run(t, c.args...)
		var document any
		decode := json.Unmarshal
		if !slices.Contains(c.args, "json") && !slices.Contains(c.args, "schema") {
			decode = func(b []byte, v any) error { return yaml.Unmarshal(b, v) }
		}
		if err := decode([]byte(out), &document); err != nil || status != c.status {
			t.Errorf("%q: status %d, want %d; %v; stdout %q, stderr %q", c.args, status, c.status, err, out, stderr)
			continue
		}
		switch d := document.(type) {
		case map[string]any:
			if _, ok := d[c.key]; !ok {
				t.Errorf("%q has no %q: %s", c.args, c.key, out)
			}
		case []any:
			if c.key != "" {
				t.Errorf("%q is a list: %s", c.args, out)
			}
		default:
			t.Errorf("%q is not a document: %s", c.args, out)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, flag := range []string{"--version", "version"} {
		if out, stderr, status := run(t, flag); status != 0 || stderr != "" || !strings.HasPrefix(out, "regiond ") {
			t.Errorf("%s: status %d, stdout %q, stderr %q", flag, status, out, stderr)
		}
	}
}

// With a region file images are built where the file says, and everything else looks for them; a
// flag is stronger.
func TestImageFolderIsTheRegionFiles(t *testing.T) {
	b, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "region.yaml", strings.Replace(string(b), "# dir: /var/cache/regiond/images", "dir: /dev/null/images", 1))
	if _, stderr, status := run(t, "image", "build", "-f", file); status == 0 || !strings.Contains(stderr, "/dev/null:") {
		t.Errorf("status %d, %q", status, stderr)
	}
	if _, stderr, status := run(t, "image", "build", "-f", file, "--image-dir", "/dev/zero/images"); status == 0 || !strings.Contains(stderr, "/dev/zero:") {
		t.Errorf("status %d, %q", status, stderr)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, stderr, status := run(t, "completion", shell); status != 0 || stderr != "" || !strings.Contains(out, "regiond") {
			t.Errorf("completion %s: status %d, stderr %q", shell, status, stderr)
		}
	}
	script, _, _ := run(t, "completion", "bash")
	if out, err := exec.Command("bash", "-n", write(t, "completion.bash", script)).CombinedOutput(); err != nil {
		t.Errorf("bash does not read the completion: %v\n%s", err, out)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"val"}, "validate"},
		{[]string{"status", "-o", ""}, "table\njson\nyaml"},
		{[]string{"lab", "power", "node1", ""}, "cycle\noff\non\nshutdown\nstatus"},
	} {
		if out, _, status := run(t, append([]string{"__complete"}, c.args...)...); status != 0 || !strings.HasPrefix(out, c.want) {
			t.Errorf("completing %q: status %d, %q", c.args, status, out)
		}
	}
}

// --watch goes on until it is interrupted, which is not a failure.
func TestWatch(t *testing.T) {
	c := exec.CommandContext(t.Context(), *regiond, "status", "--watch", "-o", "json", "--data-dir", t.TempDir())
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.NewDecoder(out).Decode(&document); err != nil || document["ready"] != false {
		t.Errorf("%v, %v", document, err)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}
