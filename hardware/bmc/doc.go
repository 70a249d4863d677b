// Package bmc is about baseboard management controllers in general: the state and actions of a
// server's power, what a BMC says of itself, the one place where errors of BMCs are classified, the
// pool that keeps one session for each BMC, and the search for BMCs in a network.
//
// The protocols are in subpackages; see ipmi.
package bmc
