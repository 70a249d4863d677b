package main

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// progressPrinter tells what happens, with the time since the start.
func progressPrinter(w io.Writer, format string, started time.Time) func(string) {
	if format == "json" {
		log := slog.New(slog.NewJSONHandler(w, nil))
		return func(text string) { log.Info(text, slog.Float64("elapsed", time.Since(started).Seconds())) }
	}
	return func(text string) { fmt.Fprintf(w, "[%6.1fs] %s\n", time.Since(started).Seconds(), text) }
}

// progressReporter is a progressPrinter for formatted text.
func progressReporter(w io.Writer, started time.Time) func(format string, args ...any) {
	show := progressPrinter(w, "text", started)
	return func(format string, args ...any) { show(fmt.Sprintf(format, args...)) }
}
