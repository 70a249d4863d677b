package nodeinit

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// maxLog bounds a service's log in bytes; there is one older file of the same size.
const maxLog = 8 << 20

// logFile takes what a service writes and remembers the last line.
type logFile struct {
	mu   sync.Mutex
	path string
	file *os.File
	size int64
	last []byte // the last line that is not empty
	open bool   // last is not ended yet
}

func newLogFile(dir, unit string) *logFile {
	return &logFile{path: filepath.Join(dir, logName(unit))}
}

// logName is the name of a unit's log.
func logName(unit string) string { return strings.TrimSuffix(unit, ".service") + ".log" }

// Write never fails: a full disk must not stop a service that writes a log.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remember(p)
	if l.file == nil || l.size+int64(len(p)) > maxLog {
		l.rotate()
	}
	if l.file != nil {
		n, _ := l.file.Write(p) // see above
		l.size += int64(n)
	}
	return len(p), nil
}

func (l *logFile) rotate() {
	if l.file != nil {
		_ = l.file.Close()
		_ = os.Rename(l.path, l.path+".1")
		l.file = nil
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return
	}
	l.file, l.size = f, 0
	if st, err := f.Stat(); err == nil {
		l.size = st.Size()
	}
	if l.size > maxLog/2 {
		_ = f.Close()
		_ = os.Rename(l.path, l.path+".1")
		l.file = nil
		if f, err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640); err == nil {
			l.file, l.size = f, 0
		}
	}
}

func (l *logFile) remember(p []byte) {
	const most = 512
	for line := range bytes.Lines(p) {
		text := bytes.TrimRight(line, "\r\n")
		if l.open {
			text = append(l.last, text...)
		}
		if len(bytes.TrimSpace(text)) > 0 {
			l.last = bytes.Clone(text[:min(len(text), most)])
		}
		l.open = line[len(line)-1] != '\n'
	}
}

// lastLine that was written since the last call, if any.
func (l *logFile) lastLine() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(l.last), "?"))
}

func (l *logFile) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.open = nil, false
}
