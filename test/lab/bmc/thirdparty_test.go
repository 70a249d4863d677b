package bmc_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/test/lab/bmc"
	"regiond.dev/regiond/test/lab/bmc/bmctest"
)

// run a third party's tool. The password goes by environment or file, never by argument.
func run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "IPMI_PASSWORD="+bmctest.Password, "LC_ALL=C", "TZ=UTC")
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	t.Logf("%s %s\n%s", name, strings.Join(args, " "), out)
	return string(out), err
}

type tool func(args ...string) (string, error)

func ipmitool(t *testing.T, s *bmctest.Server, suite int) tool {
	return func(args ...string) (string, error) {
		return run(t, "ipmitool", append([]string{"-I", "lanplus", "-H", "127.0.0.1", "-p", strconv.Itoa(int(s.Address.Port())),
			"-U", bmctest.Username, "-E", "-C", strconv.Itoa(suite)}, args...)...)
	}
}

// says runs a tool and wants all of the texts in its output.
func (r tool) says(t *testing.T, command string, want ...string) {
	t.Helper()
	out, err := r(strings.Fields(command)...)
	if err != nil {
		t.Errorf("%s: %v\n%s", command, err, out)
	}
	flat := strings.Join(strings.Fields(out), " ")
	for _, w := range want {
		if !strings.Contains(flat, w) {
			t.Errorf("%s: output lacks %q:\n%s", command, w, out)
		}
	}
}

func TestIpmitool(t *testing.T) {
	for _, suite := range []int{17, 3} {
		t.Run("suite"+strconv.Itoa(suite), func(t *testing.T) {
			s := bmctest.Start(t)
			r := ipmitool(t, s, suite)
			r.says(t, "mc info", "IPMI Version : 2.0", "Firmware Revision : 1.00", "SEL Device", "Chassis Device")
			r.says(t, "mc guid smbios", bmctest.UUID)
			r.says(t, "fru print 0", "Product Manufacturer : LabCo", "Product Name : vServer", "Product Serial : SN0001", "Board Serial : SN0001", "Chassis Serial : SN0001")
			r.says(t, "sdr list", "CPU Temp | 21 degrees C | ok")
			r.says(t, "power status", "Chassis Power is off")
			r.says(t, "chassis bootdev pxe options=efiboot")
			r.says(t, "chassis bootparam get 5", "Boot Flag Valid", "BIOS EFI boot", "Force PXE", "apply to only next boot")
			r.says(t, "power on")
			bmctest.Eventually(t, "the machine is on", s.Machine.On)
			r.says(t, "chassis bootparam get 5", "Boot Flag Invalid")
			r.says(t, "power status", "Chassis Power is on")
			r.says(t, "sensor", "CPU Temp | 42.000 | degrees C | ok", "80.000 | 90.000 | 100.000")
			r.says(t, "chassis bootdev disk options=efiboot,persistent")
			r.says(t, "power cycle")
			bmctest.Eventually(t, "the machine booted again", func() bool { return len(s.Machine.Boots()) == 2 })
			r.says(t, "power reset")
			bmctest.Eventually(t, "the machine was reset", func() bool { return len(s.Machine.Boots()) == 3 })
			r.says(t, "power soft")
			bmctest.Eventually(t, "the machine is off", func() bool { return !s.Machine.On() })
			want := []bmc.Boot{{Device: bmc.BootPXE, EFI: true}, {Device: bmc.BootDisk, EFI: true}, {Device: bmc.BootDisk, EFI: true}}
			for i, got := range s.Machine.Boots() {
				if got != want[i] {
					t.Errorf("boot %d was %+v, want %+v", i, got, want[i])
				}
			}
			r.says(t, "sel info", "Entries : 4")
			r.says(t, "sel list", "System ACPI Power State", "S0/G0: working", "soft-off", "hard reset")
			r.says(t, "sel elist", "Asserted")
			r.says(t, "sel clear")
			bmctest.Eventually(t, "the event log is empty", func() bool {
				out, err := r("sel", "info")
				return err == nil && strings.Contains(strings.Join(strings.Fields(out), " "), "Entries : 0")
			})
			r.says(t, "user list 1", "2 admin", "ADMINISTRATOR")
			if out, err := r("power", "reset"); err == nil {
				t.Errorf("a server that is off was reset: %s", out)
			}
			r.says(t, "mc reset cold")
			r.says(t, "power status", "Chassis Power is off")
		})
	}
}

func TestIpmitoolWithWrongPassword(t *testing.T) {
	s := bmctest.Start(t)
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "ipmitool", "-I", "lanplus", "-H", "127.0.0.1", "-p", strconv.Itoa(int(s.Address.Port())), "-U", bmctest.Username, "-f", secret, "-C", "17", "-R", "1", "power", "status")
	if err == nil {
		t.Errorf("logged in with a wrong password: %s", out)
	}
}

