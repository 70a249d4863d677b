package check_test

import "testing"

func TestNetworks(t *testing.T) {
	runBadInput(t, []badInput{
		{name: "overlapping networks", changes: []string{"cidr: 10.30.0.0/24", "cidr: 10.20.0.0/16", "address: 10.30.0.2\n", "address: 10.20.3.2\n"}, want: []string{
			`16:13: spec.networks.bmc.cidr: "10.20.0.0/16" overlaps 10.20.0.0/24 of spec.networks.provisioning.cidr (line 8); choose a separate network, or leave bmc out if BMCs answer in the other one`,
		}},
		{name: "pods overlap a network", changes: []string{"podCIDR: 10.42.0.0/16", "podCIDR: 10.0.0.0/8"}, want: []string{
			`19:14: spec.controlPlane.podCIDR: "10.0.0.0/8" overlaps 10.20.0.0/24 of spec.networks.provisioning.cidr (line 8); choose a network that nothing else uses`,
			`19:14: spec.controlPlane.podCIDR: "10.0.0.0/8" overlaps 10.30.0.0/24 of spec.networks.bmc.cidr (line 16); choose a network that nothing else uses`,
			`19:14: spec.controlPlane.podCIDR: "10.0.0.0/8" overlaps 10.43.0.0/16, the default of spec.controlPlane.serviceCIDR; set spec.controlPlane.serviceCIDR to a network that nothing else uses`,
		}},
		{name: "a network overlaps a default", changes: []string{"cidr: 10.30.0.0/24", "cidr: 10.43.7.0/24", "address: 10.30.0.2\n", "address: 10.43.7.2\n"}, want: []string{
			`16:13: spec.networks.bmc.cidr: "10.43.7.0/24" overlaps 10.43.0.0/16, the default of spec.controlPlane.serviceCIDR; set spec.controlPlane.serviceCIDR to a network that nothing else uses`,
		}},
		{name: "management overlaps without being the same", changes: []string{"    bmc:\n      cidr", "    management: {cidr: 10.20.0.0/23, address: 10.20.0.3}\n    bmc:\n      cidr"}, want: []string{
			`15:24: spec.networks.management.cidr: "10.20.0.0/23" overlaps 10.20.0.0/24 of spec.networks.provisioning.cidr (line 8); use the same network 10.20.0.0/24, leave management out, or choose a separate one`,
		}},
		{name: "management is the provisioning network", changes: []string{"    bmc:\n      cidr", "    management: {cidr: 10.20.0.0/24, address: 10.20.0.2}\n    bmc:\n      cidr"}},
		{name: "management without address", changes: []string{"    bmc:\n      cidr", "    management: {cidr: 10.10.0.0/24}\n    bmc:\n      cidr"}, want: []string{
			`15:5: spec.networks.management.address: required field is missing: the Kubernetes API is served on it; give the seed host's address in this network`,
		}},
		{name: "provisioning without address", changes: []string{"      address: 10.20.0.2\n", ""}, want: []string{
			`7:5: spec.networks.provisioning.address: required field is missing: DHCP, TFTP and HTTP are served on it; give the seed host's address in this network`,
		}},
		{name: "not canonical", changes: []string{"cidr: 10.30.0.0/24", "cidr: 10.30.0.7/24"}, want: []string{
			`16:13: spec.networks.bmc.cidr: "10.30.0.7/24" is an address inside a network, not a network; did you mean "10.30.0.0/24"?`,
		}},
		{name: "no prefix length", changes: []string{"cidr: 10.30.0.0/24", "cidr: 10.30.0.0"}, want: []string{
			`16:13: spec.networks.bmc.cidr: "10.30.0.0" is not a network in CIDR notation; add the prefix length, e.g. 10.30.0.0/24`,
		}},
		{name: "netmask", changes: []string{"cidr: 10.30.0.0/24", "cidr: 10.30.0.0/255.255.255.0"}, want: []string{
			`16:13: spec.networks.bmc.cidr: "10.30.0.0/255.255.255.0" is not a network in CIDR notation; did you mean "10.30.0.0/24"?`,
		}},
		{name: "not a network", changes: []string{"cidr: 10.30.0.0/24", "cidr: rack"}, want: []string{
			`16:13: spec.networks.bmc.cidr: "rack" is not a network in CIDR notation; write address/length, e.g. 10.20.0.0/24`,
		}},
		{name: "IPv6", changes: []string{"cidr: 10.30.0.0/24", `cidr: "fd00::/64"`}, want: []string{
			`16:13: spec.networks.bmc.cidr: "fd00::/64" is not an IPv4 network; regiond's networks are IPv4`,
		}},
		{name: "loopback", changes: []string{"cidr: 10.30.0.0/24", "cidr: 127.0.0.0/8"}, want: []string{
			`16:13: spec.networks.bmc.cidr: "127.0.0.0/8" overlaps a network that is reserved for loopback (RFC 1122 section 3.2.1.3); choose one of the private networks (RFC 1918)`,
		}},
		{name: "too small", changes: []string{"cidr: 10.30.0.0/24", "cidr: 10.30.0.2/31"}, want: []string{
			`16:13: spec.networks.bmc.cidr: "10.30.0.2/31" has a prefix length outside of 8 to 30; a network of servers is usually a /24 to /16`,
		}},
		{name: "pods too few for nodes", changes: []string{"podCIDR: 10.42.0.0/16", "podCIDR: 10.42.0.0/25"}, want: []string{
			`19:14: spec.controlPlane.podCIDR: "10.42.0.0/25" has a prefix length outside of 8 to 24: each node gets a /24 of it; did you mean "10.42.0.0/24"?`,
		}},
		{name: "seed address outside", changes: []string{"address: 10.30.0.2\n", "address: 10.31.0.2\n"}, want: []string{
			`17:16: spec.networks.bmc.address: "10.31.0.2" is not in the network 10.30.0.0/24; choose from 10.30.0.1-10.30.0.254`,
		}},
		{name: "seed address is the network", changes: []string{"address: 10.30.0.2\n", "address: 10.30.0.0\n"}, want: []string{
			`17:16: spec.networks.bmc.address: "10.30.0.0" is the network address of 10.30.0.0/24; choose from 10.30.0.1-10.30.0.254`,
		}},
		{name: "seed address is broadcast", changes: []string{"address: 10.30.0.2\n", "address: 10.30.0.255\n"}, want: []string{
			`17:16: spec.networks.bmc.address: "10.30.0.255" is the broadcast address of 10.30.0.0/24; choose from 10.30.0.1-10.30.0.254`,
		}},
		{name: "seed address with prefix length", changes: []string{"address: 10.30.0.2\n", "address: 10.30.0.2/24\n"}, want: []string{
			`17:16: spec.networks.bmc.address: "10.30.0.2/24" is not an IPv4 address; did you mean "10.30.0.2"?`,
		}},
		{name: "seed address with zeros", changes: []string{"address: 10.30.0.2\n", "address: 10.030.0.2\n"}, want: []string{
			`17:16: spec.networks.bmc.address: "10.030.0.2" is not an IPv4 address; did you mean "10.30.0.2"?`,
		}},
		{name: "gateway outside", changes: []string{"      gateway: 10.20.0.1\n      dhcp", "      gateway: 10.20.1.1\n      dhcp"}, want: []string{
			`10:16: spec.networks.provisioning.gateway: "10.20.1.1" is not in the network 10.20.0.0/24; choose from 10.20.0.1-10.20.0.254`,
		}},
		{name: "gateway is the seed host", changes: []string{"      gateway: 10.20.0.1\n      dhcp", "      gateway: 10.20.0.2\n      dhcp"}, want: []string{
			`10:16: spec.networks.provisioning.gateway: "10.20.0.2" is the seed host's own address spec.networks.provisioning.address (line 9); give the router's address, or leave it out`,
		}},
		{name: "interface name", changes: []string{"      dns:", "      interface: averyverylongname\n      dns:"}, want: []string{
			`14:18: spec.networks.provisioning.interface: "averyverylongname" has 17 bytes, an interface name at most 15; write a shorter name`,
		}},
		{name: "DNS server by name", changes: []string{"dns: [10.20.0.1]", "dns: [ns.example.net]"}, want: []string{
			`14:13: spec.networks.provisioning.dns[0]: "ns.example.net" is not an IPv4 address; DHCP option 6 carries addresses, not names`,
		}},
		{name: "DHCP range outside of its network", changes: []string{"10.20.0.100-10.20.0.199", "10.21.0.100-10.21.0.199"}, want: []string{
			`12:16: spec.networks.provisioning.dhcp.range: "10.21.0.100-10.21.0.199" is outside of the provisioning network 10.20.0.0/24; choose from 10.20.0.1-10.20.0.254`,
		}},
		{name: "DHCP range half outside", changes: []string{"10.20.0.100-10.20.0.199", "10.20.0.100-10.20.1.20"}, want: []string{
			`12:16: spec.networks.provisioning.dhcp.range: "10.20.0.100-10.20.1.20" is outside of the provisioning network 10.20.0.0/24; choose from 10.20.0.1-10.20.0.254`,
		}},
		{name: "DHCP range in the wrong order", changes: []string{"10.20.0.100-10.20.0.199", "10.20.0.199-10.20.0.100"}, want: []string{
			`12:16: spec.networks.provisioning.dhcp.range: "10.20.0.199-10.20.0.100" ends before it begins; did you mean "10.20.0.100-10.20.0.199"?`,
		}},
		{name: "DHCP range in short form", changes: []string{"10.20.0.100-10.20.0.199", "10.20.0.100-199"}, want: []string{
			`12:16: spec.networks.provisioning.dhcp.range: "10.20.0.100-199" ends with "199", which is not an IPv4 address; did you mean "10.20.0.100-10.20.0.199"?`,
		}},
		{name: "DHCP range as a network", changes: []string{"10.20.0.100-10.20.0.199", "10.20.0.128/25"}, want: []string{
			`12:16: spec.networks.provisioning.dhcp.range: "10.20.0.128/25" is not an address range first-last; did you mean "10.20.0.129-10.20.0.254"?`,
		}},
		{name: "DHCP range with everything in it", changes: []string{"10.20.0.100-10.20.0.199", "10.20.0.0-10.20.0.255"}, want: []string{
			`12:16: spec.networks.provisioning.dhcp.range: "10.20.0.0-10.20.0.255" contains 10.20.0.0, the network address; choose from 10.20.0.1-10.20.0.254`,
			`12:16: spec.networks.provisioning.dhcp.range: "10.20.0.0-10.20.0.255" contains 10.20.0.255, the broadcast address; choose from 10.20.0.1-10.20.0.254`,
			`12:16: spec.networks.provisioning.dhcp.range: "10.20.0.0-10.20.0.255" contains the seed host's address 10.20.0.2 of spec.networks.provisioning.address (line 9); end the range before it or begin it after it`,
			`12:16: spec.networks.provisioning.dhcp.range: "10.20.0.0-10.20.0.255" contains the address 10.20.0.1 of spec.networks.provisioning.gateway (line 10); end the range before it or begin it after it`,
			`12:16: spec.networks.provisioning.dhcp.range: "10.20.0.0-10.20.0.255" contains the address 10.20.0.60 of spec.hardware.profiles[0].network.bonds[0].addresses[0] (line 61); end the range before it or begin it after it`,
		}},
		{name: "lease time too short", changes: []string{"leaseTime: 1h", "leaseTime: 90s"}, want: []string{
			`13:20: spec.networks.provisioning.dhcp.leaseTime: "90s" is less than 2m; clients renew at half of it, while an installer may be busy; write 2m or more`,
		}},
		{name: "lease time in days", changes: []string{"leaseTime: 1h", "leaseTime: 1d"}, want: []string{
			`13:20: spec.networks.provisioning.dhcp.leaseTime: "1d" is not a duration; write hours, minutes and seconds, e.g. 1h30m`,
		}},
		{name: "lease time in an unusual form", changes: []string{"leaseTime: 1h", "leaseTime: 1.5h"}, want: []string{
			`13:20: spec.networks.provisioning.dhcp.leaseTime: "1.5h" is not in whole hours, minutes and seconds; did you mean "1h30m0s"?`,
		}},
		{name: "lease time too long", changes: []string{"leaseTime: 1h", "leaseTime: 2000000h"}, want: []string{
			`13:20: spec.networks.provisioning.dhcp.leaseTime: "2000000h" does not fit the 32 bits of DHCP's lease time (RFC 2132 section 9.2); write less`,
		}},
	})
}

