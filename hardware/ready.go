package hardware

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"time"
)

// started calls done once the controllers serve machines at an address.
func started(address netip.Addr, done func()) local {
	return func(ctx context.Context) error {
		if awaitNetboot(ctx, address) {
			done()
		}
		return nil
	}
}

// awaitNetboot waits until the controllers serve machines. Netboot's listener is the last to open,
// and its script tells it from another web server on the same port, because of which the
// controllers are about to fail. It returns false if the context ends first.
func awaitNetboot(ctx context.Context, address netip.Addr) bool {
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	for ctx.Err() == nil {
		if servesIPXE(ctx, "http://"+address.String()+"/boot.ipxe") {
			return true
		}
		select {
		case <-ctx.Done():
		case <-t.C:
		}
	}
	return false
}

func servesIPXE(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	magic := make([]byte, len("#!ipxe"))
	_, err = io.ReadFull(resp.Body, magic)
	return err == nil && string(magic) == "#!ipxe"
}
