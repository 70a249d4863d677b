package bootloader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"regiond.dev/regiond/machine/atomicfile"
)

// ESPArgument is followed by the unique GUID of the EFI system partition, in upper case, on the
// kernel's command line: it tells the initrd which disk the system was booted from where the boot
// loader does not, as GRUB on a BIOS.
const ESPArgument = "regiond.esp="

// CheckArguments refuses kernel arguments that would break out of their line.
func CheckArguments(arguments []string) error {
	for _, a := range arguments {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("kernel argument %q is empty or has control characters", a)
		}
	}
	return nil
}

// entryPattern is where the entries of systemd-boot lie on the ESP.
const entryPattern = "loader/entries/*.conf"

// AddArguments adds kernel arguments to every boot entry on the ESP that is mounted at dir.
func AddArguments(dir string, arguments []string) error {
	if len(arguments) == 0 {
		return nil
	}
	entries, err := filepath.Glob(filepath.Join(dir, entryPattern))
	if err != nil {
		return fmt.Errorf("add kernel arguments: %w", err)
	}
	if len(entries) == 0 {
		return fmt.Errorf("add kernel arguments: the image's ESP has no boot entry %s", entryPattern)
	}
	for _, path := range entries {
		if err := rewrite(path, arguments, addToEntry); err != nil {
			return err
		}
	}
	// Images for UEFI only have no GRUB.
	if err := rewrite(filepath.Join(dir, grubFile), arguments, addToGRUB); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func rewrite(path string, arguments []string, add func(string, []string) (string, error)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("add kernel arguments: %w", err)
	}
	changed, err := add(string(text), arguments)
	if err == nil {
		err = atomicfile.Write(path, []byte(changed), 0o644)
	}
	if err != nil {
		return fmt.Errorf("add kernel arguments to %s: %w", path, err)
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
