//go:build integration

package cluster_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"regiond.dev/regiond/bootstrap/datadir"
	"regiond.dev/regiond/bootstrap/kube/cluster"
	"regiond.dev/regiond/bootstrap/payload"
	"regiond.dev/regiond/bootstrap/pki"
)

// The test binary plays several parts, chosen by its first argument.
func TestMain(m *testing.M) {
	parts := map[string]func([]string) error{
		"host":     host,
		"run":      run,
		"teardown": teardown,
		"etcd-get": etcdGet,
		"serve":    serve,
		"get":      get,
		"resolve":  resolve,
		"served":   served,
	}
	if len(os.Args) > 2 && os.Args[1] == "part" {
		if err := parts[os.Args[2]](os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	address  = "10.255.0.1"
	regionID = "0a1b2c3d"
)

// host makes its namespaces look like a separate host, reports when it is done, and keeps them
// until its input ends.
func host(args []string) error {
	dir := args[0]
	script := `set -e
mount --make-rshared /
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/lock "$1/varlib/up" "$1/varlib/work" "$1/varlog/up" "$1/varlog/work" "$1/sysctl"
mount -t overlay overlay -o "lowerdir=/var/lib,upperdir=$1/varlib/up,workdir=$1/varlib/work" /var/lib
mount -t overlay overlay -o "lowerdir=/var/log,upperdir=$1/varlog/up,workdir=$1/varlog/work" /var/log
for kv in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1; do
  f="$1/sysctl/$(echo "${kv%=*}" | tr / _)"; echo "${kv#*=}" > "$f"; mount --bind "$f" "/proc/sys/${kv%=*}"
done
ip link set lo up
ip link add host0 type veth peer name host1
ip addr add ` + address + `/24 dev host0
ip link set host0 up; ip link set host1 up
ip route add default via 10.255.0.254 dev host0
`
	command := exec.Command("sh", "-c", script, "host", dir)
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("setting up a host: %w", err)
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// run is a regiond with only the control plane. It prints the components' state whenever it
// changes, and "ready".
func run(args []string) error {
	dataDir, executable := args[0], args[1]
	syscall.Umask(0o077) // as in a hardened root shell
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	renewals := newRenewalClock(dataDir)
	keys, err := pki.Load(filepath.Join(dataDir, "pki"), pki.WithClock(renewals.now))
	if err != nil {
		return err
	}
	if err := datadir.Bin.Make(dataDir); err != nil {
		return err
	}
	extracted, err := payload.Extract(filepath.Join(dataDir, "bin"))
	if err != nil {
		return err
	}
	if _, err := datadir.Mark(dataDir, datadir.Owner{Region: "test", UID: uuid.MustParse(regionID + "-0000-4000-8000-000000000000")}); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Config{
		ID:          regionID,
		NodeName:    "seed",
		Address:     netip.MustParseAddr(address),
		PodCIDR:     netip.MustParsePrefix("10.42.0.0/16"),
		ServiceCIDR: netip.MustParsePrefix("10.43.0.0/16"),
		DataDir:     dataDir,
		PKI:         keys,
		PayloadDir:  extracted,
		Executable:  executable,
		Clock:       renewals.days,
		Log:         log,
	})
	if err != nil {
		return err
	}
	go func() {
		if c.Wait(ctx) == nil {
			fmt.Println(`"ready"`)
		}
	}()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	last := ""
	for {
		state, err := json.Marshal(c.Components())
		if err != nil {
			return err
		}
		if string(state) != last {
			last = string(state)
			fmt.Println(last)
		}
		select {
		case <-c.Done():
			return c.Err()
		case <-ticker.C:
		}
	}
}

func teardown(args []string) error {
	return cluster.Teardown(context.Background(), args[0], slog.New(slog.NewTextHandler(os.Stderr, nil)))
}

// etcdGet prints a raw value, using the client certificate of a pair: etcd-get DATADIR CERT-NAME
// KEY.
func etcdGet(args []string) error {
	dir := filepath.Join(args[0], "pki")
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, args[1]+".crt"), filepath.Join(dir, args[1]+".key"))
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(filepath.Join(dir, "etcd", "ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://127.0.0.1:2379"}, TLS: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	response, err := client.Get(ctx, args[2])
	if err != nil {
		return err
	}
	for _, kv := range response.Kvs {
		fmt.Printf("%s\n", kv.Value)
	}
	return client.Close()
}

// serve serves HTTP in a pod.
func serve([]string) error {
	fmt.Println("serving")
	return http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }))
}

// get prints the response of a URL: status and body.
func get(args []string) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Get(args[0])
	if err != nil {
		return err
	}
	body, err := io.ReadAll(response.Body)
	fmt.Println(response.StatusCode, strings.TrimSpace(string(body)))
	return err
}

func resolve(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	addresses, err := (&net.Resolver{PreferGo: true}).LookupHost(ctx, args[0])
	fmt.Println(strings.Join(addresses, " "))
	return err
}
