package check

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"regiond.dev/regiond/region"
)

// profile checks one profile; field is its path.
func (v *validator) profile(field string, p region.Profile) {
	m := field + ".match"
	v.pattern(m+".name", p.Match.Name)
	v.pattern(m+".manufacturer", p.Match.Manufacturer)
	v.pattern(m+".product", p.Match.Product)
	v.quantity(m+".minMemory", p.Match.MinMemory)
	serials := map[string]string{}
	for i, s := range p.Match.SerialNumbers {
		at := fmt.Sprintf("%s.serialNumbers[%d]", m, i)
		if first, found := serials[s]; found {
			v.bad(at, s, "is given twice, first at "+v.where(first), "remove one of them")
		}
		serials[s] = at
		v.trimmed(at, s)
	}
	v.disk(field+".rootDisk", p.RootDisk)
	v.kernelArguments(field+".kernelArguments", p.KernelArguments)
	if p.Network != nil {
		v.hostNetwork(field+".network", *p.Network)
	}
}

// maxPattern bounds shell patterns in bytes; SMBIOS strings and names are shorter.
const maxPattern = 256

// pattern checks a shell pattern of path.Match.
func (v *validator) pattern(field, pattern string) {
	if len(pattern) > maxPattern {
		v.bad(field, pattern, fmt.Sprintf("is longer than %d bytes", maxPattern), "use '*' for what may vary")
		return
	}
	if _, err := path.Match(pattern, ""); err != nil {
		v.bad(field, pattern, "is not a shell pattern", `close each '[' with ']'; for the character itself write \[`)
	}
	v.trimmed(field, pattern)
}

// trimmed reports white space around a value that is compared with what hardware reports.
func (v *validator) trimmed(field, s string) {
	if clean := strings.TrimSpace(s); clean != s {
		v.bad(field, s, "begins or ends with white space, which is never part of what hardware reports", meant(clean, "write a value"))
	}
}

// plainQuantity is a Kubernetes quantity of whole units. Exponents and the suffixes m, u and n are
// quantities too, but not sizes of anything in a server.
var plainQuantity = regexp.MustCompile(`^[0-9]{1,18}(\.[0-9]{1,9})?([KMGTPE]i|[kMGTPE])?$`)

// quantity checks an amount of bytes and returns it.
func (v *validator) quantity(field, s string) (bytes int64, ok bool) {
	if s == "" {
		return 0, false
	}
	if !plainQuantity.MatchString(s) {
		v.bad(field, s, "is not a quantity of bytes", meant(betterQuantity(s), "write a number with Ki, Mi, Gi, Ti (1024) or k, M, G, T (1000), e.g. 64Gi"))
		return 0, false
	}
	q, err := resource.ParseQuantity(s)
	if err != nil {
		v.bad(field, s, "is not a quantity of bytes: "+err.Error(), "write e.g. 64Gi")
		return 0, false
	}
	if q.Sign() <= 0 {
		v.bad(field, s, "is not more than zero", "write e.g. 64Gi, or leave the field out")
		return 0, false
	}
	if q.CmpInt64(1<<62) > 0 {
		v.bad(field, s, "is more than any server has", "write e.g. 64Gi")
		return 0, false
	}
	return q.Value(), true
}

var looseQuantity = regexp.MustCompile(`^([0-9]{1,18}(?:\.[0-9]{1,9})?) *([kmgtpe]?)(i?)b?(?:ytes?)?$`)

// betterQuantity guesses what "64 GB", "64gib" or "200m" was meant to be.
func betterQuantity(s string) string {
	parts := looseQuantity.FindStringSubmatch(strings.ToLower(s))
	if parts == nil {
		return ""
	}
	number, unit, binary := parts[1], parts[2], parts[3]
	switch {
	case unit == "" && binary != "":
		return ""
	case unit == "k" && binary == "":
		return number + unit
	}
	return number + strings.ToUpper(unit) + binary
}

// wwnForms are those names in Linux' attribute wwid of block devices that are unique in the world,
// which are all that an inventory has: NAA and EUI-64 of SCSI (SPC-6, device identification VPD
// page; drivers/scsi/scsi_lib.c), EUI-64, NGUID and UUID of NVMe (drivers/nvme/host/sysfs.c).
var wwnForms = regexp.MustCompile(`^(eui\.([0-9a-f]{16}|[0-9a-f]{24}|[0-9a-f]{32})|naa\.([0-9a-f]{16}|[0-9a-f]{32})|uuid\.[-0-9a-f]{36})$`)

