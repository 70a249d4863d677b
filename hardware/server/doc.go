// Package server decides what is done with a Server (a machine known by its BMC) and does it.
//
// The decisions are pure functions: Decide says the one next act on the machine from what is desired
// and what was observed, Plan says what an installer in RAM must do with the machine that it runs
// on, Match says which Server a machine that speaks up is. The Controller around them observes,
// acts and writes the status, once a reconciliation. Nothing is remembered that could not be
// observed again: after a kill -9, or with every status wiped, the same functions lead to the
// same end.
package server