func TestControlPlane(t *testing.T) {
	runBadInput(t, []badInput{
		{name: "relative dataDir", changes: []string{"podCIDR: 10.42.0.0/16", "dataDir: var/lib/regiond"}, want: []string{
			`19:14: spec.controlPlane.dataDir: "var/lib/regiond" is not an absolute path; begin it with '/'; it is a path on the seed host`,
		}},
		{name: "unclean dataDir", changes: []string{"podCIDR: 10.42.0.0/16", "dataDir: /srv//regiond/"}, want: []string{
			`19:14: spec.controlPlane.dataDir: "/srv//regiond/" is not a clean path; did you mean "/srv/regiond"?`,
		}},
		{name: "dataDir of the system", changes: []string{"podCIDR: 10.42.0.0/16", "dataDir: /var/lib/"}, want: []string{
			`19:14: spec.controlPlane.dataDir: "/var/lib/" is a directory of the system, which regiond would share with others; did you mean "/var/lib/regiond"?`,
		}},
		{name: "images dir", changes: []string{"node: trixie", "dir: ./images"}, want: []string{
			`65:10: spec.images.dir: "./images" is not an absolute path; begin it with '/'; it is a path on the seed host`,
		}},
		{name: "name of the region", changes: []string{"name: north-1", "name: North_1"}, want: []string{
			`4:9: metadata.name: "North_1" is not a DNS label (RFC 1123); did you mean "north-1"?`,
		}},
	})
}

