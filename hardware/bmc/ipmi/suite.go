package ipmi

import (
	"crypto/aes"
	"errors"
	"fmt"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/types"
)

// suites are the cipher suites that are tried, best first: 17 (SHA-256) is all that new OpenBMC
// firmware accepts, 3 (SHA-1) all that machines before about 2015 know. The others leave out
// encryption or rest on MD5 and RC4. Suites are not negotiated by asking: BMCs list suites they refuse.
var suites = []types.CipherSuiteID{types.CipherSuiteID17, types.CipherSuiteID3}

// suite is the algorithms of a cipher suite (table 22-20).
type suite struct {
	id             types.CipherSuiteID
	authentication types.AuthAlg
	integrity      types.IntegrityAlg
	encryption     types.CryptAlg
	codeLength     int // of the integrity code
}

func suiteOf(id types.CipherSuiteID) (suite, error) {
	a, i, c, ok := types.GetCipherSuiteAlgorithms(id)
	n, known := crypto.IntegrityAuthCodeLen(i)
	if !ok || !known || n == 0 || c != types.CryptAlg_AES_CBC_128 {
		return suite{}, fmt.Errorf("cipher suite %d does not authenticate and encrypt with AES", id)
	}
	return suite{id, a, i, c, n}, nil
}

// keys of a session (sections 13.31 and 13.32).
type keys struct {
	integrity []byte // K1
	cipher    []byte // K2, 16 bytes of it
}

// sign is the integrity code of a packet.
func (s suite) sign(k keys, covered []byte) ([]byte, error) {
	return crypto.SessionIntegrityAuthCode(s.integrity, covered, k.integrity, "")
}

// encrypt is the confidential form of a payload (section 13.29) with a fresh initialization vector.
func (s suite) encrypt(k keys, plain []byte) ([]byte, error) {
	return crypto.EncryptAESPayload(plain, k.cipher, crypto.RandomBytes(aes.BlockSize))
}

// decrypt is the reverse. go-ipmi's function panics on a ciphertext that is not a multiple of the block size,
// so the length is checked here first.
func (s suite) decrypt(k keys, b []byte) ([]byte, error) {
	if len(b) < 2*aes.BlockSize || len(b)%aes.BlockSize != 0 {
		return nil, fmt.Errorf("encrypted payload of %d bytes is not a multiple of the AES block", len(b))
	}
	return crypto.DecryptAESPayload(b, k.cipher)
}

// replayWindow accepts session sequence numbers once and not far out of order (section 6.12.13).
type replayWindow struct {
	highest uint32
	seen    uint16 // bit n: highest-n was seen
}

var errReplay = errors.New("session sequence number was seen before or is out of the window")

func (w *replayWindow) accept(sequence uint32) error {
	const size = 16
	switch ahead := int64(sequence) - int64(w.highest); {
	case sequence == 0:
		return errReplay
	case ahead > 0:
		// Any jump ahead is taken: the packet is authentic, the ones between were lost.
		w.highest, w.seen = sequence, w.seen<<min(ahead, size)|1
	case -ahead >= size, w.seen&(1<<-ahead) != 0:
		return errReplay
	default:
		w.seen |= 1 << -ahead
	}
	return nil
}

// equal compares authentication codes in constant time; an empty one never matches.
func equal(a, b []byte) bool {
	return len(a) > 0 && crypto.Equal(a, b)
}
