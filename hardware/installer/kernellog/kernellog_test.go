package kernellog

import (
	"log/slog"
	"strings"
	"testing"
)

// messages collects what the kernel would get, one write a message.
type messages []string

func (m *messages) Write(b []byte) (int, error) {
	*m = append(*m, string(b))
	return len(b), nil
}

func TestKernelLog(t *testing.T) {
	var m messages
	log := slog.New(newHandler(&m)).With("disk", "vda")
	log.Info("written", "bytes", 5)
	log.Error("long", "text", strings.Repeat("x", 1000))
	log.Debug("not shown")
	if len(m) != 3 || m[0] != "<6>regiond-init: msg=written disk=vda bytes=5\n" || !strings.HasPrefix(m[1], "<3>regiond-init: msg=long") {
		t.Fatalf("messages %q", m)
	}
	for _, line := range m {
		if len(line) > 976 {
			t.Errorf("message of %d bytes: the kernel would refuse it", len(line))
		}
	}
}
