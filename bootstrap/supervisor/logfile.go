package supervisor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"
)

const (
	logMegabytes = 50
	logBackups   = 3
)

// logFile is a component's log: appended to across restarts, rotated by size, readable by the file's group. It remembers the last
// line, which is mostly why a program has ended.
type logFile struct {
	file    *lumberjack.Logger
	created bool

	mu   sync.Mutex
	last []byte // the last line begun
}

// longestLine bounds how much of the last line is remembered, in bytes.
const longestLine = 300

func newLogFile(dir, name string) *logFile {
	return &logFile{file: &lumberjack.Logger{Filename: filepath.Join(dir, name+".log"), MaxSize: logMegabytes, MaxBackups: logBackups}}
}

// Write creates the file before lumberjack does, which would give it mode 0600; rotation keeps the mode it finds.
func (l *logFile) Write(b []byte) (int, error) {
	if !l.created {
		f, err := os.OpenFile(l.file.Filename, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
		if err != nil {
			return 0, fmt.Errorf("creating the component's log: %w", err)
		}
		if err := f.Close(); err != nil {
			return 0, fmt.Errorf("creating the component's log: %w", err)
		}
		l.created = true
	}
	l.remember(b)
	return l.file.Write(b)
}

func (l *logFile) remember(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(b) {
		if n := len(l.last); n > 0 && l.last[n-1] == '\n' {
			l.last = l.last[:0]
		}
		l.last = append(l.last, line[:min(len(line), max(0, longestLine-len(l.last)))]...)
		if line[len(line)-1] == '\n' && l.last[len(l.last)-1] != '\n' {
			l.last = append(l.last, '\n') // cut, but ended
		}
	}
}

// takeLastLine returns the last line and forgets it, so that it is never told of the next process.
func (l *logFile) takeLastLine() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := strings.TrimSpace(string(l.last))
	l.last = nil
	return line
}

func (l *logFile) Close() error { return l.file.Close() }
