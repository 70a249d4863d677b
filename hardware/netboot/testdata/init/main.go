// Command init is the first process of the machines that the tests boot: it says what it was
// given, in lines on the console, and powers off.
package main

import (
	"fmt"
	"os"
	"syscall"
)

func main() {
	if err := os.MkdirAll("/proc", 0o755); err != nil {
		fmt.Println("TEST-ERROR", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Println("TEST-ERROR", err)
	}
	for _, name := range []string{"/proc/cmdline", "/etc/regiond/ticket.json"} {
		b, err := os.ReadFile(name)
		fmt.Printf("\nTEST-FILE %s %s error=%v\n", name, b, err)
	}
	if info, err := os.Stat("/etc/regiond/ticket.json"); err == nil {
		fmt.Println("TEST-MODE", info.Mode())
	}
	fmt.Println("TEST-DONE")
	err := syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	fmt.Println("TEST-ERROR", err)
}
