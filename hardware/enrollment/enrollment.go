package enrollment

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// enrollmentLife is how long a join token that a person carries to a machine may be used.
const enrollmentLife = 24 * time.Hour

// Enrollment lets a machine join that regiond did not install.
type Enrollment struct {
	// Name of the Host.
	Name string
	// Profile whose configuration the host is to have; it must be one of the region's.
	Profile string
	// Again: the host has joined before, lost its certificate or runs on another machine now. Its Host, Lease
	// and rights are replaced.
	Again bool
	// KubernetesURL is the API server, https://address:6443.
	KubernetesURL string
	// CA certificates (PEM) that sign the certificates of both APIs.
	CA  []byte
	Now func() time.Time
}

// Enroll makes a Host without a Server, what its agent needs, and a join token. It returns what is to be the
// machine's identity. The token of an earlier call is void from then on.
func Enroll(ctx context.Context, c client.Client, e Enrollment) (identity.Identity, error) {
	fail := func(err error) (identity.Identity, error) {
		return identity.Identity{}, fmt.Errorf("enroll host %s: %w", e.Name, err)
	}
	if !isLabel(e.Name) {
		return fail(fmt.Errorf("%q is not a DNS label (RFC 1123): up to 63 of a-z, 0-9 and '-'", e.Name))
	}
	var regions region.RegionList
	if err := c.List(ctx, &regions); err != nil {
		return fail(err)
	}
	if len(regions.Items) != 1 {
		return fail(fmt.Errorf("there are %d Regions, not one; is regiond running with a region file?", len(regions.Items)))
	}
	reg := &regions.Items[0]
	role, err := roleOf(reg, e.Profile)
	if err != nil {
		return fail(err)
	}
	address, err := netip.ParseAddr(reg.Spec.Networks.Provisioning.Address)
	if err != nil {
		return fail(fmt.Errorf("spec.networks.provisioning.address of region %s: %w", reg.Name, err))
	}
	if e.Again {
		if err := host.RemoveEnrolled(ctx, c, e.Name); err != nil {
			return fail(err)
		}
	}
	h, err := host.Enroll(ctx, c, e.Name, role, e.Profile)
	if err != nil {
		return fail(err)
	}
	if beat, err := host.Heartbeat(ctx, c, h); err != nil {
		return fail(err)
	} else if !beat.IsZero() {
		return fail(fmt.Errorf("it has joined, and was last heard at %s; --again lets it join again", beat.UTC().Format(time.RFC3339)))
	}
	now := e.Now().UTC()
	token, err := issue(ctx, c, kindJoin, h, map[string]string{
		keyHostUID: string(h.UID), keyIssued: now.Format(time.RFC3339), keyExpires: now.Add(enrollmentLife).Format(time.RFC3339)})
	if err != nil {
		return fail(err)
	}
	return identity.Identity{Hostname: h.Name, RegionUID: string(reg.UID), Role: string(role),
		EnrollURL: "https://" + netip.AddrPortFrom(address, enroll.Port).String(), KubernetesURL: e.KubernetesURL, CA: string(e.CA), JoinToken: token}, nil
}

func roleOf(reg *region.Region, profile string) (region.Role, error) {
	if profile == "" {
		return region.RoleCompute, nil
	}
	for _, p := range reg.Spec.Hardware.Profiles {
		if p.Name == profile {
			if p.Role == "" {
				return region.RoleCompute, nil
			}
			return p.Role, nil
		}
	}
	return "", fmt.Errorf("profile %q is not in the hardware.profiles of region %s; name one of them or add it", profile, reg.Name)
}
