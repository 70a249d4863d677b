package ipmi

import (
	"context"

	"github.com/bougou/go-ipmi/pkg/types"
)

// Raw sends any command as ADMINISTRATOR, for tests that prepare a BMC.
func (b *BMC) Raw(ctx context.Context, netFn, command uint8, data []byte) error {
	b.c.Privilege = types.PrivilegeLevelAdministrator
	return b.do(ctx, "raw", rawRequest{types.Command{NetFn: types.NetFn(netFn), ID: command, Name: "raw"}, data}, rawResponse{})
}

type rawRequest struct {
	command types.Command
	data    []byte
}

func (r rawRequest) Pack() []byte           { return r.data }
func (r rawRequest) Command() types.Command { return r.command }

type rawResponse struct{}

func (rawResponse) Unpack([]byte) error { return nil }
func (rawResponse) Format() string      { return "" }
