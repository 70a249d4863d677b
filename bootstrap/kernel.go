package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// bridgeCall makes bridged packets pass through netfilter. See preflight for why pods need it.
const bridgeCall = "/proc/sys/net/bridge/bridge-nf-call-iptables"

// prepareKernel loads modules that Debian's kernel does not load automatically.
func prepareKernel(ctx context.Context) error {
	if b, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(b), "\toverlay\n") {
		if err := modprobe(ctx, "overlay"); err != nil {
			return err
		}
	}
	if _, err := os.Stat(bridgeCall); errors.Is(err, os.ErrNotExist) {
		if err := modprobe(ctx, "br_netfilter"); err != nil {
			return err
		}
	}
	b, err := os.ReadFile(bridgeCall)
	if err != nil {
		return fmt.Errorf("bridge netfilter: %w", err)
	}
	if strings.TrimSpace(string(b)) == "1" {
		return nil
	}
	// A sysctl.d file may have disabled it; the setting is per network namespace.
	return os.WriteFile(bridgeCall, []byte("1\n"), 0o644)
}

func modprobe(ctx context.Context, module string) error {
	if out, err := exec.CommandContext(ctx, "modprobe", module).CombinedOutput(); err != nil {
		return fmt.Errorf("modprobe %s: %w: %s", module, err, strings.TrimSpace(string(out)))
	}
	return nil
}
