package installer

import (
	"fmt"
	"regexp"
	"strings"
)

// checkArguments refuses kernel arguments that would break out of their line.
func checkArguments(arguments []string) error {
	for _, a := range arguments {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("kernel argument %q is empty or has control characters", a)
		}
	}
	return nil
}

// addToEntry appends kernel arguments to a Boot Loader Specification Type #1 entry of systemd-boot. The
// kernel gets the text of the options line as it is.
func addToEntry(entry string, arguments []string) (string, error) {
	return addToLines(entry, optionsLine, "options", strings.Join(arguments, " "))
}

// addToGRUB appends kernel arguments to the linux commands of a grub.cfg, quoted as GRUB's shell wants it.
func addToGRUB(config string, arguments []string) (string, error) {
	quoted := make([]string, len(arguments))
	for i, a := range arguments {
		quoted[i] = quoteGRUB(a)
	}
	return addToLines(config, linuxLine, "linux", strings.Join(quoted, " "))
}

var (
	optionsLine = regexp.MustCompile(`^\s*options\s`)
	// The image's grub.cfg looks at whether the kernel could be loaded.
	linuxLine = regexp.MustCompile(`^\s*(if\s+)?linux\s`)
)

// addToLines appends text to all lines that match. A file without such a line is not what it was taken for.
func addToLines(file string, wanted *regexp.Regexp, keyword, text string) (string, error) {
	lines := strings.Split(file, "\n")
	found := false
	for i, line := range lines {
		if wanted.MatchString(line) {
			found = true
			lines[i] = strings.TrimRight(line, " \t\r") + " " + text
		}
	}
	if !found {
		return "", fmt.Errorf("there is no %q line to add kernel arguments to", keyword)
	}
	return strings.Join(lines, "\n"), nil
}

var plainForGRUB = regexp.MustCompile(`^[A-Za-z0-9_.,:=/@+%-]+$`)

// quoteGRUB puts into single quotes what has a meaning to GRUB's shell (GRUB manual, "Quoting").
func quoteGRUB(s string) string {
	if plainForGRUB.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