func TestHardware(t *testing.T) {
	runBadInput(t, []badInput{
		{name: "duplicate server name", changes: []string{"name: r1-2", "name: r1-1"}, want: []string{
			`33:15: spec.hardware.servers[1].name: "r1-1" is already the name of the server spec.hardware.servers[0].name (line 28); give each server its own name`,
		}},
		{name: "duplicate BMC", changes: []string{"address: 10.30.0.61", "address: 10.30.0.60"}, want: []string{
			`35:20: spec.hardware.servers[1].bmc.address: "10.30.0.60" port 623 is already the BMC of the server "r1-1", spec.hardware.servers[0].bmc.address (line 30); each server has its own BMC; remove one of the two or correct its address`,
		}},
		{name: "one NIC in two servers", changes: []string{"      - name: r1-2\n", "        macAddresses: [\"0c:c4:7a:3b:5c:1e\"]\n      - name: r1-2\n        macAddresses: [\"0C:C4:7A:3B:5C:1E\"]\n"}, want: []string{
			`35:24: spec.hardware.servers[1].macAddresses[0]: "0C:C4:7A:3B:5C:1E" is listed twice, first at spec.hardware.servers[0].macAddresses[0] (line 33); a NIC belongs to one server; remove one of the two`,
		}},
		{name: "not a MAC address", changes: []string{"      - name: r1-2\n", "      - name: r1-2\n        macAddresses: [0cc47a3b5c1e]\n"}, want: []string{
			`34:24: spec.hardware.servers[1].macAddresses[0]: "0cc47a3b5c1e" has the wrong form, must match ^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$`,
		}},
		{name: "same BMC address, another port", changes: []string{"address: 10.30.0.61", "address: 10.30.0.60\n          port: 6230"}},
		{name: "duplicate credential", changes: []string{"    discovery:\n", "      - name: rack-1\n        file: /etc/regiond/x\n    discovery:\n"}, want: []string{
			`24:15: spec.hardware.credentials[1].name: "rack-1" is already the name of the credential spec.hardware.credentials[0].name (line 22); give each credential its own name`,
		}},
		{name: "duplicate profile", changes: []string{"- name: other", "- name: compute"}, want: []string{
			`63:15: spec.hardware.profiles[1].name: "compute" is already the name of the profile spec.hardware.profiles[0].name (line 38); give each profile its own name`,
		}},
		{name: "missing secret reference", changes: []string{"        credentials: rack-1\n    servers", "        credentials: rak-1\n    servers"}, want: []string{
			`26:22: spec.hardware.discovery[0].credentials: "rak-1" is not the name of any credential in spec.hardware.credentials; did you mean "rack-1"?`,
		}},
		{name: "missing secret reference of a server", changes: []string{"          address: 10.30.0.61\n          credentials: rack-1", "          address: 10.30.0.61\n          credentials: storage"}, want: []string{
			`36:24: spec.hardware.servers[1].bmc.credentials: "storage" is not the name of any credential in spec.hardware.credentials; the only credential is "rack-1"`,
		}},
		{name: "no credentials at all", changes: []string{"    credentials:\n      - name: rack-1\n        file: /etc/regiond/rack-1.yaml\n", ""}, want: []string{
			`23:22: spec.hardware.discovery[0].credentials: "rack-1" is not the name of any credential in spec.hardware.credentials; add one there`,
			`28:24: spec.hardware.servers[0].bmc.credentials: "rack-1" is not the name of any credential in spec.hardware.credentials; add one there`,
			`33:24: spec.hardware.servers[1].bmc.credentials: "rack-1" is not the name of any credential in spec.hardware.credentials; add one there`,
		}},
		{name: "credentials that are not understood", changes: []string{"    credentials:\n      - name: rack-1\n        file: /etc/regiond/rack-1.yaml\n", "    credentials: rack-1\n"}, want: []string{
			`21:18: spec.hardware.credentials: "rack-1" is a string, must be a list; begin each item with '- '`,
		}},
		{name: "missing profile", changes: []string{"profile: compute", "profile: computer"}, want: []string{
			`32:18: spec.hardware.servers[0].profile: "computer" is not the name of any profile in spec.hardware.profiles; did you mean "compute"?`,
		}},
		{name: "relative credential file", changes: []string{"file: /etc/regiond/rack-1.yaml", "file: rack-1.yaml"}, want: []string{
			`23:15: spec.hardware.credentials[0].file: "rack-1.yaml" is not an absolute path; begin it with '/'; it is a path on the seed host`,
		}},
		{name: "server name", changes: []string{"name: r1-2", "name: R1_2"}, want: []string{
			`33:15: spec.hardware.servers[1].name: "R1_2" is not a DNS label (RFC 1123); did you mean "r1-2"?`,
		}},
		{name: "BMC by name", changes: []string{"address: 10.30.0.61", "address: bmc.example.net"}, want: []string{
			`35:20: spec.hardware.servers[1].bmc.address: "bmc.example.net" is not an IP address; write it like 10.30.0.11`,
		}},
		{name: "BMC with port", changes: []string{"address: 10.30.0.61", "address: 10.30.0.61:623"}, want: []string{
			`35:20: spec.hardware.servers[1].bmc.address: "10.30.0.61:623" is not an IP address; did you mean "10.30.0.61"?`,
		}},
		{name: "BMC is the seed host", changes: []string{"address: 10.30.0.61", "address: 10.30.0.2"}, want: []string{
			`35:20: spec.hardware.servers[1].bmc.address: "10.30.0.2" is the seed host's own address spec.networks.bmc.address (line 17); give the address of the BMC`,
		}},
		{name: "BMC in the DHCP range", changes: []string{"address: 10.30.0.61", "address: 10.20.0.150"}, want: []string{
			`12:16: spec.networks.provisioning.dhcp.range: "10.20.0.100-10.20.0.199" contains the address 10.20.0.150 of spec.hardware.servers[1].bmc.address (line 35); end the range before it or begin it after it`,
		}},
		{name: "protocol", changes: []string{"address: 10.30.0.61", "address: 10.30.0.61\n          protocol: IPMI"}, want: []string{
			`36:21: spec.hardware.servers[1].bmc.protocol: "IPMI" is not supported; did you mean "ipmi"?`,
		}},
		{name: "discovery of the seed host", changes: []string{"10.30.0.10-10.30.0.50", "10.30.0.1-10.30.0.50"}, want: []string{
			`25:16: spec.hardware.discovery[0].range: "10.30.0.1-10.30.0.50" contains the seed host's own address 10.30.0.2 of spec.networks.bmc.address (line 17); end the range before it or begin it after it`,
		}},
		{name: "discovery too wide", changes: []string{"10.30.0.10-10.30.0.50", "10.30.0.10-10.31.0.50"}, want: []string{
			`25:16: spec.hardware.discovery[0].range: "10.30.0.10-10.31.0.50" is not within one /16; split it; a search of more than 65,536 addresses takes too long`,
		}},
		{name: "discovery as a network", changes: []string{"10.30.0.10-10.30.0.50", "10.33.0.0/28"}, want: []string{
			`25:16: spec.hardware.discovery[0].range: "10.33.0.0/28" is not an address range first-last; did you mean "10.33.0.1-10.33.0.14"?`,
		}},
		{name: "discovery overlaps", changes: []string{"    servers:\n", "      - {range: 10.30.0.50-10.30.0.55, credentials: rack-1}\n    servers:\n"}, want: []string{
			`27:17: spec.hardware.discovery[1].range: "10.30.0.50-10.30.0.55" overlaps 10.30.0.10-10.30.0.50 of spec.hardware.discovery[0].range (line 25); each address is searched once; make the ranges separate`,
		}},
		{name: "discovery of other ports", changes: []string{"    servers:\n", "      - {range: 10.30.0.50-10.30.0.55, credentials: rack-1, port: 6230}\n    servers:\n"}},
		{name: "unreachable profile", changes: []string{"        match:\n          manufacturer: Dell*\n          minMemory: 64Gi\n", "", "        profile: compute\n", ""}, want: []string{
			`59:15: spec.hardware.profiles[1].name: "other" is never reached: the profile "compute" before it, spec.hardware.profiles[0] (line 37), takes every server; move it before that one, or name it in a server's profile`,
		}},
		{name: "profile that is reached by name", changes: []string{"- name: other", "- name: other\n      - name: named", "profile: compute", "profile: named"}},
	})
}

