// Package kube has the programs of the control plane: Kubernetes' components, etcd and containerd,
// each an applet of this binary, chosen by the name it is called by. Only this package imports
// k8s.io/kubernetes, etcd's server and containerd's daemon; linking them takes minutes and
// gigabytes of memory, so only cmd/regiond imports it. Package config configures the applets, and
// package cluster runs them as processes.
package kube

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// applet runs a program with its arguments, the first of which is its name, and returns its exit
// code.
type applet func(args []string) int

var applets = map[string]applet{
	"containerd":              containerd,
	"ctr":                     ctr,
	"etcd":                    etcd,
	"kube-apiserver":          apiServer,
	"kube-controller-manager": controllerManager,
	"kube-proxy":              proxy,
	"kube-scheduler":          scheduler,
	"kubectl":                 kubectl,
	"kubelet":                 kubelet,
}

// Applets returns the names of the programs in this binary.
func Applets() []string { return slices.Sorted(maps.Keys(applets)) }

// Main runs the applet that the arguments name and exits with its exit code. It returns false if
// they name none. The name is that of the program itself (a symbolic link kube-apiserver → regiond,
// as envtest requires) or the first argument (regiond kubectl …).
func Main(args []string) (handled bool) {
	run, args := choose(args)
	if run == nil {
		return false
	}
	// The components also read their own name and arguments from here.
	os.Args = args
	if name := filepath.Base(args[0]); name != "kubectl" { // which writes files for the calling user
		nameProcess(name)
		syscall.Umask(0o022) // users in pods must be able to read files that are unpacked for them
	}
	os.Exit(run(args))
	return true
}

// nameProcess sets the name that ps, top and ss show, which the kernel truncates to 15 bytes
// (proc_pid_comm(5)): after a start from /proc/self/exe it is "exe". An error does not affect the
// component.
func nameProcess(name string) {
	_ = os.WriteFile("/proc/self/comm", []byte(name), 0)
}

func choose(args []string) (applet, []string) {
	if len(args) == 0 {
		return nil, nil
	}
	if run, ok := applets[filepath.Base(args[0])]; ok {
		return run, args
	}
	if len(args) > 1 {
		if run, ok := applets[args[1]]; ok {
			return run, args[1:]
		}
	}
	return nil, nil
}
