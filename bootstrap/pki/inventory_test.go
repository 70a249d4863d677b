package pki_test

import (
	"slices"
	"testing"
	"time"

	"regiond.dev/regiond/bootstrap/pki"
)

func TestInventory(t *testing.T) {
	c := &clock{start}
	p := load(t, t.TempDir(), c)
	issue(t, p.Etcd, "server", pki.Request{CN: "etcd", Usages: pki.Server})
	c.now = start.Add(time.Hour)
	issue(t, p.Cluster, "admin", pki.Request{CN: "admin", Usages: pki.Client})
	all, err := p.Inventory()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	if want := []string{"etcd/server", "admin", "ca", "etcd/ca", "front-proxy/ca"}; !slices.Equal(names, want) {
		t.Errorf("inventory %v, want %v", names, want)
	}
	if first := all[0]; first.Issuer != "regiond-etcd-ca" || first.Subject != "etcd" || first.Authority || !first.NotAfter.Equal(start.AddDate(1, 0, 0)) {
		t.Errorf("%+v", first)
	}
}

// What the inventory says of a certificate's user and renewal.
func TestInventorySaysWhoUsesAndWhenRenewed(t *testing.T) {
	dir := t.TempDir()
	p := load(t, dir, &clock{start})
	issue(t, p.Etcd, "server", pki.Request{CN: "etcd", Usages: pki.Server, UsedBy: "etcd"})
	find := func(all []pki.Certificate, err error) pki.Certificate {
		t.Helper()
		i := slices.IndexFunc(all, func(c pki.Certificate) bool { return c.Name == "etcd/server" })
		if err != nil || i < 0 {
			t.Fatalf("got %v, %v, want etcd/server among them", all, err)
		}
		return all[i]
	}
	c := find(p.Inventory())
	if c.UsedBy != "etcd" {
		t.Errorf("got used by %q, want etcd", c.UsedBy)
	}
	for at, want := range map[time.Time]bool{
		start: false, c.RenewFrom: false, c.RenewFrom.AddDate(0, 0, 2): false, c.RenewFrom.AddDate(0, 0, 4): true, c.NotAfter.AddDate(0, 0, 1): true,
	} {
		if got := c.Overdue(at); got != want {
			t.Errorf("on %s, renewed from %s: got overdue %t, want %t", at, c.RenewFrom, got, want)
		}
	}
	// Without a running regiond, from the files alone.
	if read := find(pki.Inventory(dir)); read.UsedBy != "" || !read.NotAfter.Equal(c.NotAfter) || !read.RenewFrom.Equal(c.RenewFrom) {
		t.Errorf("got %+v from the files, want the times of %+v and no user", read, c)
	}
	later := load(t, dir, &clock{c.RenewFrom})
	issue(t, later.Etcd, "server", pki.Request{CN: "etcd", Usages: pki.Server, UsedBy: "etcd"})
	if renewed := find(later.Inventory()); !renewed.NotAfter.After(c.NotAfter) {
		t.Errorf("got a certificate until %s at %s, want a renewed one: that is what RenewFrom says", renewed.NotAfter, c.RenewFrom)
	}
}
