package modules_test

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"regiond.dev/regiond/hardware/installer/modules"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// folder is like that of an initramfs, with a module of each kind.
func folder() fstest.MapFS {
	return fstest.MapFS{
		"order": file("crc32c_generic.ko\njbd2.ko\next4.ko\nvirtio.ko\nvirtio_pci.ko\nnet_failover.ko\nvirtio_net.ko\nmlx4_core.ko\nmlx4_en.ko\nscsi_mod.ko\nsd_mod.ko\nnvme-core.ko\nnvme.ko\n"),
		"modules.dep": file("crc32c_generic.ko:\njbd2.ko:\next4.ko: jbd2.ko\nvirtio.ko:\nvirtio_pci.ko: virtio.ko\nnet_failover.ko:\nvirtio_net.ko: net_failover.ko virtio.ko\n" +
			"mlx4_core.ko:\nmlx4_en.ko: mlx4_core.ko\nscsi_mod.ko:\nsd_mod.ko: scsi_mod.ko\nnvme-core.ko:\nnvme.ko: nvme-core.ko\n"),
		"modules.alias": file("alias fs-ext4 ext4\nalias pci:v00001AF4d*sv*sd*bc*sc*i* virtio_pci\nalias virtio:d00000001v* virtio_net\n" +
			"alias pci:v000015B3d00001003sv*sd*bc*sc*i* mlx4_core\nalias scsi:t-0x00* sd_mod\nalias pci:v*d*sv*sd*bc01sc08i02* nvme\n"),
	}
}

const (
	always    = "crc32c_generic.ko jbd2.ko ext4.ko"
	disks     = "scsi_mod.ko sd_mod.ko"
	virtioPCI = "pci:v00001AF4d00001041sv00001AF4sd00001100bc02sc00i00"
)

func TestWanted(t *testing.T) {
	s, err := modules.Read(folder())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		modaliases []string
		want       string
	}{
		"nothing":  {nil, always + " " + disks},
		"virtio":   {[]string{virtioPCI, "virtio:d00000001v00001AF4"}, always + " virtio.ko virtio_pci.ko net_failover.ko virtio_net.ko " + disks},
		"mellanox": {[]string{"pci:v000015B3d00001003sv000015B3sd00000055bc02sc00i00"}, always + " mlx4_core.ko mlx4_en.ko " + disks},
		"nvme":     {[]string{"pci:v0000144Dd0000A808sv0000144Dsd0000A801bc01sc08i02"}, always + " " + disks + " nvme-core.ko nvme.ko"},
	} {
		if got := strings.Join(s.Wanted(tc.modaliases), " "); got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, tc.want)
		}
	}
}

func TestWithoutAliasesEverythingIsLoaded(t *testing.T) {
	dir := folder()
	delete(dir, "modules.alias")
	delete(dir, "modules.dep")
	s, err := modules.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(s.Wanted(nil)); got != 13 {
		t.Errorf("%d modules, want all 13", got)
	}
	delete(dir, "order")
	if _, err := modules.Read(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without order: %v", err)
	}
}

// The device behind a bridge appears when the bridge's driver is loaded; a module that fails keeps no other
// from loading and is tried once.
func TestLoad(t *testing.T) {
	s, err := modules.Read(folder())
	if err != nil {
		t.Fatal(err)
	}
	sys := fstest.MapFS{"bus/pci/devices/0000:00:02.0/modalias": file(virtioPCI + "\n")}
	var loaded []string
	n, err := s.Load(sys, func(name string) error {
		loaded = append(loaded, name)
		switch name {
		case "virtio_pci.ko":
			sys["bus/virtio/devices/virtio0/modalias"] = file("virtio:d00000001v00001AF4\n")
		case "jbd2.ko":
			return errors.New("exec format error")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "jbd2.ko") {
		t.Errorf("error %v does not name the module that failed", err)
	}
	want := strings.Fields(always + " virtio.ko virtio_pci.ko " + disks + " net_failover.ko virtio_net.ko")
	if !reflect.DeepEqual(loaded, want) || n != len(want)-1 {
		t.Errorf("loaded %d: %q, want %q", n, loaded, want)
	}
}
