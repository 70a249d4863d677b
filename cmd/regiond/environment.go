package main

import (
	"os"
	"syscall"
)

// proxyVariables are those that HTTP clients, Go's and others', take a proxy from.
var proxyVariables = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
}

// downloads are the commands that fetch from elsewhere: packages of images. `lab up` does so for
// images that are missing.
var downloads = []string{"regiond image build", "regiond lab up"}

// ignoreProxy makes this process and those that it starts connect directly. Company hosts have a
// proxy in their environment, which reaches no address of a region.
func ignoreProxy() error {
	for _, v := range proxyVariables {
		if err := os.Unsetenv(v); err != nil {
			return err
		}
	}
	return nil
}

// ordinaryUmask makes files for the users of pods and hosts, who must read them, as their modes
// say. Hardened root shells have umask 077. What is to be private is made so file by file. Commands
// that write files for the user who calls them keep that user's umask.
func ordinaryUmask() { syscall.Umask(0o022) }
