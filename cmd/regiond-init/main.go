// Command regiond-init is /init of the initramfs with which regiond netboots servers, and of the
// initrd that the installed system boots with. regiond.mode= on the kernel's command line says
// which: "install" (the default) runs the installer, "boot" mounts the root file system and starts
// the init on it.
package main

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"regiond.dev/regiond/hardware/installer/kernellog"
)

// version is set by the linker.
var version = "devel"

// restartDelay leaves time to read the last message on the console.
const restartDelay = 10 * time.Second

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "regiond-init is the /init of an initramfs; it does nothing elsewhere")
		os.Exit(2)
	}
	mountErr := mountKernelFilesystems()
	log := kernellog.Open()
	defer func() {
		if r := recover(); r != nil {
			log.Error("panic; restarting", slog.Any("panic", r), slog.Duration("in", restartDelay))
			fmt.Fprintf(os.Stderr, "%v\n%s", r, debug.Stack())
			restart(log, restartDelay)
		}
	}()
	if mountErr != nil {
		log.Error("kernel file systems", slog.Any("error", mountErr))
	}
	if err := run(log); err != nil {
		log.Error("restarting", slog.Any("error", err), slog.Duration("in", restartDelay))
	}
	restart(log, restartDelay)
}

// run does what the command line says. It returns on failure only: a machine ends by restarting,
// powering off or becoming the installed system.
func run(log *slog.Logger) error {
	words, err := commandLine()
	if err != nil {
		return err
	}
	log.Info("started", slog.String("version", version), slog.String("mode", mode(words)))
	loadModules(log)
	switch m := mode(words); m {
	case "install":
		return install(log)
	case "boot":
		return boot(words, log)
	default:
		return fmt.Errorf("the kernel's command line has regiond.mode=%s; want install or boot", m)
	}
}

func commandLine() ([]string, error) {
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(text)), nil
}

// mode is the last regiond.mode= on the command line.
func mode(words []string) string {
	m := "install"
	for _, word := range words {
		if value, ok := strings.CutPrefix(word, "regiond.mode="); ok {
			m = value
		}
	}
	return m
}
