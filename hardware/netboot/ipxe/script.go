// Package ipxe renders the scripts that regiond serves to iPXE (https://ipxe.org/scripting).
// Nothing that a client says of itself is ever written into a script: iPXE sends its settings
// in the query, and only regiond's own values come back.
package ipxe

import (
	"fmt"
	"net/netip"
	"strings"
)

// Tries and Pause of the bootstrap script: it asks Tries times and waits Pause seconds longer
// each time, so that a rack that was powered on at once does not storm a busy server. The pauses
// add up to 135 s.
const (
	Tries = 10
	Pause = 3
)

// Bootstrap is the first script, the same for every machine. It asks for the machine's own
// script and runs it. That one ends well when there is no job, does not end when there is one,
// and fails when something could not be fetched: then it is asked for anew, because tickets do
// not outlive a restart of regiond.
//
// When all tries fail, a machine that was given a job is powered off: its disk may hold the
// system that the job is to replace, which must not come up again. A machine of which nothing is
// known boots its disk, for it may be an installed one.
func Bootstrap(server netip.Addr) string {
	return fmt.Sprintf(bootstrap, server, Tries, Pause)
}

// The booting interface is netX, the one opened last; net0 is only the first that was found.
const bootstrap = `#!ipxe
echo regiond at %[1]s
set tries:int32 0
set pause:int32 0
:ask
chain http://%[1]s/ipxe?mac=${netX/mac:hexhyp}&uuid=${uuid}&serial=${serial:uristring}&platform=${platform} && goto disk ||
inc tries
iseq ${tries} %[2]d && goto give-up ||
inc pause %[3]d
echo regiond at %[1]s gave no bootable answer (try ${tries} of %[2]d), asking again in ${pause} s
sleep ${pause}
goto ask
:give-up
isset ${regiond-job} && goto power-off ||
echo regiond at %[1]s did not answer %[2]d times: booting the local disk
:disk
iseq ${platform} pcbios && sanboot --no-describe --drive 0x80 ||
exit 1
:power-off
echo regiond at %[1]s has a job for this machine, but its files could not be fetched in %[2]d tries.
echo Powering off. See the log of regiond on the seed host, then power on again.
sleep 10
poweroff ||
:halt
sleep 3600
goto halt
`

// NoJob is the script of a machine that is to boot its disk. The bootstrap script goes on.
func NoJob() string {
	return "#!ipxe\necho regiond has no job for this machine: booting the local disk\nexit 0\n"
}

// Job is the script of a machine that is to run the installer. The ticket is an archive of its
// own before the initramfs: the kernel unpacks uncompressed archives before compressed ones in
// any version, and iPXE puts them together as they were named. initrd.magic is iPXE's name for
// all of them towards the UEFI stub of the kernel; BIOS kernels ignore it.
func Job(server netip.Addr, nonce string, arguments []string) (string, error) {
	if err := word(nonce); err != nil {
		return "", fmt.Errorf("nonce: %w", err)
	}
	for _, a := range arguments {
		if err := word(a); err != nil {
			return "", fmt.Errorf("kernel argument: %w", err)
		}
	}
	base := "http://" + server.String()
	return strings.Join([]string{
		"#!ipxe",
		"set regiond-job 1",
		"imgfree",
		strings.Join(append([]string{"kernel", base + "/netboot/vmlinuz", "initrd=initrd.magic"}, arguments...), " ") + " || exit 1",
		"initrd " + base + "/netboot/ticket/" + nonce + ".cpio || exit 1",
		"initrd " + base + "/netboot/initramfs || exit 1",
		"boot || exit 1",
		"",
	}, "\n"), nil
}

// word refuses what iPXE would not hand on as one word: it has no quotes and no escapes, and
// expands ${settings} anywhere.
func word(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%q is empty", s)
	case s == "&&" || s == "||" || s == ";":
		return fmt.Errorf("%q is an operator of iPXE", s)
	case strings.HasPrefix(s, "#"):
		return fmt.Errorf("%q begins a comment of iPXE", s)
	case strings.Contains(s, "${"):
		return fmt.Errorf("%q would be expanded by iPXE", s)
	}
	for _, r := range s {
		if r <= ' ' || r > '~' {
			return fmt.Errorf("%q holds %q: only printable ASCII without spaces is possible", s, r)
		}
	}
	return nil
}
