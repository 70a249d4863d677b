package house

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"regiond.dev/regiond/status/monitoring"
)

var (
	shown = regexp.MustCompile("(?:^    (?:sudo |bin/)?|`|^# |exec -- |\\(|&& )regiond ([a-z][^`|>&)]*)")
	// alertCommands are what an alert says to run.
	alertCommands = regexp.MustCompile(`(?m)^ +commands: (.*)$`)

	word    = regexp.MustCompile(`^[a-z]+$`)
	passing = map[string]bool{"kubectl": true, "openstack": true, "exec": true} // the rest is for another program
)

// commandLine returns the names of regiond's commands and flags, as its source declares them.
func commandLine(t *testing.T) (commands, flags map[string]bool) {
	t.Helper()
	commands, flags = map[string]bool{}, map[string]bool{"--help": true, "-h": true, "--version": true}
	sources(t, func(name string, _ *token.FileSet, file *ast.File) {
		if !strings.HasPrefix(name, filepath.Join("cmd", "regiond")+string(filepath.Separator)) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Use" {
					use, _, _ := strings.Cut(literal(n.Value), " ")
					commands[use] = true
				}
			case *ast.CallExpr:
				flagsOf(n, flags)
			}
			return true
		})
	})
	return commands, flags
}

// flagsOf adds what a call like cmd.Flags().StringVarP(&file, "file", "f", …) declares.
func flagsOf(call *ast.CallExpr, flags map[string]bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	of, ok := method.X.(*ast.CallExpr)
	if !ok {
		return
	}
	set, ok := of.Fun.(*ast.SelectorExpr)
	if !ok || set.Sel.Name != "Flags" && set.Sel.Name != "PersistentFlags" || !strings.Contains(method.Sel.Name, "Var") || len(call.Args) < 3 {
		return
	}
	flags["--"+literal(call.Args[1])] = true
	if strings.HasSuffix(method.Sel.Name, "P") {
		flags["-"+literal(call.Args[2])] = true
	}
}

func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		if s, err := strconv.Unquote(l.Value); err == nil {
			return s
		}
	}
	return ""
}

// Commands and flags that the README and the guides show are there.
func TestDocumentsShowCommandsThatExist(t *testing.T) {
	commands, flags := commandLine(t)
	documents, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, document := range append(documents, filepath.Join(root, "README.md")) {
		if strings.HasSuffix(document, "faults.md") {
			continue // it tells what was
		}
		b, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(b), "\n") {
			for _, m := range shown.FindAllStringSubmatch(line, -1) {
				found++
				text, _, _ := strings.Cut(m[1], " #")
				for _, unknown := range strangeWords(strings.Fields(text), commands, flags) {
					t.Errorf("%s:%d: regiond has no %s: %s", document, i+1, unknown, strings.TrimSpace(m[0]))
				}
			}
		}
	}
	alerts := 0
	for _, m := range alertCommands.FindAllStringSubmatch(monitoring.Alerts, -1) {
		for line := range strings.SplitSeq(m[1], ";") {
			line, _, _ = strings.Cut(line, "|")
			text, ours := strings.CutPrefix(strings.TrimSpace(line), "regiond ")
			if !ours {
				continue
			}
			alerts++
			for _, unknown := range strangeWords(strings.Fields(text), commands, flags) {
				t.Errorf("status/monitoring/alerts.yaml: regiond has no %s: regiond %s", unknown, text)
			}
		}
	}
	if alerts < 14 {
		t.Errorf("got %d commands of regiond in alerts, want at least 14", alerts)
	}
	if found < 40 || len(commands) < 30 || len(flags) < 40 {
		t.Errorf("%d shown, %d commands and %d flags were found only", found, len(commands), len(flags))
	}
}

// strangeWords are the commands, up to the first argument, and the flags that regiond does not
// have.
func strangeWords(words []string, commands, flags map[string]bool) (strange []string) {
	arguments := false
	for i, w := range words {
		w = strings.TrimRight(w, ",.;:")
		flag, _, _ := strings.Cut(w, "=")
		switch {
		case flag == "--":
			return strange
		case strings.HasPrefix(flag, "-"):
			arguments = true
			if !flags[flag] {
				strange = append(strange, flag)
			}
		case !arguments && (i == 0 || word.MatchString(w)):
			if !commands[w] {
				strange = append(strange, w)
			}
			if passing[w] {
				return strange
			}
		default:
			arguments = true
		}
	}
	return strange
}

// A flag of one letter means the same in every command: -f the region file, -o the format.
func TestShortFlagsMeanOneThing(t *testing.T) {
	names := map[string]string{}
	sources(t, func(name string, set *token.FileSet, file *ast.File) {
		if !strings.HasPrefix(name, filepath.Join("cmd", "regiond")+string(filepath.Separator)) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 5 {
				return true
			}
			if m, ok := call.Fun.(*ast.SelectorExpr); !ok || !strings.HasSuffix(m.Sel.Name, "VarP") {
				return true
			}
			long, short, usage := literal(call.Args[1]), literal(call.Args[2]), literal(call.Args[4])
			if was := names[short]; was != "" && was != long {
				t.Errorf("%s: -%s is --%s, and --%s elsewhere", set.Position(call.Pos()), short, long, was)
			}
			names[short] = long
			begins := map[string]string{"f": "region file", "o": "format"}[short]
			if !strings.HasPrefix(usage, begins) && usage != "lab.yaml" { // deprecated
				t.Errorf("%s: -%s says %q, want %q first", set.Position(call.Pos()), short, usage, begins)
			}
			return true
		})
	})
	if names["f"] != "file" || names["o"] != "output" {
		t.Errorf("got flags %v, want -f for file and -o for output among them", names)
	}
}

// The guide and the help explain each status that a command can end with.
func TestStatusesAreDocumented(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(root, "cmd/regiond/exit.go"))
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile(filepath.Join(root, "docs/operators-guide.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, help, _ := strings.Cut(string(source), "const exitHelp = `")
	help, _, _ = strings.Cut(help, "`")
	statuses := regexp.MustCompile(`(?m)^\texit\w+ += (\d)`).FindAllStringSubmatch(string(source), -1)
	if len(statuses) < 6 {
		t.Errorf("got %d statuses in cmd/regiond/exit.go, want at least 6", len(statuses))
	}
	for _, s := range statuses {
		if !strings.Contains(string(guide), "\n| "+s[1]+" | ") {
			t.Errorf("docs/operators-guide.md has no row for status %s", s[1])
		}
		if !regexp.MustCompile(`[ \n]` + s[1] + ` [a-z]`).MatchString(help) {
			t.Errorf("the help does not explain status %s: %s", s[1], help)
		}
	}
}
