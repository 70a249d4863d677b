package supervisor

import (
	"bytes"
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

// logFile is a component's log: appended to across restarts, rotated by size, readable by the
// file's group. It retains the last lines, one of which says why a program has exited.
type logFile struct {
	file    *lumberjack.Logger
	created bool

	mu    sync.Mutex
	lines []string // the last lines, oldest first
	begun []byte   // an incomplete line
}

// Limits of the retained lines: a Go program's panic is followed by the stacks of its goroutines,
// starting with the panicking one.
const (
	longestLine = 4096
	mostLines   = 400
)

func newLogFile(dir, name string) *logFile {
	return &logFile{file: &lumberjack.Logger{Filename: filepath.Join(dir, name+".log"), MaxSize: logMegabytes, MaxBackups: logBackups}}
}

// Write never fails: otherwise the program would get SIGPIPE for its next line, and a full disk
// would kill all components at once. Lines that can't be appended are lost to the log, but still
// count for the cause of the program's exit.
func (l *logFile) Write(b []byte) (int, error) {
	l.remember(b)
	_ = l.append(b)
	return len(b), nil
}

// append creates the file before lumberjack does, which would use mode 0600; rotation keeps the
// existing mode.
func (l *logFile) append(b []byte) error {
	if !l.created {
		f, err := os.OpenFile(l.file.Filename, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		l.created = true
	}
	_, err := l.file.Write(b)
	return err
}

func (l *logFile) remember(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(b) {
		l.begun = append(l.begun, line[:min(len(line), max(0, longestLine-len(l.begun)))]...)
		if line[len(line)-1] != '\n' {
			continue
		}
		l.lines = append(l.lines, strings.TrimSpace(string(l.begun)))
		l.begun = l.begun[:0]
		if len(l.lines) > 2*mostLines {
			l.lines = append([]string(nil), l.lines[len(l.lines)-mostLines:]...)
		}
	}
}

// takeLines returns the last lines and discards them, so that they are never attributed to the next
// process.
func (l *logFile) takeLines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	if len(l.begun) > 0 {
		lines = append(lines, strings.TrimSpace(string(l.begun)))
	}
	l.lines, l.begun = nil, nil
	return lines
}

func (l *logFile) Close() error { return l.file.Close() }
