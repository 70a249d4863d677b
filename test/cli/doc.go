// Package cli tries the built regiond as a person at a shell does: what it prints where, and its
// exit status.
package cli
