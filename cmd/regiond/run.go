package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	sddaemon "github.com/coreos/go-systemd/v22/daemon"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"gopkg.in/natefinch/lumberjack.v2"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"regiond.dev/regiond/bootstrap"
	"regiond.dev/regiond/bootstrap/daemon"
	"regiond.dev/regiond/bootstrap/systemd"
	"regiond.dev/regiond/components/openstack"
	"regiond.dev/regiond/hardware/credentials"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/span/export"
)

func newRunCommand() *cobra.Command {
	var file, format, level string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a region's seed host in the foreground",
		Long: `Run a region's seed host in the foreground: check the host, start the control plane, and run the
region's controllers until the process is stopped. Pods and servers keep running meanwhile.

Started again on the same data, it continues. Progress goes to standard error,
details to DATA-DIR/log/regiond.log and to one log for each component beside it.`,
		Example: `  sudo regiond run -f region.yaml
  sudo regiond run -f region.yaml --log-format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "text" && format != "json" {
				return invalid(fmt.Errorf("--log-format %q; there are text and json", format))
			}
			var l slog.Level
			if err := l.UnmarshalText([]byte(level)); err != nil {
				return invalid(fmt.Errorf("--log-level %q; there are debug, info, warn and error", level))
			}
			return runRegion(cmd, file, format, l)
		},
	}
	addRegionFileFlag(cmd, &file)
	cmd.Flags().StringVar(&format, "log-format", "text", "format of progress and log: text or json")
	cmd.Flags().StringVar(&level, "log-level", "info", "what to log: debug, info, warn or error")
	return cmd
}

func runRegion(cmd *cobra.Command, file, format string, level slog.Level) error {
	ordinaryUmask()
	started, environment := time.Now(), os.Environ()
	doc, _, err := loadDocument(cmd, file)
	if err != nil {
		return err
	}
	r := doc.Region
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	dataDir := r.Spec.ControlPlane.DataDir
	output := &lumberjack.Logger{Filename: bootstrap.LogPath(dataDir), MaxSize: 50, MaxBackups: 3}
	log := slog.New(logHandler(output, format, level))
	captureLogs(log)
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" {
		stop, err := export.Start(cmd.Context(), version, log)
		if err != nil {
			return fmt.Errorf("traces: %w", err)
		}
		defer stop()
	}
	// A region that runs starts with what it has: what is wrong with its declaration is refused when
	// it is applied.
	problems, err := openstack.Check(doc, nil)
	if err != nil {
		return err
	}
	for _, p := range problems {
		log.Warn("region file", slog.String("problem", p.String()))
	}

	service := systemd.Notifier{Socket: os.Getenv("NOTIFY_SOCKET")}
	if err := os.Unsetenv("NOTIFY_SOCKET"); err != nil {
		return err
	}
	watchdog, err := sddaemon.SdWatchdogEnabled(true)
	if err != nil {
		log.Warn("systemd's watchdog is not served", slog.Any("error", err))
	}
	notify := func(message string) {
		if err := service.Notify(message); err != nil {
			log.Warn("systemd not notified", slog.Any("error", err))
		}
	}
	show := progressPrinter(cmd.ErrOrStderr(), format, started)
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	// Its watchdog is answered as long as this process answers `regiond status`: that takes its locks
	// and its scheduler, and no component, whose failures are the supervisor's to repair.
	alive := func(ctx context.Context) error {
		_, err := daemon.Fetch(ctx, daemon.SocketPath(dataDir))
		return err
	}
	var answering sync.WaitGroup
	err = bootstrap.Run(ctx, bootstrap.Config{
		Region: r, RegionFile: file, Version: version, Log: log,
		LoadRegion: func() (*region.Region, error) {
			next, _, err := loadDocument(cmd, file)
			if err != nil {
				return nil, err
			}
			return next.Region, nil
		},
		Progress: func(text string) {
			show(text)
			notify(systemd.Status(text))
		},
		Ready: func() {
			notify(systemd.Ready)
			answering.Go(func() { systemd.KeepAlive(ctx, watchdog, alive, notify) })
		},
		Stopping:         func() { notify(systemd.Stopping) },
		CheckCredentials: credentials.Check,
		Controllers:      func(ctx context.Context, rt bootstrap.Runtime) error { return runControllers(ctx, rt, file) },
	})
	cancel()
	answering.Wait()
	if errors.Is(err, bootstrap.ErrRestart) && cmd.Context().Err() == nil {
		if service.Socket != "" {
			show(err.Error())
			return output.Close() // Restart=always: systemd starts it again
		}
		// In the foreground nobody else would. This program, even after an upgrade has replaced the file.
		err = errors.Join(output.Close(), syscall.Exec("/proc/self/exe", os.Args, environment))
		return fmt.Errorf("restart regiond: %w", err)
	}
	return errors.Join(err, output.Close())
}

func logHandler(w io.Writer, format string, level slog.Level) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.NewJSONHandler(w, options)
	}
	return slog.NewTextHandler(w, options)
}

// captureLogs sends what libraries log to the same place.
func captureLogs(log *slog.Logger) {
	slog.SetDefault(log)
	klog.SetSlogLogger(log.With(slog.String("library", "client-go")))
	ctrllog.SetLogger(logr.FromSlogHandler(log.With(slog.String("library", "controller-runtime")).Handler()))
}
