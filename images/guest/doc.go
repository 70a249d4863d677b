// Package guest builds the test guest: a disk of 2 MiB that boots in seconds, even where every
// instruction is emulated twice. It is Debian's iPXE with a script (guest.ipxe). The guest gets an
// address by DHCP, asks the metadata service for its instance ID, runs its user data if that is an
// iPXE script, answers pings from then on, and reports the result of each step on its serial
// console. These lines are its only interface:
//
//	GUEST-START
//	GUEST-DHCP-OK 10.0.0.5
//	GUEST-METADATA-OK b2c0ab1e-…      the instance's UUID, as its SMBIOS has it
//	GUEST-USER-DATA-OK                user data was an iPXE script and has finished
//	GUEST-USER-DATA-NONE              there was none, or it was not an iPXE script
//	GUEST-UP
//
// The disk is raw, boots by BIOS on the machine types pc and q35, and needs 96 MiB of memory.
package guest