// Suites that authenticate or encrypt nothing must not be accepted.
func TestWeakSuitesAreRefused(t *testing.T) {
	s := bmctest.Start(t)
	for _, suite := range []int{0, 1, 2, 6, 15} {
		if out, err := run(t, "ipmitool", "-I", "lanplus", "-H", "127.0.0.1", "-p", strconv.Itoa(int(s.Address.Port())), "-U", bmctest.Username, "-E",
			"-C", strconv.Itoa(suite), "-R", "1", "power", "status"); err == nil {
			t.Errorf("cipher suite %d was accepted: %s", suite, out)
		}
	}
	if out, err := run(t, "ipmitool", "-I", "lan", "-H", "127.0.0.1", "-p", strconv.Itoa(int(s.Address.Port())), "-U", bmctest.Username, "-E", "-R", "1", "power", "status"); err == nil {
		t.Errorf("IPMI v1.5 was accepted: %s", out)
	}
}

// freeipmi takes no port from anywhere but 'host:port', and its password from a configuration file.
func TestFreeipmi(t *testing.T) {
	s := bmctest.Start(t)
	config := filepath.Join(t.TempDir(), "freeipmi.conf")
	text := "username " + bmctest.Username + "\npassword \"" + bmctest.Password + "\"\n" +
		"driver-type LAN_2_0\ncipher-suite-id 17\nprivilege-level ADMIN\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	host := "127.0.0.1:" + strconv.Itoa(int(s.Address.Port()))
	free := func(name string, extra ...string) tool {
		return func(args ...string) (string, error) {
			return run(t, name, append(append([]string{"--config-file=" + config, "-h", host}, extra...), args...)...)
		}
	}
	// freeipmi reads the GUID in the specification's byte order, the reverse of the SMBIOS one.
	free("bmc-info").says(t, "", "IPMI Version : 2.0", "System GUID : f8e7d6c5-b4a3-9281-4f60-4d5e6f1c2a3b")
	cache := "--sdr-cache-directory=" + t.TempDir()
	free("ipmi-fru", cache).says(t, "", "FRU Product Manufacturer Name: LabCo", "FRU Product Serial Number: SN0001")
	free("ipmi-sensors", cache).says(t, "", "CPU Temp")
	free("ipmi-chassis").says(t, "--get-chassis-status", "System Power : off")
	free("ipmi-chassis-config").says(t, "--commit --key-pair=Chassis_Boot_Flags:Boot_Flags_Persistent=No --key-pair=Chassis_Boot_Flags:Boot_Device=PXE --key-pair=Chassis_Boot_Flags:BIOS_Boot_Type=EFI")
	free("ipmipower").says(t, "--on", "ok")
	bmctest.Eventually(t, "the machine is on", s.Machine.On)
	if boots := s.Machine.Boots(); len(boots) != 1 || boots[0] != (bmc.Boot{Device: bmc.BootPXE, EFI: true}) {
		t.Errorf("boots %+v", boots)
	}
	free("ipmipower").says(t, "--stat", "on")
	free("ipmipower").says(t, "--soft", "ok")
	bmctest.Eventually(t, "the machine is off", func() bool { return !s.Machine.On() })
	free("ipmi-sel", cache).says(t, "", "S0/G0")
}

// SOL: what the console says arrives, and what is typed comes back from its echo.
func TestIpmitoolSOL(t *testing.T) {
	s := bmctest.Start(t)
	r := ipmitool(t, s, 17)
	r.says(t, "power on")
	bmctest.Eventually(t, "the machine is on", s.Machine.On)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// script gives ipmitool the terminal that it insists on.
	c := exec.CommandContext(ctx, "script", "-qec", "ipmitool -I lanplus -H 127.0.0.1 -p "+strconv.Itoa(int(s.Address.Port()))+
		" -U "+bmctest.Username+" -E -C 17 sol activate", "/dev/null")
	c.Env = append(os.Environ(), "IPMI_PASSWORD="+bmctest.Password)
	c.WaitDelay = time.Second
	var screen buffer
	c.Stdout, c.Stderr = &screen, &screen
	keyboard, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	type step struct{ key, seen string }
	for _, step := range []step{{"", strings.TrimSpace(bmctest.Greeting)}, {"hello 42\r", "hello 42"}, {"\r~.", "terminated ipmitool"}} {
		if _, err := keyboard.Write([]byte(step.key)); err != nil {
			t.Fatal(err)
		}
		bmctest.Eventually(t, "the screen shows "+step.seen, func() bool { return strings.Contains(screen.String(), step.seen) })
	}
	if err := keyboard.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("sol activate: %v\n%s", err, screen.String())
	}
}
