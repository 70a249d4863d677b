package tftp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
)

// Opcodes (RFC 1350 section 5, RFC 2347).
const (
	opRead  = 1
	opWrite = 2
	opData  = 3
	opAck   = 4
	opError = 5
	opOACK  = 6
)

// Error codes (RFC 1350 section 5).
const (
	codeUndefined = 0
	codeNotFound  = 1
	codeAccess    = 2
)

var errMalformed = errors.New("not a TFTP request")

// request is what a client asks for. The mode is not looked at: loaders are not text.
type request struct {
	op      uint16
	file    string
	options []option
}

type option struct{ name, value string }

// parseRequest reads a read or write request: file name, mode and pairs of options, each ended by a
// zero byte (RFC 1350 section 5, RFC 2347). Text behind the last zero byte and an option without a
// value are left out.
func parseRequest(b []byte) (request, error) {
	if len(b) < 2 {
		return request{}, errMalformed
	}
	r := request{op: binary.BigEndian.Uint16(b)}
	fields := bytes.Split(b[2:], []byte{0})
	fields = fields[:len(fields)-1]
	if r.op != opRead && r.op != opWrite || len(fields) < 2 {
		return request{}, errMalformed
	}
	r.file = string(fields[0])
	for pair := fields[2:]; len(pair) >= 2; pair = pair[2:] {
		r.options = append(r.options, option{string(pair[0]), string(pair[1])})
	}
	return r, nil
}

// minBlockSize and defaultBlockSize in bytes (RFC 2348, RFC 1350).
const (
	minBlockSize     = 8
	defaultBlockSize = 512
)

// agree to the options that are known: the block size to use, and what to acknowledge. Names of options
// are case-insensitive (RFC 2347); they are acknowledged as the client wrote them.
func agree(asked []option, size int64, largest int) (blockSize int, agreed []option) {
	blockSize = defaultBlockSize
	seen := map[string]bool{}
	for _, o := range asked {
		name := strings.ToLower(o.name)
		n, err := strconv.ParseInt(o.value, 10, 32)
		if err != nil || seen[name] {
			continue
		}
		switch {
		case name == "blksize" && n >= minBlockSize: // RFC 2348: the server may answer with less
			blockSize = min(int(n), largest)
			agreed = append(agreed, option{o.name, strconv.Itoa(blockSize)})
		case name == "tsize" && n == 0: // RFC 2349
			agreed = append(agreed, option{o.name, strconv.FormatInt(size, 10)})
		default:
			continue
		}
		seen[name] = true
	}
	return blockSize, agreed
}

func oackPacket(agreed []option) []byte {
	b := binary.BigEndian.AppendUint16(nil, opOACK)
	for _, o := range agreed {
		b = append(append(b, o.name...), 0)
		b = append(append(b, o.value...), 0)
	}
	return b
}

func errorPacket(code uint16, text string) []byte {
	b := binary.BigEndian.AppendUint16(nil, opError)
	b = binary.BigEndian.AppendUint16(b, code)
	return append(append(b, text...), 0)
}
