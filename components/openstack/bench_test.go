package openstack_test

import (
	"fmt"
	"testing"

	"regiond.dev/regiond/components/openstack"
)

func BenchmarkProgram(b *testing.B) {
	for _, hosts := range []int{2, 1000} {
		b.Run(fmt.Sprintf("%d hosts", hosts), func(b *testing.B) {
			in := programInput("epoxy")
			in.Hosts = nil
			for i := range hosts {
				in.Hosts = append(in.Hosts, openstack.Host{Name: fmt.Sprintf("node%d", i), Address: fmt.Sprintf("10.99.%d.%d", i/200, i%200+1)})
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := openstack.Desired(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOneHostChanges: of a thousand hosts, one registers its nova-compute.
func BenchmarkOneHostChanges(b *testing.B) {
	in := programInput("epoxy")
	in.Hosts = nil
	for i := range 1000 {
		in.Hosts = append(in.Hosts, openstack.Host{Name: fmt.Sprintf("node%d", i), Address: fmt.Sprintf("10.99.%d.%d", i/200, i%200+1)})
	}
	c, err := openstack.Default()
	if err != nil {
		b.Fatal(err)
	}
	last, err := c.Desired(in)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		in.Hosts[500].Registration = fmt.Sprint(n)
		if last, err = c.Next(in, last); err != nil {
			b.Fatal(err)
		}
	}
}
