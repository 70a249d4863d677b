package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"time"

	"regiond.dev/regiond/hardware/installer/efi"
	"regiond.dev/regiond/hardware/installer/rootfs"
)

// rootWithin is how long the root partition is waited for. When it does not come, the machine
// restarts, which counts the slot down in systemd-boot until the other one is booted.
const rootWithin = 60 * time.Second

func boot(words []string, log *slog.Logger) error {
	arguments, err := rootfs.ParseArguments(words)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), rootWithin)
	defer cancel()
	openDisk := func(name string) (*os.File, error) { return os.Open("/dev/" + name) }
	loaderESP := cmp.Or(efi.LoaderPartition(efivarfs), arguments.ESP)
	root, err := rootfs.Find(ctx, os.DirFS("/sys"), openDisk, arguments.Label, loaderESP)
	if err != nil {
		return err
	}
	if err := rootfs.Mount(root.Device, arguments.ReadOnly); err != nil {
		return err
	}
	log.Info("starting the installed system", slog.String("root", root.Device), slog.String("label", arguments.Label),
		slog.String("init", arguments.Init))
	return rootfs.Switch(arguments.Init, nil, []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "HOME=/", "TERM=linux"})
}
