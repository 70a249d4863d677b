// Package bootloader is what lies on the EFI system partition of an installed machine: the entries of systemd-boot (UEFI) and
// the configuration of GRUB (BIOS) for the two slots of the root file system. The builder of images writes them, the installer
// adds a profile's kernel arguments, and an update writes the other slot's.
package bootloader

import (
	"fmt"
	"strings"
)

// Slots of the root file system.
const (
	SlotA = "a"
	SlotB = "b"
)

// bootTries is how often the loader tries a slot that was never confirmed (systemd-boot's boot counting,
// UAPI Boot Loader Specification).
const bootTries = 3

// Kernel is where a slot's kernel lies on the ESP. slot may be a GRUB variable.
func Kernel(slot string) string { return "regiond/" + slot + "/vmlinuz" }

// Initrd is where a slot's initrd lies on the ESP. slot may be a GRUB variable.
func Initrd(slot string) string { return "regiond/" + slot + "/initrd" }

// kernelArguments of an installed system. slot may be a GRUB variable.
//
//   - rw: the initrd mounts the root file system for good, fstab has no line for it.
//   - panic=10: a kernel or an init that dies restarts the machine, which counts the slot down.
//   - systemd.machine_id=firmware: the machine ID is the SMBIOS system UUID, the same on both slots and after
//     a new installation; journals and DHCP leases stay with the machine. (A firmware without a UUID
//     gets a random one, kept in the slot.)
func kernelArguments(slot string) string {
	return strings.Join([]string{
		"root=PARTLABEL=root-" + slot, "rw", "regiond.mode=boot", "panic=10", "systemd.machine_id=firmware",
		"console=tty0", "console=ttyS0,115200",
	}, " ")
}

// EntryPath is the name of a slot's boot loader entry with all its tries left.
func EntryPath(slot string) string {
	return fmt.Sprintf("loader/entries/regiond-%s+%d.conf", slot, bootTries)
}

// Entry is the text of a slot's boot loader entry (UAPI Boot Loader Specification, type 1). Of the entries
// that are not known to be bad the loader boots the one with the highest sequence: an installation
// has 1, and an update writes the other slot's entry with the running one's plus 1.
func Entry(slot string, sequence int) string {
	return fmt.Sprintf("title    regiond node (slot %[1]s)\nsort-key regiond\nversion  %[2]d\nlinux    /%[3]s\ninitrd   /%[4]s\noptions  %[5]s\n",
		slot, sequence, Kernel(slot), Initrd(slot), kernelArguments(slot))
}

// File on the ESP.
type File struct{ Path, Content string }

// Files are the loaders' files as a new installation has them.
func Files() []File {
	return []File{
		{"loader/loader.conf", "timeout 0\neditor no\nauto-firmware no\nconsole-mode keep\n"},
		{EntryPath(SlotA), Entry(SlotA, 1)},
		{grubFile, grubConfig()},
		{"grub/grubenv", grubEnvironment("slot=" + SlotA)},
	}
}

// grubFile is GRUB's configuration on the ESP.
const grubFile = "grub/grub.cfg"

// grubConfig for BIOS machines. GRUB cannot count boots; a new slot is tried once: whoever updates sets
// trial= in grubenv, and slot= when the node is healthy.
func grubConfig() string {
	return `# BIOS only. Slots are chosen in grubenv: slot is the one that works, trial is booted once.
serial --unit=0 --speed=115200
terminal_input console serial
terminal_output console serial
set slot=` + SlotA + `
load_env
set boot="$slot"
if [ -n "$trial" ]; then
	set boot="$trial"
	set trial=
	save_env trial
fi
echo "Booting slot $boot"
if linux /` + Kernel("$boot") + ` ` + kernelArguments("$boot") + `
then
	initrd /` + Initrd("$boot") + `
	boot
fi
echo "Slot $boot does not boot; restarting in 10 seconds"
sleep 10
reboot
`
}

// grubEnvironment is an environment block of exactly 1024 bytes (GRUB manual, "The GRUB environment block").
func grubEnvironment(lines ...string) string {
	const size = 1024
	block := "# GRUB Environment Block\n" + strings.Join(lines, "\n") + "\n"
	return block + strings.Repeat("#", size-len(block))
}
