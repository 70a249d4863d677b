package ipmi_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/test/lab/bmc/bmctest"
)

// simulator runs OpenIPMI's ipmi_sim, an implementation of the BMC's side that shares no code with ours.
// lan is added to the configuration of its LAN.
func simulator(t *testing.T, lan ...string) (address netip.AddrPort, state string) {
	t.Helper()
	dir := t.TempDir()
	state = filepath.Join(dir, "state")
	persist := filepath.Join(dir, "persist")
	for _, d := range []string{state, persist} {
		must(t, os.Mkdir(d, 0o700))
	}
	script, err := filepath.Abs("testdata/chassis_control.sh")
	must(t, err)
	// A free port: the simulator cannot be given 0. It is released right before it is taken.
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	address = conn.LocalAddr().(*net.UDPAddr).AddrPort()
	must(t, conn.Close())

	fru, err := types.PackFRU(types.FRUPackConfig{
		Board:   &types.FRUPackBoard{MfgDate: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Mfg: "SimBoardCo", Product: "Board", Serial: "SIMBRD1", PartNumber: "P12"},
		Product: &types.FRUPackProduct{Manufacturer: "SimCo", Name: "SimServer", PartModel: "V1", Version: "1.0", Serial: "SIM0001"},
	})
	must(t, err)
	fru = append(fru, make([]byte, 256-len(fru)%256)...)
	files := map[string]string{
		"fru.bin": string(fru),
		"lan.conf": fmt.Sprintf(`name "sim"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 %d
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
    %s
  endlan
  chassis_control "%s %s 0x20"
  user 2 true "%s" "%s" admin 10 none md2 md5 straight
`, address.Port(), strings.Join(lan, "\n    "), script, state, bmctest.Username, simulatorPassword),
		"sim.emu": fmt.Sprintf(`mc_setbmc 0x20
mc_add 0x20 0x20 no-device-sdrs 0x23 0x09 0x08 0x9f 0x001291 0x0f02
sel_enable 0x20 1000 0x0a
mc_add_fru_data 0x20 0 %d file 0 "%s"
mc_enable 0x20
`, len(fru), filepath.Join(dir, "fru.bin")),
	}
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}

	sim := exec.Command("ipmi_sim", "-n", "-c", filepath.Join(dir, "lan.conf"), "-f", filepath.Join(dir, "sim.emu"), "-s", persist)
	var output strings.Builder
	sim.Stdout, sim.Stderr = &output, &output
	must(t, sim.Start())
	t.Cleanup(func() {
		// Killed by its process handle; the error is the signal.
		_ = sim.Process.Kill()
		_ = sim.Wait()
		if t.Failed() {
			calls, err := os.ReadFile(filepath.Join(state, "log"))
			t.Logf("ipmi_sim: %s\nchassis_control: %s %v", output.String(), calls, err)
		}
	})
	bmctest.Eventually(t, "ipmi_sim answers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := bmc.Ping(ctx, address)
		return err == nil
	})
	return address, state
}

// simulatorPassword is short and plain: ipmi_sim cuts passwords off after 16 bytes and takes no blanks.
const simulatorPassword = "sim-secret"

func TestIpmiSim(t *testing.T) {
	address, state := simulator(t)
	c := config(address)
	c.Password = simulatorPassword
	c.Timeout = time.Second
	c.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	b := driver(t, c)
	ctx := t.Context()

	info, err := b.Probe(ctx)
	must(t, err)
	t.Logf("%+v", info)
	if info.Manufacturer != "SimCo" || info.Product != "SimServer" || info.SerialNumber != "SIM0001" || info.BoardSerialNumber != "SIMBRD1" {
		t.Errorf("%+v", info)
	}
	if info.CipherSuite != 3 {
		t.Errorf("cipher suite %d; ipmi_sim knows 3 only", info.CipherSuite)
	}
	for _, step := range []struct {
		action bmc.PowerAction
		want   region.PowerState
	}{{bmc.On, region.PowerOn}, {bmc.Cycle, region.PowerOn}, {bmc.SoftOff, region.PowerOff}, {bmc.On, region.PowerOn}, {bmc.Off, region.PowerOff}} {
		must(t, b.SetPower(ctx, step.action))
		got, err := b.Power(ctx)
		must(t, err)
		if got != step.want {
			t.Errorf("%s: power is %s", step.action, got)
		}
	}
	must(t, b.SetNetworkBoot(ctx, inventory.FirmwareUEFI))
	device, err := os.ReadFile(filepath.Join(state, "boot"))
	must(t, err)
	if strings.TrimSpace(string(device)) != "pxe" {
		t.Errorf("boot device is %q", device)
	}
	must(t, b.ClearBoot(ctx))
	must(t, b.SetDiskBoot(ctx, inventory.FirmwareBIOS))
	t.Logf("quirks: %q", b.Quirks())
}

func TestIpmiSimWrongPassword(t *testing.T) {
	address, _ := simulator(t)
	c := config(address)
	c.Password = "wrong"
	c.Timeout = time.Second
	c.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	_, err := driver(t, c).Power(t.Context())
	check(t, err, bmc.Terminal, region.ReasonAuthenticationFailed)
	c = config(address)
	c.Username, c.Password = "nobody", simulatorPassword
	_, err = driver(t, c).Power(t.Context())
	check(t, err, bmc.Retry, region.ReasonAuthenticationFailed)
}

// A BMC with a key of its own (K_G, section 13.33) is opened with it, and says so without.
func TestIpmiSimBMCKey(t *testing.T) {
	const key = "abcdefghijklmnop" // ipmi_sim uses 16 of a key's 20 bytes, also with ipmitool
	address, _ := simulator(t, `bmc_key "`+key+`"`)
	for _, tt := range []struct{ key, reason string }{
		{"", region.ReasonBMCKeyRequired}, {"another key", region.ReasonBMCKeyRefused}, {key, ""},
	} {
		c := config(address)
		c.Password, c.Key, c.Timeout = simulatorPassword, tt.key, time.Second
		power, err := driver(t, c).Power(t.Context())
		switch {
		case tt.reason != "":
			check(t, err, bmc.Retry, tt.reason)
		case err != nil || power != region.PowerOff:
			t.Errorf("with the right key: power %s, %v, want Off", power, err)
		}
	}
	plain, _ := simulator(t)
	c := config(plain)
	c.Password, c.Key = simulatorPassword, key
	_, err := driver(t, c).Power(t.Context())
	check(t, err, bmc.Retry, region.ReasonBMCKeyRefused)
}
