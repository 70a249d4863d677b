package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

// Foresee says what a declaration, if it replaced the stored one, would do to machines within seconds. It changes nothing.
func Foresee(ctx context.Context, r client.Reader, declared *region.Region, now time.Time) ([]region.Consequence, error) {
	stored := &region.Region{}
	if err := r.Get(ctx, client.ObjectKey{Name: declared.Name}, stored); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("region %s: %w", declared.Name, err)
	}
	var servers region.ServerList
	if err := r.List(ctx, &servers); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	known := make([]knownServer, len(servers.Items))
	for i := range servers.Items {
		s := &servers.Items[i]
		facts, err := ReadFacts(ctx, r, s)
		if err != nil {
			return nil, err
		}
		known[i] = knownServer{s, facts}
	}
	return foresee(stored, declared, known, now), nil
}

// knownServer is a Server and what is known of it.
type knownServer struct {
	*region.Server
	facts Facts
}

// foresee compares two declarations. It is pure.
func foresee(before, after *region.Region, known []knownServer, now time.Time) []region.Consequence {
	var all []region.Consequence
	for _, d := range after.Spec.Hardware.Discovery {
		if !slices.Contains(before.Spec.Hardware.Discovery, d) {
			all = append(all, region.Consequence{Consequence: fmt.Sprintf("BMCs are searched in %s at once, with the credentials %q; a server found there that is off "+
				"is powered on and inspected, and installed if a profile and a disk fit", d.Range, d.Credentials)})
		}
	}
	all = append(all, foreseeDeclared(before, after)...)
	for _, p := range after.Spec.Hardware.Profiles {
		had := slices.ContainsFunc(before.Spec.Hardware.Profiles, func(o region.Profile) bool { return o.Name == p.Name && o.RootDisk.Overwrite })
		if p.RootDisk.Overwrite && !had {
			all = append(all, region.Consequence{Consequence: fmt.Sprintf("profile %s allows the root disk of every server that it matches and that is not "+
				"installed to be overwritten, whatever it holds", p.Name)})
		}
	}
	for _, k := range known {
		if c := foreseeOverwrite(before, after, k, now); c != nil {
			all = append(all, *c)
		}
	}
	return all
}

// foreseeDeclared is about servers that are listed in region.yaml.
func foreseeDeclared(before, after *region.Region) []region.Consequence {
	var all []region.Consequence
	for _, s := range after.Spec.Hardware.Servers {
		old := declaredServer(before, s.Name)
		switch {
		case old == nil:
			all = append(all, region.Consequence{Server: s.Name, Consequence: fmt.Sprintf("its BMC at %s is contacted at once; if the machine is off it is "+
				"powered on and inspected, and installed if a profile and a disk fit", s.BMC.Address)})
		case old.BMC != s.BMC:
			all = append(all, region.Consequence{Server: s.Name, Consequence: fmt.Sprintf("its BMC is contacted at %s instead of %s", s.BMC.Address, old.BMC.Address)})
		}
	}
	for _, s := range before.Spec.Hardware.Servers {
		if declaredServer(after, s.Name) == nil {
			all = append(all, region.Consequence{Server: s.Name, Consequence: "it is no longer declared and is kept as it is until it is deleted: " +
				"regiond kubectl delete server " + s.Name})
		}
	}
	return all
}

func declaredServer(r *region.Region, name string) *region.StaticServer {
	for i, s := range r.Spec.Hardware.Servers {
		if s.Name == name {
			return &r.Spec.Hardware.Servers[i]
		}
	}
	return nil
}

// foreseeOverwrite names the disk of a server that holds data and is installed on with one declaration, and not with the other.
func foreseeOverwrite(before, after *region.Region, k knownServer, now time.Time) *region.Consequence {
	inv := k.facts.Status.Inventory
	desired := func(r *region.Region) Desired {
		want := Desired{Name: k.Name, UID: k.UID, Spec: k.Spec, RegionUID: before.UID, Profiles: r.Spec.Hardware.Profiles}
		if d := declaredServer(r, k.Name); d != nil {
			want.Spec.Profile = d.Profile
		}
		return want
	}
	want := desired(after)
	if _, installed := installation(want, k.facts, now); installed || inv == nil || want.Spec.Retired {
		return nil
	}
	plan, _, _ := Plan(want, inv, now)
	if plan == nil {
		return nil
	}
	d := plan.Disk
	evaluated := d.Evaluate(owner(want))
	if evaluated.Verdict == inventory.VerdictFree {
		return nil
	}
	if old, _, _ := Plan(desired(before), inv, now); old != nil && old.Disk == d {
		return nil
	}
	return &region.Consequence{Server: k.Name,
		Overwritten: &region.OverwrittenDisk{Name: d.Name, SerialNumber: d.SerialNumber, WWN: d.WWN, Holds: strings.TrimPrefix(evaluated.Holds, "holds ")},
		Consequence: fmt.Sprintf("disk %s, which %s, is overwritten when the server is installed, by profile %s", describe(*d), evaluated.Holds, plan.Profile.Name)}
}
