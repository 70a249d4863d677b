package kube

import "go.etcd.io/etcd/server/v3/etcdmain"

// etcd runs etcd's own main program, with all its flags, because envtest passes its own.
func etcd(args []string) int {
	etcdmain.Main(args)
	return 0
}
