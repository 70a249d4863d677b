// Package debian has what builds from Debian's packages share: lists and lock files of packages, keys of what is
// cached, and the programs that do the work.
package debian
