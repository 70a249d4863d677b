package kube

import "go.etcd.io/etcd/server/v3/etcdmain"

// etcd is etcd's own main program, with all its flags: envtest passes its own choice of them.
func etcd(args []string) int {
	etcdmain.Main(args)
	return 0
}