func TestProfiles(t *testing.T) {
	runBadInput(t, []badInput{
		{name: "quantity with B", changes: []string{"minMemory: 64Gi", "minMemory: 64 GB"}, want: []string{
			`41:22: spec.hardware.profiles[0].match.minMemory: "64 GB" is not a quantity of bytes; did you mean "64G"?`,
		}},
		{name: "quantity in milli", changes: []string{"minMemory: 64Gi", "minMemory: 64m"}, want: []string{
			`41:22: spec.hardware.profiles[0].match.minMemory: "64m" is not a quantity of bytes; did you mean "64M"?`,
		}},
		{name: "quantity of a word", changes: []string{"minMemory: 64Gi", "minMemory: lots"}, want: []string{
			`41:22: spec.hardware.profiles[0].match.minMemory: "lots" is not a quantity of bytes; write a number with Ki, Mi, Gi, Ti (1024) or k, M, G, T (1000), e.g. 64Gi`,
		}},
		{name: "quantity with exponent", changes: []string{"minMemory: 64Gi", "minMemory: \"1e999999999\""}, want: []string{
			`41:22: spec.hardware.profiles[0].match.minMemory: "1e999999999" is not a quantity of bytes; write a number with Ki, Mi, Gi, Ti (1024) or k, M, G, T (1000), e.g. 64Gi`,
		}},
		{name: "quantity of zero", changes: []string{"minMemory: 64Gi", "minMemory: 0Gi"}, want: []string{
			`41:22: spec.hardware.profiles[0].match.minMemory: "0Gi" is not more than zero; write e.g. 64Gi, or leave the field out`,
		}},
		{name: "quantity too large", changes: []string{"minMemory: 64Gi", "minMemory: 64000000000Ei"}, want: []string{
			`41:22: spec.hardware.profiles[0].match.minMemory: "64000000000Ei" is more than any server has; write e.g. 64Gi`,
		}},
		{name: "shell pattern", changes: []string{"manufacturer: Dell*", `manufacturer: "R[7"`}, want: []string{
			`40:25: spec.hardware.profiles[0].match.manufacturer: "R[7" is not a shell pattern; close each '[' with ']'; for the character itself write \[`,
		}},
		{name: "white space", changes: []string{"manufacturer: Dell*", `manufacturer: "Dell "`}, want: []string{
			`40:25: spec.hardware.profiles[0].match.manufacturer: "Dell " begins or ends with white space, which is never part of what hardware reports; did you mean "Dell"?`,
		}},
		{name: "serial number twice", changes: []string{"minMemory: 64Gi", "serialNumbers: [A1, A1]"}, want: []string{
			`41:31: spec.hardware.profiles[0].match.serialNumbers[1]: "A1" is given twice, first at spec.hardware.profiles[0].match.serialNumbers[0] (line 41); remove one of them`,
		}},
		{name: "sizes exchanged", changes: []string{"maxSize: 1T", "maxSize: 100G"}, want: []string{
			`44:20: spec.hardware.profiles[0].rootDisk.maxSize: "100G" is less than "200G" of spec.hardware.profiles[0].rootDisk.minSize (line 43): no disk fits; exchange them`,
		}},
		{name: "WWN of lsblk", changes: []string{"naa.5002538e40a1b2c3", `"0x5002538e40a1b2c3"`}, want: []string{
			`45:16: spec.hardware.profiles[0].rootDisk.wwn: "0x5002538e40a1b2c3" is not a WWN as the kernel shows it; did you mean "naa.5002538e40a1b2c3"?`,
		}},
		{name: "WWN in upper case", changes: []string{"naa.5002538e40a1b2c3", "eui.0025388B710114B1"}, want: []string{
			`45:16: spec.hardware.profiles[0].rootDisk.wwn: "eui.0025388B710114B1" is not a WWN as the kernel shows it; did you mean "eui.0025388b710114b1"?`,
		}},
		{name: "WWN of a device", changes: []string{"naa.5002538e40a1b2c3", "/dev/sda"}, want: []string{
			`45:16: spec.hardware.profiles[0].rootDisk.wwn: "/dev/sda" is not a WWN as the kernel shows it; read it from /sys/block/<disk>/wwid or /sys/block/<disk>/device/wwid`,
		}},
		{name: "WWN without a WWN", changes: []string{"naa.5002538e40a1b2c3", "t10.ATA_QEMU_HARDDISK_QM00001"}, want: []string{
			`45:16: spec.hardware.profiles[0].rootDisk.wwn: "t10.ATA_QEMU_HARDDISK_QM00001" is made of vendor, model and serial number, and is not a WWN; give serialNumber instead`,
		}},
		{name: "serial number of a device", changes: []string{"wwn: naa.5002538e40a1b2c3", "serialNumber: /dev/sda"}, want: []string{
			`45:25: spec.hardware.profiles[0].rootDisk.serialNumber: "/dev/sda" is a device name, which may be another disk after the next boot; give what lsblk -o NAME,SERIAL shows`,
		}},
		{name: "disk type", changes: []string{"wwn: naa.5002538e40a1b2c3", "type: nvme"}, want: []string{
			`45:17: spec.hardware.profiles[0].rootDisk.type: "nvme" is not supported; did you mean "NVMe"?`,
		}},
		{name: "kernel argument with a space", changes: []string{"- iommu=pt", "- iommu=pt quiet"}, want: []string{
			`47:13: spec.hardware.profiles[0].kernelArguments[0]: "iommu=pt quiet" has white space; write one item for each: "iommu=pt", "quiet"`,
		}},
		{name: "kernel argument with a newline", changes: []string{"- iommu=pt", `- "iommu=pt\n"`}, want: []string{
			`47:13: spec.hardware.profiles[0].kernelArguments[0]: "iommu=pt\n" has white space; did you mean "iommu=pt"?`,
		}},
		{name: "kernel argument root", changes: []string{"- iommu=pt", "- root=/dev/sda2"}, want: []string{
			`47:13: spec.hardware.profiles[0].kernelArguments[0]: "root=/dev/sda2" is owned by the image; remove it; the image sets root= to the slot that it boots`,
		}},
		{name: "kernel argument of regiond", changes: []string{"- iommu=pt", "- regiond.mode=install"}, want: []string{
			`47:13: spec.hardware.profiles[0].kernelArguments[0]: "regiond.mode=install" is owned by regiond; remove it; arguments that begin with regiond. are set by the image`,
		}},
		{name: "kernel argument in UTF-8", changes: []string{"- iommu=pt", "- härte=1"}, want: []string{
			`47:13: spec.hardware.profiles[0].kernelArguments[0]: "härte=1" has characters other than printable ASCII; write ASCII only`,
		}},
	})
}

