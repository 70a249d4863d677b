// Package check reads region.yaml and reports everything that is wrong with it at once: each
// problem with its file, line, field, value and what would be right. It also derives the JSON
// Schema for editors. It does no I/O beyond reading the file it is given.
package check
