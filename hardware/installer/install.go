package installer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"regiond.dev/regiond/hardware/installer/efi"
	"regiond.dev/regiond/machine/bootloader"
	"regiond.dev/regiond/machine/diskimage"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/inventory"
)

// loaderPath is systemd-boot on the ESP, and bootLabel the name of the firmware's boot entry for it.
const (
	loaderPath = `\EFI\systemd\systemd-bootx64.efi`
	bootLabel  = "regiond"
)

// install carries one instruction out. Whenever it is cut off, the disk holds an incomplete marker and no
// partition table, so that no firmware boots it and the next run starts over: everything here may be
// repeated. Nothing is written before all that can be checked was checked.
func (r *run) install(ctx context.Context, inv inventory.Inventory, job *enroll.Install, p *progress) error {
	target, parts, err := r.plan(inv, job)
	if err != nil {
		return err
	}
	r.log.Info("installing", slog.String("image", job.Manifest.Version), slog.String("disk", target.String()), slog.Int64("bytes", job.Manifest.Bytes()))
	marker := inventory.InstallMarker{RegionUID: job.Identity.RegionUID, ServerUID: job.Identity.ServerUID, Image: job.Manifest.Version}
	guids, err := r.writeImage(ctx, target, job, parts, marker, p)
	if err != nil {
		return err
	}
	if err := r.inject(target.Name, parts, guids, job); err != nil {
		return err
	}
	if inv.Firmware == inventory.FirmwareUEFI {
		if err := r.setBootEntry(parts, guids); err != nil {
			return err
		}
	}
	marker.Complete = true
	marker.Installed = r.clock.Now().UTC().Format(time.RFC3339)
	return r.finish(target.Name, marker)
}

// plan checks the instruction against the machine and decides where everything goes. It writes nothing.
func (r *run) plan(inv inventory.Inventory, job *enroll.Install) (inventory.Disk, []diskimage.Part, error) {
	fail := func(err error) (inventory.Disk, []diskimage.Part, error) { return inventory.Disk{}, nil, err }
	if err := job.Manifest.Validate(); err != nil {
		return fail(err)
	}
	if job.Identity.RegionUID == "" || job.Identity.ServerUID == "" {
		return fail(errors.New("the instruction's identity lacks regionUID or serverUID: without them nobody could tell later whose disk it is"))
	}
	if err := bootloader.CheckArguments(job.Identity.KernelArguments); err != nil {
		return fail(err)
	}
	target, err := FindDisk(inv.Disks, job.Disk)
	if err != nil {
		return fail(err)
	}
	holders, err := r.machine.Holders(target.Name)
	if err != nil {
		return fail(err)
	}
	owner := inventory.Owner{RegionUID: job.Identity.RegionUID, ServerUID: job.Identity.ServerUID}
	if err := checkWritable(target, owner, job.Overwrite, holders); err != nil {
		return fail(err)
	}
	parts, err := diskimage.Layout(&job.Manifest, target.Bytes)
	if err != nil {
		return fail(fmt.Errorf("disk %s: %w", target, err))
	}
	return target, parts, nil
}

// writeImage brings the image to the disk, and the partition table last: until then nothing boots it.
func (r *run) writeImage(ctx context.Context, target inventory.Disk, job *enroll.Install, parts []diskimage.Part,
	marker inventory.InstallMarker, p *progress,
) (guids map[string]string, err error) {
	d, err := r.machine.OpenDisk(target.Name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if d.Bytes() != target.Bytes {
		return nil, fmt.Errorf("disk %s has %d bytes now: it is not the one of the inventory any more", target, d.Bytes())
	}
	// The marker first: from here on the disk is ours to install again, and no longer an old installation.
	if err := writeMarker(d, marker); err != nil {
		return nil, err
	}
	if err := diskimage.Wipe(ctx, d, d.Bytes(), diskimage.Range{Offset: inventory.MarkerOffset, Length: inventory.MarkerSize}); err != nil {
		return nil, err
	}
	if err := diskimage.ZeroGaps(ctx, d, &job.Manifest, parts); err != nil {
		return nil, err
	}
	f := &diskimage.Fetcher{Client: r.images, URL: job.ImageURL, Clock: r.clock}
	p.watch(f)
	if err := diskimage.WriteChunks(ctx, d, &job.Manifest, parts, f, &p.written); err != nil {
		return nil, err
	}
	if err := d.Sync(); err != nil {
		return nil, err
	}
	if guids, err = d.WriteTable(parts, job.Manifest.MBR); err != nil {
		return nil, err
	}
	return guids, d.RereadPartitions()
}

// inject gives the system its identity, the profile's kernel arguments and the name of its own disk.
func (r *run) inject(disk string, parts []diskimage.Part, guids map[string]string, job *enroll.Install) error {
	arguments := append(slices.Clone(job.Identity.KernelArguments), bootloader.ESPArgument+guids[diskimage.LabelESP])
	for _, step := range []struct {
		label, filesystem string
		do                func(dir string) error
	}{
		{diskimage.LabelData, "ext4", func(dir string) error { return writeIdentity(dir, job.Identity) }},
		{diskimage.LabelESP, "vfat", func(dir string) error { return bootloader.AddArguments(dir, arguments) }},
	} {
		part, err := diskimage.FindPart(parts, step.label)
		if err != nil {
			return err
		}
		dir, unmount, err := r.machine.Mount(disk, part, step.filesystem)
		if err != nil {
			return err
		}
		if err := errors.Join(step.do(dir), unmount()); err != nil {
			return fmt.Errorf("partition %s: %w", step.label, err)
		}
	}
	return nil
}

// setBootEntry makes the firmware boot the disk. Without the entry, firmware may boot whatever is next in its order, which
// can be another disk with another system: the installation has failed then, and stays incomplete.
func (r *run) setBootEntry(parts []diskimage.Part, guids map[string]string) error {
	esp, err := diskimage.FindPart(parts, diskimage.LabelESP)
	if err == nil {
		err = efi.SetBootEntry(r.machine.EFIVariables(), efi.BootEntry{
			Label: bootLabel, Path: loaderPath, Partition: uint32(esp.Index),
			StartLBA: esp.StartLBA, Sectors: esp.EndLBA - esp.StartLBA + 1, PartitionGUID: guids[diskimage.LabelESP],
		})
	}
	if err != nil {
		return fmt.Errorf("the firmware's boot entry for the disk could not be written: %w; clear or unlock the firmware's boot entries (set-up, "+
			"'restore defaults'), or update the firmware", err)
	}
	return nil
}

// finish makes the installation valid, when everything else is on the medium.
func (r *run) finish(disk string, marker inventory.InstallMarker) (err error) {
	d, err := r.machine.OpenDisk(disk)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.Sync(); err != nil {
		return err
	}
	return writeMarker(d, marker)
}

// writeMarker writes the evidence of who installs the disk and waits until it is on the medium.
func writeMarker(d *diskimage.Disk, m inventory.InstallMarker) error {
	b, err := inventory.EncodeMarker(m)
	if err != nil {
		return err
	}
	if _, err := d.WriteAt(b, inventory.MarkerOffset); err != nil {
		return fmt.Errorf("write install marker: %w", err)
	}
	return d.Sync()
}
