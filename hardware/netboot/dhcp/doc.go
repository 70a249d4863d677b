// Package dhcp is the region's DHCP server (RFC 2131) on the provisioning network. It leases
// addresses to machines that netboot and to the systems installed on them, and tells PXE
// firmware which boot loader to fetch (Intel's PXE specification 2.1, RFC 4578).
//
// What to answer is decided by Decide, which touches nothing; Pool holds the leases; Server
// reads packets, asks both, and writes the answers.
package dhcp
