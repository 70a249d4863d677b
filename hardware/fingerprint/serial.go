package fingerprint

import (
	"slices"
	"strings"
)

// Serial brings a serial number into a form that can be compared, or returns "" for one that
// identifies nothing.
func Serial(s string) string {
	s = strings.Join(strings.Fields(strings.ToLower(s)), " ")
	if s == "" || isPlaceholder(s) {
		return ""
	}
	return s
}

// words that stand where a serial number should, without punctuation and blanks. Seen by GLPI (its
// table of blacklists), ChromeOS Flex (client_id), and in reports to netbox-agent, xCAT and others.
var words = []string{
	"absent", "asset", "blank", "chassisserial", "default", "empty", "error", "eval", "example", "field", "filler", "iatpass",
	"invalid", "na", "nil", "no", "noasset", "none", "nonumber", "noserial", "null", "nullstring", "oem", "oemserial", "placeholder", "sample", "serial", "sn",
	"snr", "standard", "systemserial", "systemserialnumb", "tba", "tbc", "tbd", "test", "todo", "tulipcomputers", "undefined",
	"unknow", "unknown", "unset", "unspecified", "void", "123456fvgv3i0b8o5n6n7k",
}

// beginnings of sentences that stand there: 'To Be Filled By O.E.M.', 'Default string', 'Not Specified'.
var beginnings = []string{"tobefilled", "filledby", "pleasefill", "default", "notapplicable", "notavailable", "notpresent",
	"notprovided", "notset", "notspecified", "notsupported", "nottobe", "unspecified"}

// labels that firmware puts before a number: SN-1234567890, SYS-9876543210, SSN12345678901234567.
var labels = []string{"systemserialnumber", "serialnumber", "serial", "ssn", "bsn", "csn", "sys", "sn", "mb", "nb", "eeepc"}

// isPlaceholder judges the letters and digits of s alone: 'Default_string' and 'TO BE FILLED BY O.E.M' are
// meant too, and so is what has neither letter nor digit.
func isPlaceholder(s string) bool {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, s)
	if s == "not" || slices.Contains(words, s) || uniform(s) || ascends(s) || strings.Trim(s, "01") == "" {
		return true
	}
	for _, b := range beginnings {
		if strings.HasPrefix(s, b) {
			return true
		}
	}
	digits := strings.ContainsAny(s, "0123456789")
	if !digits && (strings.Contains(s, "serialnum") || strings.Contains(s, "byoem")) {
		return true // 'Base Board Serial Number', 'Serial Number xxxxxx'
	}
	for _, l := range labels {
		// Short numbers behind a label may be real: SN12.
		if rest, ok := strings.CutPrefix(s, l); ok {
			return slices.Contains(words, rest) || len(rest) >= 5 && (uniform(rest) || ascends(rest))
		}
	}
	return false
}

// uniform: one letter or digit over and over, or none.
func uniform(s string) bool { return s == "" || strings.Trim(s, s[:1]) == "" }

// ascends: each letter or digit follows on the one before, up or down: 0123456789ABCDEF, 12345, 9876543210,
// 12345678901234567. Zeros may fill it up: 123456789000.
func ascends(s string) bool {
	if full := strings.TrimRight(s, "0"); strings.HasSuffix(full, "9") {
		s = full
	}
	if len(s) < 3 {
		return false
	}
	up, down := true, true
	for i := 1; i < len(s); i++ {
		up = up && follows(s[i-1], s[i])
		down = down && follows(s[i], s[i-1])
	}
	return up || down
}

// follows says whether b comes after a, where 0 and a come after 9, and 0 after f.
func follows(a, b byte) bool {
	return b == a+1 || a == '9' && (b == '0' || b == 'a') || a == 'f' && b == '0'
}
