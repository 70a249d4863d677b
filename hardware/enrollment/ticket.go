package enrollment

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
)

// installerTime is how long after its last use a ticket may be used on, while its installer waits for an image or writes one.
const installerTime = 2 * time.Hour

// ticket returns the server and the Secret of an installer's ticket. It holds good only in the
// network boot that it was given in, and until it expires.
func (s *Server) ticket(ctx context.Context, token string) (*region.Server, *corev1.Secret, error) {
	srv, secret, err := s.verify(ctx, kindTicket, token)
	if err != nil {
		return nil, nil, err
	}
	if len(secret.Data[keyRequested]) == 0 {
		complete(secret, srv.Status)
	}
	requested, err := time.Parse(time.RFC3339, string(secret.Data[keyRequested]))
	if err != nil {
		return nil, nil, unknownToken()
	}
	if end := expires(secret); !s.Now().Before(end) {
		return nil, nil, refusal(enroll.ReasonTokenUnknown, "the ticket of server %s expired at %s; netboot the machine again", srv.Name, stamp(end))
	}
	if n := srv.Status.Netboot; n != nil && n.Requested != nil && !n.Requested.Time.Equal(requested) {
		return nil, nil, refusal(enroll.ReasonTokenUnknown, "the ticket of server %s is of the network boot at %s, the last one was asked for at %s; netboot the machine again",
			srv.Name, stamp(requested), stamp(n.Requested.Time))
	}
	if asked, has := string(secret.Data[keyBMCAddress]), server.BMCAddress(srv.Spec.BMC); asked != "" && asked != has {
		return nil, nil, refusal(enroll.ReasonTokenUnknown, "the ticket of server %s was given to the machine with the BMC at %s, the server's BMC is now at %q; "+
			"power the machine off", srv.Name, asked, has)
	}
	return srv, secret, nil
}

// complete fills in what versions before this one did not write into a ticket, so that an installer
// that runs while regiond is upgraded goes on. They gave tickets to machines that came by
// themselves, too: those stay without a network boot, and so do not hold good.
func complete(ticket *corev1.Secret, st region.ServerStatus) {
	at, n := issued(ticket), st.Netboot
	if n == nil || n.Requested == nil || n.Ended != nil || at.Before(n.Requested.Time) || !at.Before(n.Requested.Add(server.AnswerTime)) {
		return
	}
	end := at.Add(server.TicketTime)
	if i := st.Installation; i != nil && i.LastReport != nil && !i.LastReport.Time.Before(at) {
		end = i.LastReport.Add(installerTime)
	}
	ticket.Data[keyRequested], ticket.Data[keyExpires] = []byte(stamp(n.Requested.Time)), []byte(stamp(end))
}

// expires is zero, so long past, when a ticket does not say when it expires.
func expires(ticket *corev1.Secret) time.Time {
	t, err := time.Parse(time.RFC3339, string(ticket.Data[keyExpires]))
	if err != nil {
		return time.Time{}
	}
	return t
}

// use marks a ticket used: from then on no other is given in the same network boot. An installer
// that asks again, while it waits for an image, keeps its ticket; this is written only when half of
// its time is over.
func (s *Server) use(ctx context.Context, srv *region.Server, ticket *corev1.Secret) error {
	now := s.Now()
	switch used := len(ticket.Data[keyUsed]) > 0; {
	case !used:
		ticket.Data[keyUsed] = []byte(stamp(now))
	case expires(ticket).Sub(now) >= installerTime/2:
		return nil
	}
	ticket.Data[keyExpires] = []byte(stamp(now.Add(installerTime)))
	if err := s.Client.Update(ctx, ticket); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return refusal(enroll.ReasonUnavailable, "the ticket is being used at this moment; try again")
		}
		return fmt.Errorf("server %s: record that its ticket was used: %w", srv.Name, err)
	}
	return nil
}

// recordUse notes that the ticket was used, and fills in the record of the network boot that it proves, if the status was lost.
func recordUse(st *region.ServerStatus, ticket *corev1.Secret, now time.Time) {
	if st.Netboot == nil {
		st.Netboot = &region.NetbootStatus{}
	}
	n := st.Netboot
	if requested, err := time.Parse(time.RFC3339, string(ticket.Data[keyRequested])); err == nil && n.Requested == nil {
		n.Requested, n.BMCAddress = &metav1.Time{Time: requested}, string(ticket.Data[keyBMCAddress])
		n.Answered, n.AnsweredMACAddress = &metav1.Time{Time: issued(ticket)}, string(ticket.Data[keyMAC])
		n.Attempts = max(n.Attempts, 1)
	}
	if n.Reported == nil {
		n.Reported = &metav1.Time{Time: now}
	}
}
