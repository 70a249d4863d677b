// Package discovery makes Server objects: those that region.yaml lists, and one for every BMC that
// answers in the ranges that region.yaml names. It never deletes one: forgetting a server is the
// operator's act.
package discovery
