// Package debian is what builds from Debian's packages share: lists and lock files of packages,
// cache keys, and running the external programs.
package debian
