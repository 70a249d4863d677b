// Package kube holds the programs of the control plane: Kubernetes' components, etcd and containerd, each an applet of this one
// binary, chosen by the name it is called by. It alone imports k8s.io/kubernetes, etcd's server and containerd's daemon; linking
// them takes minutes of work and gigabytes of memory, so nothing but cmd/regiond imports it. Configuration is in package config,
// starting and watching in package cluster, which run the applets as processes.
package kube

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// applet runs a program with its arguments (the first is its name) and returns its exit code.
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

// Applets are the names of the programs in this binary.
func Applets() []string { return slices.Sorted(maps.Keys(applets)) }

// Main runs the applet that the arguments name and ends the process with its exit code. It returns
// false when they name none. The name is that of the program itself (a symbolic link kube-apiserver
// → regiond, as envtest wants it) or the first argument (regiond kubectl …).
func Main(args []string) (handled bool) {
	run, args := choose(args)
	if run == nil {
		return false
	}
	// The components read their own name and arguments from here, too.
	os.Args = args
	if name := filepath.Base(args[0]); name != "kubectl" { // which writes files for the user who calls it
		nameProcess(name)
		syscall.Umask(0o022) // the users in pods must be able to read what is unpacked for them
	}
	os.Exit(run(args))
	return true
}

// nameProcess sets the name that ps, top and ss show, which the kernel cuts to 15 bytes
// (proc_pid_comm(5)): it is "exe" after a start from /proc/self/exe. Without it the component works
// as well.
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