var bareWWN = regexp.MustCompile(`^(?:0x|wwn-0x|naa\.0x|naa\.|eui\.)?([0-9a-f]{16}|[0-9a-f]{32})$`)

// betterWWN guesses the kernel's form of what lsblk, udev or a label shows.
func betterWWN(s string) string {
	lower := strings.ToLower(strings.TrimSpace(s))
	if wwnForms.MatchString(lower) && lower != s {
		return lower
	}
	parts := bareWWN.FindStringSubmatch(strings.NewReplacer(":", "", " ", "").Replace(lower))
	if parts == nil {
		return ""
	}
	// NAA designators begin with their type: 2, 3, 5 or 6 (SPC-6). Others are EUI-64.
	if strings.ContainsRune("2356", rune(parts[1][0])) {
		return "naa." + parts[1]
	}
	return "eui." + parts[1]
}

// disk checks a disk selector.
func (v *validator) disk(field string, d region.DiskSelector) {
	switch {
	case d.WWN == "" || wwnForms.MatchString(d.WWN):
	case strings.HasPrefix(d.WWN, "t10.") || strings.HasPrefix(d.WWN, "nvme."):
		v.bad(field+".wwn", d.WWN, "is made of vendor, model and serial number, and is not a WWN", "give serialNumber instead")
	default:
		v.bad(field+".wwn", d.WWN, "is not a WWN as the kernel shows it", meant(betterWWN(d.WWN), "read it from /sys/block/<disk>/wwid or /sys/block/<disk>/device/wwid"))
	}
	v.pattern(field+".model", d.Model)
	v.trimmed(field+".serialNumber", d.SerialNumber)
	if strings.HasPrefix(d.SerialNumber, "/dev/") {
		v.bad(field+".serialNumber", d.SerialNumber, "is a device name, which may be another disk after the next boot", "give what lsblk -o NAME,SERIAL shows")
	}
	low, lowOK := v.quantity(field+".minSize", d.MinSize)
	high, highOK := v.quantity(field+".maxSize", d.MaxSize)
	if lowOK && highOK && low > high {
		v.bad(field+".maxSize", d.MaxSize, fmt.Sprintf("is less than %s of %s: no disk fits", quote(d.MinSize), v.where(field+".minSize")), "exchange them")
	}
}

// maxCommandLine leaves the image its share of the 2,048 bytes of x86 (COMMAND_LINE_SIZE in
// arch/x86/include/asm/setup.h); the kernel cuts the rest off in silence.
const maxCommandLine = 1536

// ownedArguments are set by the image: with another value the system would not boot.
var ownedArguments = []string{"root", "init", "rdinit", "initrd"}

// kernelArguments checks what is appended to the kernel's command line.
func (v *validator) kernelArguments(field string, arguments []string) {
	total := 0
	for i, a := range arguments {
		at := fmt.Sprintf("%s[%d]", field, i)
		total += len(a) + 1
		name, _, _ := strings.Cut(a, "=")
		switch {
		case a == "":
			// said by the schema's pattern
		case strings.ContainsAny(a, " \t\r\n"):
			v.bad(at, a, "has white space", splitAdvice(a))
		case strings.ContainsFunc(a, func(c rune) bool { return c < '!' || c > '~' }):
			v.bad(at, a, "has characters other than printable ASCII", "write ASCII only")
		case a == "--" || a == "---":
			v.bad(at, a, "ends the kernel's own arguments", "remove it")
		case strings.HasPrefix(name, "regiond."):
			v.bad(at, a, "is owned by regiond", "remove it; arguments that begin with regiond. are set by the image")
		default:
			for _, owned := range ownedArguments {
				if name == owned {
					v.bad(at, a, "is owned by the image", "remove it; the image sets "+owned+"= to the slot that it boots")
				}
			}
		}
	}
	if total > maxCommandLine {
		v.bad(field, fmt.Sprintf("%d bytes", total), fmt.Sprintf("together, more than the %d that fit the kernel's command line", maxCommandLine), "remove some")
	}
}

func splitAdvice(a string) string {
	fields := strings.Fields(a)
	if len(fields) < 2 {
		return meant(strings.Join(fields, ""), "write one argument without spaces")
	}
	return "write one item for each: " + shorten(quoteList(fields[:min(len(fields), 8)]))
}