func TestHostNetwork(t *testing.T) {
	const mac = "                permanentMACAddress: 3c:ec:ef:12:34:56\n"
	runBadInput(t, []badInput{
		{name: "name too long", changes: []string{"- name: bond0", "- name: averyverylongbond"}, want: []string{
			`57:21: spec.hardware.profiles[0].network.bonds[0].name: "averyverylongbond" has 17 bytes, an interface name at most 15; write a shorter name`,
		}},
		{name: "name with a colon", changes: []string{"- name: bond0", "- name: \"bond0:1\""}, want: []string{
			`57:21: spec.hardware.profiles[0].network.bonds[0].name: "bond0:1" is not an interface name; use letters, digits, '-', '_' and '.'`,
		}},
		{name: "name of the kernel", changes: []string{"- name: bond0", "- name: lo"}, want: []string{
			`57:21: spec.hardware.profiles[0].network.bonds[0].name: "lo" is kept by the kernel for itself; choose another name, e.g. lan0`,
		}},
		{name: "name twice", changes: []string{"- name: bond0", "- name: lan1"}, want: []string{
			`57:21: spec.hardware.profiles[0].network.bonds[0].name: "lan1" is already the name of spec.hardware.profiles[0].network.interfaces[1].name (line 53); give each interface and bond its own name`,
		}},
		{name: "no match", changes: []string{"              match:\n" + mac, ""}, want: []string{
			`50:15: spec.hardware.profiles[0].network.interfaces[0].match: required field is missing; add match: Match selects the interface among those in the inventory. It must fit exactly one`,
		}},
		{name: "empty match", changes: []string{"              match:\n" + mac, "              match: {}\n"}, want: []string{
			`51:15: spec.hardware.profiles[0].network.interfaces[0].match: has 0 fields, must have exactly one; give one of boot, pciAddress, permanentMACAddress`,
		}},
		{name: "match of nothing", changes: []string{"              match:\n" + mac, "              match: {boot: false}\n"}, want: []string{
			`51:29: spec.hardware.profiles[0].network.interfaces[0].match.boot: "false" selects nothing; write boot: true, permanentMACAddress or pciAddress`,
		}},
		{name: "two matches", changes: []string{mac, mac + "                boot: true\n"}, want: []string{
			`51:15: spec.hardware.profiles[0].network.interfaces[0].match: has 2 fields, must have exactly one; give one of boot, pciAddress, permanentMACAddress`,
		}},
		{name: "MAC address with dashes", changes: []string{"3c:ec:ef:12:34:56", "3C-EC-EF-12-34-56"}, want: []string{
			`52:38: spec.hardware.profiles[0].network.interfaces[0].match.permanentMACAddress: "3C-EC-EF-12-34-56" is not in lower-case colon notation; did you mean "3c:ec:ef:12:34:56"?`,
		}},
		{name: "MAC address too short", changes: []string{"3c:ec:ef:12:34:56", "3c:ec:ef:12:34"}, want: []string{
			`52:38: spec.hardware.profiles[0].network.interfaces[0].match.permanentMACAddress: "3c:ec:ef:12:34" is not a MAC address; write six pairs of hexadecimal digits, e.g. 3c:ec:ef:12:34:56`,
		}},
		{name: "group MAC address", changes: []string{"3c:ec:ef:12:34:56", "01:00:5e:00:00:01"}, want: []string{
			`52:38: spec.hardware.profiles[0].network.interfaces[0].match.permanentMACAddress: "01:00:5e:00:00:01" is a group address, which no interface has; give the address of the interface`,
		}},
		{name: "PCI address without domain", changes: []string{"0000:3b:00.1", `"3B:00.1"`}, want: []string{
			`55:29: spec.hardware.profiles[0].network.interfaces[1].match.pciAddress: "3B:00.1" is not a PCI address; did you mean "0000:3b:00.1"?`,
		}},
		{name: "same hardware twice", changes: []string{"pciAddress: 0000:3b:00.1", "permanentMACAddress: 3c:ec:ef:12:34:56"}, want: []string{
			`55:38: spec.hardware.profiles[0].network.interfaces[1].match.permanentMACAddress: "3c:ec:ef:12:34:56" is already matched by spec.hardware.profiles[0].network.interfaces[0].match.permanentMACAddress (line 52); each interface has its own hardware`,
		}},
		{name: "bond member that does not exist", changes: []string{"[lan0, lan1]", "[lan0, lan2]"}, want: []string{
			`58:34: spec.hardware.profiles[0].network.bonds[0].interfaces[1]: "lan2" is not the name of any interface of this network; did you mean "lan0"?`,
		}},
		{name: "bond member twice", changes: []string{"[lan0, lan1]", "[lan0, lan0]"}, want: []string{
			`58:34: spec.hardware.profiles[0].network.bonds[0].interfaces[1]: "lan0" is already a member at spec.hardware.profiles[0].network.bonds[0].interfaces[0] (line 58); an interface is in one bond, once`,
		}},
		{name: "bond member in two bonds", changes: []string{"      - name: other\n", "            - {name: bond1, interfaces: [lan1]}\n      - name: other\n"}, want: []string{
			`63:42: spec.hardware.profiles[0].network.bonds[1].interfaces[0]: "lan1" is already a member at spec.hardware.profiles[0].network.bonds[0].interfaces[1] (line 58); an interface is in one bond, once`,
		}},
		{name: "bond without members", changes: []string{"[lan0, lan1]", "[]"}, want: []string{
			`58:27: spec.hardware.profiles[0].network.bonds[0].interfaces: has 0 items, must have at least 1`,
		}},
		{name: "bond member with addresses", changes: []string{mac, mac + "              dhcp: true\n              mtu: 9000\n"}, want: []string{
			`53:21: spec.hardware.profiles[0].network.interfaces[0].dhcp: "true" is set on a member of a bond, spec.hardware.profiles[0].network.bonds[0].interfaces[0] (line 60); write it at the bond`,
			`54:20: spec.hardware.profiles[0].network.interfaces[0].mtu: "9000" is set on a member of a bond, spec.hardware.profiles[0].network.bonds[0].interfaces[0] (line 60), which sets the MTU of its members; write it at the bond`,
		}},
		{name: "mode", changes: []string{"mode: 802.3ad", "mode: active-bakup"}, want: []string{
			`59:21: spec.hardware.profiles[0].network.bonds[0].mode: "active-bakup" is not supported; did you mean "active-backup"?`,
		}},
		{name: "LACP rate", changes: []string{"lacpRate: fast", "lacpRate: quick"}, want: []string{
			`60:25: spec.hardware.profiles[0].network.bonds[0].lacpRate: "quick" is not supported; there are the choices "slow", "fast"`,
		}},
		{name: "LACP rate without LACP", changes: []string{"mode: 802.3ad", "mode: active-backup"}, want: []string{
			`60:25: spec.hardware.profiles[0].network.bonds[0].lacpRate: "fast" has no meaning in mode active-backup; remove it, or use mode 802.3ad`,
		}},
		{name: "transmit hash policy", changes: []string{"lacpRate: fast", "xmitHashPolicy: layer34"}, want: []string{
			`60:31: spec.hardware.profiles[0].network.bonds[0].xmitHashPolicy: "layer34" is not supported; did you mean "layer3+4"?`,
		}},
		{name: "transmit hash policy without meaning", changes: []string{"mode: 802.3ad\n              lacpRate: fast", "mode: active-backup\n              xmitHashPolicy: layer2"}, want: []string{
			`60:31: spec.hardware.profiles[0].network.bonds[0].xmitHashPolicy: "layer2" has no meaning in mode active-backup; remove it, or use mode 802.3ad, balance-xor or balance-tlb`,
		}},
		{name: "address without prefix length", changes: []string{"10.20.0.60/24", "10.20.0.60"}, want: []string{
			`61:27: spec.hardware.profiles[0].network.bonds[0].addresses[0]: "10.20.0.60" is not an address in CIDR notation; did you mean "10.20.0.60/24"?`,
		}},
		{name: "address is the network", changes: []string{"10.20.0.60/24", "10.20.0.0/24"}, want: []string{
			`61:27: spec.hardware.profiles[0].network.bonds[0].addresses[0]: "10.20.0.0/24" is the network address of 10.20.0.0/24; choose from 10.20.0.1-10.20.0.254`,
		}},
		{name: "address of the seed host", changes: []string{"10.20.0.60/24", "10.20.0.2/24"}, want: []string{
			`61:27: spec.hardware.profiles[0].network.bonds[0].addresses[0]: "10.20.0.2/24" is the seed host's own address spec.networks.provisioning.address (line 9); choose another one`,
		}},
		{name: "address in the DHCP range", changes: []string{"10.20.0.60/24", "10.20.0.110/24"}, want: []string{
			`12:16: spec.networks.provisioning.dhcp.range: "10.20.0.100-10.20.0.199" contains the address 10.20.0.110 of spec.hardware.profiles[0].network.bonds[0].addresses[0] (line 61); end the range before it or begin it after it`,
		}},
		{name: "address twice", changes: []string{"[10.20.0.60/24]", "[10.20.0.60/24, 10.20.0.60/25]"}, want: []string{
			`61:42: spec.hardware.profiles[0].network.bonds[0].addresses[1]: "10.20.0.60/25" is already given at spec.hardware.profiles[0].network.bonds[0].addresses[0] (line 61); remove one of them`,
		}},
		{name: "gateway outside", changes: []string{"              gateway: 10.20.0.1\n", "              gateway: 10.21.0.1\n"}, want: []string{
			`62:24: spec.hardware.profiles[0].network.bonds[0].gateway: "10.21.0.1" is not in the network of any address of this link; choose from 10.20.0.0/24`,
		}},
		{name: "gateway is the server", changes: []string{"              gateway: 10.20.0.1\n", "              gateway: 10.20.0.60\n"}, want: []string{
			`62:24: spec.hardware.profiles[0].network.bonds[0].gateway: "10.20.0.60" is the server's own address; give the router's address`,
		}},
		{name: "gateway without addresses", changes: []string{"              addresses: [10.20.0.60/24]\n", ""}, want: []string{
			`61:24: spec.hardware.profiles[0].network.bonds[0].gateway: "10.20.0.1" is given without addresses; add addresses, or remove it: with DHCP the gateway comes from the lease`,
		}},
		{name: "two gateways", changes: []string{"[lan0, lan1]", "[lan0]", "pciAddress: 0000:3b:00.1\n", "pciAddress: 0000:3b:00.1\n              addresses: [10.50.0.2/24]\n              gateway: 10.50.0.1\n"}, want: []string{
			`64:24: spec.hardware.profiles[0].network.bonds[0].gateway: "10.20.0.1" is a second default gateway, beside spec.hardware.profiles[0].network.interfaces[1].gateway (line 57); keep one`,
		}},
		{name: "MTU", changes: []string{"lacpRate: fast", "mtu: 9600"}, want: []string{
			`60:20: spec.hardware.profiles[0].network.bonds[0].mtu: 9600 is out of bounds, must be 68 to 9216`,
		}},
	})
}
