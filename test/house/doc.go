// Package house holds the rules of the house that a compiler does not know: which room may use
// which, what may be linked where, what things may be called. It is all tests.
package house
