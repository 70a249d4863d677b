package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"regiond.dev/regiond/machine/backoff"
	"regiond.dev/regiond/machine/enroll"
)

// When certificates are asked for.
const (
	// Back-off of joining and renewing.
	firstRetry = 2 * time.Second
	mostRetry  = 5 * time.Minute
	// readmitRetry is how often a host whose certificate expired asks whether an operator has let it back. A readmission is
	// open for an hour.
	readmitRetry = time.Minute
	// deniedFor is how long the API server may deny the host before it asks for another certificate. Rights follow a key within
	// seconds, unless regiond was restored from a backup that is older than the certificate.
	deniedFor = time.Minute
	// deniedAgain is how long it then waits if that changed nothing.
	deniedAgain = time.Hour
)

// certification keeps the agent's certificate: it renews it in time, and says that it arrived. It is of the agent's loop only.
type certification struct {
	agent   *Agent
	backoff backoff.Backoff
	// renew and confirm are when to try next.
	renew, confirm time.Time
	// denied is since when the API server denies the host, zero if it does not.
	denied time.Time
}

// keep is called with what came of a heartbeat.
func (c *certification) keep(ctx context.Context, heartbeat error, now time.Time) {
	a := c.agent
	if !denied(heartbeat) {
		c.denied = time.Time{}
	} else if c.denied.IsZero() {
		c.denied = now
	}
	refused := !c.denied.IsZero() && now.Sub(c.denied) >= deniedFor
	if due := refused || !now.Before(a.credentials.renewAt()); due && !now.Before(c.renew) {
		if err := a.renew(ctx, now); err != nil {
			wait := retryAfter(err, &c.backoff)
			a.Log.Warn("certificate not renewed yet", slog.Any("error", err), slog.Duration("retry", wait))
			c.renew = now.Add(backoff.Jitter(wait))
			return
		}
		c.backoff.Reset()
		if refused {
			c.renew = now.Add(backoff.Jitter(deniedAgain))
		}
		a.api.reconnect()
	}
	if a.credentials.unconfirmed && heartbeat == nil && !now.Before(c.confirm) {
		if err := a.credentials.confirm(ctx); err != nil {
			a.Log.Warn("certificate not confirmed: the one before may have its rights still", slog.Any("error", err))
			c.confirm = now.Add(backoff.Jitter(mostRetry))
		}
	}
}

// denied says whether the API server does not know the certificate, or gives it no rights.
func denied(err error) bool {
	answer, ok := errors.AsType[*statusError](err)
	return ok && (answer.code == http.StatusUnauthorized || answer.code == http.StatusForbidden)
}

// retryAfter is how long to wait before a certificate is asked for again.
func retryAfter(err error, b *backoff.Backoff) time.Duration {
	switch {
	case enroll.NotReadmitted(err):
		b.Reset() // the region answers
		return readmitRetry
	case enroll.Refused(err):
		return mostRetry // it will be said again
	}
	return b.Next()
}

// renew gets a new certificate: by the present one, or by its key if it has expired, as the API server's clock has it.
func (a *Agent) renew(ctx context.Context, now time.Time) error {
	if !a.credentials.expired(now.Add(a.api.clockOffset())) {
		return a.credentials.renew(ctx)
	}
	err := a.credentials.readmit(ctx)
	if err != nil {
		a.note(err) // says more than the API server, which finds the certificate unknown
	}
	return err
}
