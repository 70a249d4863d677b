package gate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

// Memcached sets a value and gets it, in the text protocol, https://github.com/memcached/memcached/blob/master/doc/protocol.txt.
func Memcached(ctx context.Context, t Target) (err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.Memcached)
	if err != nil {
		return fmt.Errorf("memcached: %w", err) // names the address
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	const limit = 1024 // bytes of a line; a peer that is not a memcached may send anything
	r := bufio.NewReaderSize(conn, limit)
	key, value := t.mark(), nonce()
	for _, step := range []struct {
		ask  string
		want []string
	}{
		{fmt.Sprintf("set %s 0 60 %d\r\n%s\r\n", key, len(value), value), []string{"STORED"}},
		{fmt.Sprintf("get %s\r\n", key), []string{fmt.Sprintf("VALUE %s 0 %d", key, len(value)), value, "END"}},
		{fmt.Sprintf("delete %s\r\n", key), []string{"DELETED"}},
	} {
		if _, err := conn.Write([]byte(step.ask)); err != nil {
			return fmt.Errorf("memcached %s: %w", t.Memcached, err)
		}
		for _, want := range step.want {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return fmt.Errorf("memcached %s: answer to %q: %w", t.Memcached, strings.Fields(step.ask)[0], err)
			}
			if err := expect("memcached "+t.Memcached, want, strings.TrimRight(string(line), "\r\n")); err != nil {
				return err
			}
		}
	}
	return nil
}
