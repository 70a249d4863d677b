package installer

import (
	"context"
	"time"

	"regiond.dev/regiond/machine/enroll"
)

// requestTimeout of one request to regiond's API, which the installer repeats.
const requestTimeout = 30 * time.Second

// api is regiond as the installer with its ticket's token speaks to it.
type api struct {
	client *enroll.Client
	token  string
}

func (a api) inventory(ctx context.Context, report enroll.InventoryReport) (enroll.Instruction, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return a.client.Inventory(ctx, a.token, report)
}

func (a api) progress(ctx context.Context, p enroll.Progress) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return a.client.Progress(ctx, a.token, p)
}
