// Package enrollment is regiond's side of the conversation in package enroll: it gives tickets to
// machines that netboot for a job, tells installers what to do, and exchanges join tokens for client
// certificates, each once.
//
// Tokens have 256 random bits. Only their SHA-256 is stored, in a Secret of the server that they
// were issued for, and every token is bound to that server's UID. Tokens are never logged.
package enrollment
