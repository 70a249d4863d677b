package pki

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
)

// ServingCertificate issues the certificate of a server, in files called name, and returns a
// function for tls.Config that uses a renewed certificate from the next handshake on. sans are the
// DNS names and IP addresses of the server.
func (a *Authority) ServingCertificate(name, cn string, sans ...string) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	pair, err := a.Issue(name, Request{CN: cn, SANs: sans, Usages: Server, UsedBy: "regiond"})
	if err != nil {
		return nil, err
	}
	return pair.Follow()
}

// Follow returns a function for tls.Config that returns this pair and reloads it after a renewal.
// It is an error if the pair can't be read at first; later the last valid one is kept.
func (p Pair) Follow() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	f := &follower{pair: p}
	if _, err := f.current(); err != nil {
		return nil, err
	}
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.current() }, nil
}

type follower struct {
	pair Pair

	mu   sync.Mutex
	file os.FileInfo // of the certificate when it was read
	cert *tls.Certificate
}

func (f *follower) current() (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// The key is written before its certificate, so a new certificate always has its key.
	file, err := os.Stat(f.pair.CertFile)
	if err == nil && f.cert != nil && os.SameFile(file, f.file) && file.ModTime().Equal(f.file.ModTime()) {
		return f.cert, nil
	}
	var read tls.Certificate
	if err == nil {
		read, err = tls.LoadX509KeyPair(f.pair.CertFile, f.pair.KeyFile)
	}
	switch {
	case err == nil:
		f.cert, f.file = &read, file
	case f.cert == nil:
		return nil, fmt.Errorf("certificate %s: %w", f.pair.CertFile, err)
	}
	return f.cert, nil
}
