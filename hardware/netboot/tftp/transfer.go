package tftp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// sends is how often a packet is sent before the client is taken for gone.
const sends = 6

var (
	// errAborted: the client ended the transfer by an error packet.
	errAborted = errors.New("the client ended the transfer")
	// errOptionsOnly: it did so when it had learnt the options.
	errOptionsOnly = errors.New("the client took the options only")
)

// transfer sends one file to one client, block by block (RFC 1350). Its socket is connected: it has a
// port of its own, hears this client only, and learns when the client is gone.
type transfer struct {
	conn    *net.UDPConn
	timeout time.Duration
	buffer  [1024]byte
}

// run sends the agreed options, if there are any, and then the file. It returns the bytes that were
// acknowledged.
func (t *transfer) run(ctx context.Context, file io.Reader, blockSize int, agreed []option) (sent int64, err error) {
	stop := context.AfterFunc(ctx, func() {
		// The only effect of a deadline in the past is that reads return.
		_ = t.conn.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()
	if len(agreed) > 0 {
		err := t.exchange(ctx, oackPacket(agreed), 0)
		if errors.Is(err, errAborted) {
			return 0, fmt.Errorf("%w: %w", errOptionsOnly, err)
		}
		if err != nil {
			return 0, err
		}
	}
	packet := make([]byte, 4+blockSize)
	for block := uint16(1); ; block++ { // goes on with 0 after 65535, as all servers do
		n, err := io.ReadFull(file, packet[4:])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return sent, err
		}
		binary.BigEndian.PutUint16(packet, opData)
		binary.BigEndian.PutUint16(packet[2:], block)
		if err := t.exchange(ctx, packet[:4+n], block); err != nil {
			return sent, err
		}
		sent += int64(n)
		if n < blockSize {
			return sent, nil
		}
	}
}

// exchange sends a packet until its block is acknowledged. It is sent again by time only: a repeated
// acknowledgement of an earlier block is not answered, or each block would be sent twice from then on
// (RFC 1123 section 4.2.3.1).
func (t *transfer) exchange(ctx context.Context, packet []byte, block uint16) error {
	for range sends {
		if err := t.conn.SetReadDeadline(time.Now().Add(t.timeout)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := t.conn.Write(packet); err != nil {
			return fmt.Errorf("send block %d: %w", block, err)
		}
		for {
			n, err := t.conn.Read(t.buffer[:])
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return fmt.Errorf("acknowledgement of block %d: %w", block, err)
			}
			if n < 4 {
				continue
			}
			switch op, number := binary.BigEndian.Uint16(t.buffer[:]), binary.BigEndian.Uint16(t.buffer[2:]); {
			case op == opError:
				return fmt.Errorf("%w at block %d: code %d, %q", errAborted, block, number, t.buffer[4:n])
			case op == opAck && number == block:
				return nil
			}
		}
	}
	return fmt.Errorf("block %d was not acknowledged: sent %d times within %s each", block, sends, t.timeout)
}
