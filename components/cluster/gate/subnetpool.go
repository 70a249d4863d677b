package gate

import (
	"context"
	"errors"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/subnetpools"
)

// probePrefix is for documentation only, and in nobody's network (RFC 5737).
const probePrefix = "192.0.2.0/24"

// proveSubnetPool creates a subnet pool, reads it and deletes it. Neutron's server writes it into its
// database and tells nobody: agents are sent networks, subnets, ports, security groups and address
// groups (neutron/plugins/ml2/ovo_rpc.py, neutron/api/rpc/agentnotifiers/dhcp_rpc_agent_api.py), and
// routers' agents an update of a pool's address scope, which this one doesn't have (neutron/db/l3_db.py).
func (t Target) proveSubnetPool(ctx context.Context, c *gophercloud.ServiceClient) (err error) {
	name := t.mark()
	fail := func(what string, err error) error { return fmt.Errorf("neutron %s: %s: %w", t.Neutron, what, err) }
	left, err := All(ctx, subnetpools.List(c, subnetpools.ListOpts{Name: name, Description: name}), subnetpools.ExtractSubnetPools)
	if err != nil {
		return fail("list subnet pools", err)
	}
	for _, p := range left {
		if p.Name != name || p.Description != name {
			continue // Neutron does not follow filters that it does not know
		}
		if err := Absent(subnetpools.Delete(ctx, c, p.ID).Err); err != nil {
			return fail("delete the subnet pool of an earlier probe", err)
		}
	}
	made, err := subnetpools.Create(ctx, c, subnetpools.CreateOpts{Name: name, Description: name, Prefixes: []string{probePrefix},
		DefaultPrefixLen: 28}).Extract()
	if err != nil {
		return fail("create a subnet pool", err)
	}
	defer func() {
		ctx, cancel := cleanup(ctx)
		defer cancel()
		if gone := Absent(subnetpools.Delete(ctx, c, made.ID).Err); gone != nil {
			err = errors.Join(err, fail("delete a subnet pool", gone))
		}
	}()
	read, err := subnetpools.Get(ctx, c, made.ID).Extract()
	if err != nil {
		return fail("read a subnet pool", err)
	}
	return expect("neutron "+t.Neutron, name, read.Name)
}
