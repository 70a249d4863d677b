package machine

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"time"
)

// kvmTimeout is ample for a kernel that runs on the processor itself to reach the end of its boot.
const kvmTimeout = 10 * time.Second

// KVMWorks tells whether this machine's KVM can run the given Linux kernel. That /dev/kvm is there
// says little where virtualisation is nested: some hosts offer it and fail in the guest's kernel.
// So the kernel is run, without a root file system: a good KVM brings it to the panic that says so.
func KVMWorks(ctx context.Context, kernel string) bool {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	ctx, cancel := context.WithTimeout(ctx, kvmTimeout)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64",
		"-machine", "q35", "-accel", "kvm", "-cpu", "host", "-smp", "2", "-m", "512M",
		"-nodefaults", "-display", "none", "-no-user-config", "-no-reboot", "-serial", "stdio",
		"-kernel", kernel, "-append", "console=ttyS0 panic=-1")
	cmd.Stdout = &out
	err = cmd.Run()
	return err == nil && bytes.Contains(out.Bytes(), []byte("Unable to mount root fs"))
}
