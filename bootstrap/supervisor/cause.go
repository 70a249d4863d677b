package supervisor

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// longestCause is the maximum length of a cause in bytes: it is shown in one line of status.
const longestCause = 300

// cause returns the line among a program's last lines that says why it exited: the first line of a
// panic, which its stack follows; else the last message of a fatal error; else the last line.
func cause(lines []string) string {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return l == "" })
	if len(lines) == 0 {
		return ""
	}
	for _, l := range lines {
		// Messages of the Go runtime (runtime.printpanics, runtime.throw).
		if strings.HasPrefix(l, "panic: ") || strings.HasPrefix(l, "fatal error: ") || strings.HasPrefix(l, "unexpected fault address") {
			return clip(l)
		}
	}
	for _, l := range slices.Backward(lines) {
		if text := fatal(l); text != "" {
			return clip(text)
		}
	}
	return clip(readable(lines[len(lines)-1]))
}

// Formats of messages: containerd's (text of logrus) and klog's, whose header is level, date, time,
// thread and file (k8s.io/klog, formatHeader).
var (
	logrusError = regexp.MustCompile(`\berror=("(?:[^"\\]|\\.)*"|\S+)`)
	logrusText  = regexp.MustCompile(`\bmsg=("(?:[^"\\]|\\.)*"|\S+)`)
	klogFatal   = regexp.MustCompile(`^[FE]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^\]]*\] (.*)$`)
)

// fatal returns the text of a fatal message, empty for other lines.
func fatal(line string) string {
	switch {
	case strings.HasPrefix(line, "{"):
		if level, text := jsonEntry(line); level == "fatal" || level == "panic" {
			return text
		}
	case strings.Contains(line, "level=fatal"):
		return readable(line)
	case strings.HasPrefix(line, "F"):
		if m := klogFatal.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	case strings.HasPrefix(line, "Error: "), strings.HasPrefix(line, "error: "), strings.HasPrefix(line, "containerd: "):
		return line
	}
	return ""
}

// readable extracts the message from a line in one of the known formats.
func readable(line string) string {
	if strings.HasPrefix(line, "{") {
		if _, text := jsonEntry(line); text != "" {
			return text
		}
	}
	if m := logrusText.FindStringSubmatch(line); m != nil && strings.Contains(line, "level=") {
		text := unquote(m[1])
		if e := logrusError.FindStringSubmatch(line); e != nil {
			text += ": " + unquote(e[1])
		}
		return text
	}
	if m := klogFatal.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return line
}

// jsonEntry reads a line of etcd's log (zap).
func jsonEntry(line string) (level, text string) {
	var e struct{ Level, Msg, Error string }
	if json.Unmarshal([]byte(line), &e) != nil {
		return "", ""
	}
	if e.Error != "" {
		return e.Level, e.Msg + ": " + e.Error
	}
	return e.Level, e.Msg
}

func unquote(s string) string {
	var text string
	if strings.HasPrefix(s, `"`) && json.Unmarshal([]byte(s), &text) == nil {
		return text
	}
	return s
}

func clip(s string) string {
	if len(s) <= longestCause {
		return s
	}
	return strings.ToValidUTF8(s[:longestCause], "") + "..."
}
