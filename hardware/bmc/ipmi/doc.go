// Package ipmi drives servers through BMCs that speak IPMI v2.0 over LAN (RMCP+).
//
// One BMC value is one BMC with one user. It holds at most one session, opens it when a command is
// sent, opens it again when the BMC lost it, and closes it after a time without commands, for BMCs have few
// session slots. Commands are sent one by one with a pause between: BMCs freeze after bursts.
//
// Message contents, key derivation and ciphers are go-ipmi's; framing, handshake and the session itself are
// not (see package rmcp for why). Its client would also hide which status code refused a session, which
// decides between 'wrong password' and 'try another cipher suite', and uses initialization vectors
// seeded by the second.
//
// Section numbers are those of the IPMI specification v2.0 revision 1.1.
package ipmi
