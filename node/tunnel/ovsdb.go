package tunnel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// dbTimeout bounds the exchange with Open vSwitch's database.
const dbTimeout = 5 * time.Second

// request for the options of all VXLAN ports (RFC 7047, section 5.2.2).
const request = `{"id":0,"method":"transact","params":["Open_vSwitch",{"op":"select","table":"Interface",` +
	`"where":[["type","==","vxlan"]],"columns":["options"]}]}`

// reply to it.
type reply struct {
	ID     json.RawMessage `json:"id"`
	Error  json.RawMessage `json:"error"`
	Result []struct {
		Rows []struct {
			// Options are a map, ["map", [["remote_ip", "10.0.0.2"], …]].
			Options [2]json.RawMessage `json:"options"`
		} `json:"rows"`
		Error string `json:"error"`
	} `json:"result"`
}

// ends of the host's tunnels: its own and all others, sorted. There are none where Open vSwitch
// does not run.
func ends(ctx context.Context, database string) (local netip.Addr, others []netip.Addr, err error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", database)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return local, nil, nil
	}
	if err != nil {
		return local, nil, fmt.Errorf("open vSwitch's database: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write([]byte(request)); err != nil {
		return local, nil, fmt.Errorf("open vSwitch's database: %w", err)
	}
	var r reply
	for d := json.NewDecoder(conn); string(r.ID) != "0"; { // in between, the server may ask whether anybody is there
		r = reply{}
		if err := d.Decode(&r); err != nil {
			return local, nil, fmt.Errorf("open vSwitch's database: %w", err)
		}
	}
	if len(r.Result) != 1 || r.Result[0].Error != "" {
		return local, nil, fmt.Errorf("open vSwitch's database: it answers %v, error %s", r.Result, r.Error)
	}
	for _, row := range r.Result[0].Rows {
		var options [][2]string
		if err := json.Unmarshal(row.Options[1], &options); err != nil {
			return local, nil, fmt.Errorf("open vSwitch's database: options of a port: %w", err)
		}
		for _, o := range options {
			a, err := netip.ParseAddr(o[1])
			switch {
			case err != nil || !a.Is4(): // among others "flow", for ports that are not of one tunnel
			case o[0] == "local_ip":
				local = a
			case o[0] == "remote_ip":
				others = append(others, a)
			}
		}
	}
	if !local.IsValid() {
		return local, nil, nil
	}
	slices.SortFunc(others, netip.Addr.Compare)
	return local, slices.Compact(others), nil
}
