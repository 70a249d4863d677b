package rmcp

import (
	"errors"
	"fmt"
)

// Addresses in an IPMI LAN message (IPMI v2.0 rev 1.1, table 13-8 and section 5.5).
const (
	bmcAddress           = 0x20
	remoteConsoleAddress = 0x81
)

// Request is an IPMI request on its way to a BMC.
type Request struct {
	// NetFn is the even network function of the request.
	NetFn   uint8
	Command uint8
	// Sequence is rqSeq, six bits; the response carries the same.
	Sequence uint8
	Data     []byte
}

// Response is a BMC's answer to a Request.
type Response struct {
	NetFn          uint8
	Command        uint8
	Sequence       uint8
	CompletionCode uint8
	Data           []byte
}

// Answers says whether the response belongs to the request.
func (r Response) Answers(q Request) bool {
	return r.NetFn == q.NetFn|1 && r.Command == q.Command && r.Sequence == q.Sequence&0x3f
}

// Encode is the message of table 13-8 with both checksums.
func (q Request) Encode() []byte {
	m := make([]byte, 0, 7+len(q.Data))
	m = append(m, bmcAddress, q.NetFn<<2)
	m = append(m, checksum(m))
	m = append(m, remoteConsoleAddress, q.Sequence<<2, q.Command)
	m = append(m, q.Data...)
	return append(m, checksum(m[3:]))
}

// errShort is for everything that ends too early.
var errShort = errors.New("too short")

// DecodeResponse takes an IPMI LAN message apart. Both checksums must be right. The addresses are
// not looked at: BMCs are known to answer with either of the two remote console addresses.
func DecodeResponse(m []byte) (Response, error) {
	if len(m) < 8 {
		return Response{}, fmt.Errorf("IPMI message of %d bytes: %w", len(m), errShort)
	}
	if checksum(m[:3]) != 0 || checksum(m[3:]) != 0 {
		return Response{}, errors.New("IPMI message with a wrong checksum")
	}
	return Response{
		NetFn:          m[1] >> 2,
		Sequence:       m[4] >> 2,
		Command:        m[5],
		CompletionCode: m[6],
		Data:           m[7 : len(m)-1],
	}, nil
}

// checksum is the 8-bit two's complement of section 13.8: summed with it, bytes give zero.
func checksum(b []byte) uint8 {
	var sum uint8
	for _, c := range b {
		sum += c
	}
	return -sum
}
