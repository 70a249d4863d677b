package enrollment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/fingerprint"
	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/identity"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/condition"
	"regiond.dev/regiond/region/event"
	"regiond.dev/regiond/region/host"
	"regiond.dev/regiond/region/span"
)

// maxMessage bounds what an installer can put into a status, in bytes.
const maxMessage = 1024

// waitForImage is how often an installer asks again while there is no image, in seconds.
const waitForImage = 15

// waitForDisks is how often an installer looks again while disks are missing, in seconds.
const waitForDisks = 5

// inventory takes an installer's first report and tells it what to do.
func (s *Server) inventory(ctx context.Context, r *http.Request, report enroll.InventoryReport) (any, error) {
	srv, ticket, err := s.ticket(ctx, bearer(r))
	if err != nil {
		return nil, err
	}
	inv := &report.Inventory
	if err := sameMachine(srv, ticket, inv); err != nil {
		return nil, err
	}
	if err := s.use(ctx, srv, ticket); err != nil {
		return nil, err
	}
	log := s.Log.With(slog.String("server", srv.Name), slog.String("from", source4(r).String()))
	now := s.Now()
	var all region.ServerList
	if err := s.Client.List(ctx, &all); err != nil {
		return nil, err
	}
	desired, facts, err := s.read(ctx, srv, all.Items)
	if err != nil {
		return nil, err
	}
	if job := server.Wanted(desired, facts, now); !job.Needed {
		log.Info("installer reported, but there is no job: it is told to boot the disk", slog.String("because", job.Because))
		return s.record(ctx, srv, enroll.Instruction{BootDisk: true, Message: "there is no job for this server: " + job.Because},
			func(st *region.ServerStatus) {
				st.Inventory = inv
				recordUse(st, ticket, now)
				st.Netboot.Ended = &metav1.Time{Time: now} // what its disk holds regiond did not start to install
			})
	}
	stage := region.InstallationStatus{Stage: region.StageInspecting, Started: &metav1.Time{Time: now}, LastReport: &metav1.Time{Time: now}}
	if old := srv.Status.Installation; old != nil && old.Stage == region.StageInspecting && old.Started != nil && !old.Started.Time.Before(issued(ticket)) {
		stage.Started = old.Started
	}
	set := func(st *region.ServerStatus) {
		st.Inventory, st.Installation = inv, &stage
		recordUse(st, ticket, now)
	}

	if missing := server.AwaitedDisks(desired, srv.Status.Inventory, inv); len(missing) > 0 && now.Sub(stage.Started.Time) < server.DisksWithin {
		stage.Message = "waiting for disks since " + stage.Started.UTC().Format(time.RFC3339) + ": " + condition.List(missing, "; ")
		log.Info("not all disks are there yet: the installer is told to wait", slog.String("message", stage.Message))
		inv = srv.Status.Inventory // is kept: it says which disks there are to wait for
		return s.record(ctx, srv, enroll.Instruction{WaitSeconds: waitForDisks, Message: stage.Message}, set)
	}
	plan, adopted, refused := server.Plan(desired, inv, now)
	switch {
	case refused != nil:
		stage.Stage, stage.Message, stage.Refusal = region.StageFailed, refused.Message, refused.Reason
		log.Warn("installation refused", slog.String("reason", refused.Reason), slog.String("message", refused.Message))
		// regiond switched it on: a disk with an unknown system must not come to life by that.
		return s.record(ctx, srv, enroll.Instruction{PowerOff: true, Message: refused.Message}, set)
	case adopted != nil:
		stage.Stage, stage.Image, stage.Disk = region.StageInstalled, adopted.Image, diskName(adopted.Disk)
		adopt(&stage, srv.Status.Installation, adopted, now)
		log.Info("the disk already holds this server's installation: adopted", slog.String("image", adopted.Image), slog.String("disk", stage.Disk))
		return s.record(ctx, srv, enroll.Instruction{BootDisk: true, Message: "the disk already holds this server's installation"}, set)
	}

	manifest, imageURL, err := s.Image()
	if errors.Is(err, ErrNoImage) {
		stage.Message = err.Error()
		return s.record(ctx, srv, enroll.Instruction{WaitSeconds: waitForImage, Message: err.Error()}, set)
	}
	if err != nil {
		return nil, fmt.Errorf("server %s: read the node image: %w", srv.Name, err)
	}
	stage.Stage, stage.Image, stage.Disk = region.StageWriting, manifest.Version, diskName(plan.Disk)
	if _, err := s.record(ctx, srv, enroll.Instruction{}, set); err != nil {
		return nil, err
	}
	install, err := s.order(ctx, srv, plan, inv.System.UUID, now)
	if err != nil {
		return nil, err
	}
	log.Info("installation ordered", slog.String("image", manifest.Version), slog.String("disk", stage.Disk), slog.String("profile", plan.Profile.Name))
	install.Manifest, install.ImageURL = manifest, imageURL
	install.Identity.Image, install.Identity.RegionUID = manifest.Version, string(desired.RegionUID)
	return enroll.Instruction{Install: install}, nil
}

// order ends the system that was on the disk, and with it everything that speaks for it, and gives
// the new one a join token. Its token ends first, then its keys, then its rights, so that a request
// that is answered in this moment brings none of them back.
func (s *Server) order(ctx context.Context, srv *region.Server, plan *server.InstallPlan, systemUUID string, now time.Time) (*enroll.Install, error) {
	if err := s.revoke(ctx, kindJoin, srv.Name); err != nil {
		return nil, err
	}
	if err := hostkey.Update(ctx, s.Client, srv, func(r *hostkey.Record) error {
		*r = hostkey.Record{Issued: now.UTC()}
		return nil
	}); err != nil {
		return nil, conflict(err)
	}
	if err := host.Remove(ctx, s.Client, srv.Name); err != nil {
		return nil, err
	}
	token, err := s.issue(ctx, kindJoin, srv, map[string]string{keySystemUUID: systemUUID})
	if err != nil {
		return nil, err
	}
	s.metrics.tokens.WithLabelValues(kindJoin, "issued").Inc()
	role := plan.Profile.Role
	if role == "" {
		role = region.RoleCompute
	}
	return &enroll.Install{
		Disk:      enroll.DiskIdentity{SerialNumber: plan.Disk.SerialNumber, WWN: plan.Disk.WWN, Bytes: plan.Disk.Bytes},
		Overwrite: plan.Overwrite,
		Identity: identity.Identity{
			Hostname: srv.Name, ServerUID: string(srv.UID), Role: string(role), KernelArguments: plan.Profile.KernelArguments, Network: plan.Network,
			EnrollURL: s.URL, KubernetesURL: s.KubernetesURL, CA: string(s.CA), JoinToken: token,
		},
	}, nil
}

// adopt enters when the installation that is on the disk was made: regiond's own record, or else
// what the machine's clock wrote into the marker, which is only a witness.
func adopt(stage, record *region.InstallationStatus, a *server.Adoption, now time.Time) {
	if record != nil && record.Finished != nil {
		stage.Finished, stage.Adopted = record.Finished, record.Adopted
		return
	}
	stage.Finished, stage.Adopted = &metav1.Time{Time: now}, &metav1.Time{Time: now}
	if !a.Installed.IsZero() && a.Installed.Before(now) {
		stage.Finished.Time = a.Installed
	}
}

// progress takes an installer's report.
func (s *Server) progress(ctx context.Context, r *http.Request, p enroll.Progress) (any, error) {
	srv, ticket, err := s.ticket(ctx, bearer(r))
	if err != nil {
		return nil, err
	}
	stage := region.InstallStage(p.Stage)
	if stage != region.StageWriting && stage != region.StageInstalled && stage != region.StageFailed {
		return nil, refusal(enroll.ReasonMalformed, "stage %q is none of Writing, Installed, Failed", p.Stage)
	}
	if p.BytesWritten < 0 || p.BytesTotal < 0 {
		return nil, refusal(enroll.ReasonMalformed, "bytesWritten %d and bytesTotal %d must not be negative", p.BytesWritten, p.BytesTotal)
	}
	now := s.Now()
	old := srv.Status.Installation
	if old == nil {
		// The status was lost while the installer ran. Its ticket proves that it has a job.
		old = &region.InstallationStatus{Stage: region.StageWriting, Started: &metav1.Time{Time: now}}
	}
	switch {
	case old.Stage == region.StageInstalled && stage == region.StageInstalled:
		return nil, nil // the answer was lost and the report repeated
	case old.Stage == region.StageInstalled, old.Stage == region.StageInspecting && stage != region.StageFailed:
		return nil, refusal(enroll.ReasonNoJob, "stage %s was reported, but the job is in stage %s", stage, old.Stage)
	}
	next := *old
	next.Stage, next.BytesWritten, next.BytesTotal = stage, p.BytesWritten, p.BytesTotal
	next.Message = condition.Clip(p.Message, maxMessage)
	next.LastReport = &metav1.Time{Time: now}
	if stage == region.StageInstalled {
		next.Finished = next.LastReport
	}
	log := s.Log.With(slog.String("server", srv.Name), slog.String("stage", p.Stage), slog.Int64("bytesWritten", p.BytesWritten), slog.Int64("bytesTotal", p.BytesTotal))
	switch {
	case stage != old.Stage:
		log.Info("installer reported a stage", slog.String("message", next.Message), slog.Int("refetched", p.Refetched))
	case p.Refetched > 0:
		log.Warn("installer fetched corrupted chunks again", slog.Int("refetched", p.Refetched))
	}
	return s.record(ctx, srv, nil, func(st *region.ServerStatus) {
		if st.Inventory != nil {
			st.Inventory.Meet(p.Neighbours)
		}
		st.Installation = &next
		recordUse(st, ticket, now)
	})
}

// record writes a status and returns the answer to give.
func (s *Server) record(ctx context.Context, srv *region.Server, out any, set func(*region.ServerStatus)) (any, error) {
	before := srv.DeepCopy()
	set(&srv.Status)
	if err := s.Client.Status().Patch(ctx, srv, client.MergeFrom(before)); err != nil {
		return nil, fmt.Errorf("server %s: record the installer's report: %w", srv.Name, err)
	}
	s.tell(srv, before.Status.Installation)
	return out, nil
}

// tell records that an installation is in another stage than before.
func (s *Server) tell(srv *region.Server, before *region.InstallationStatus) {
	now := srv.Status.Installation
	if now == nil || before != nil && before.Stage == now.Stage {
		return
	}
	if now.Started != nil && now.LastReport != nil {
		var err error
		if now.Stage == region.StageFailed {
			err = errors.New(now.Message)
		}
		span.Past("installation until "+string(now.Stage), srv.Name, now.Started.Time, now.LastReport.Time, err)
	}
	reason, note := "Installation"+string(now.Stage), "the installer reported from RAM"
	switch {
	case now.Stage == region.StageFailed:
		event.Act(s.Events, srv, reason, "the installer did not install", errors.New(now.Message))
		return
	case now.Adopted != nil:
		reason, note = "InstallationAdopted", fmt.Sprintf("disk %s already holds this server's installation of image %s, which is kept", now.Disk, now.Image)
	case now.Stage == region.StageWriting:
		note = fmt.Sprintf("disk %s is being overwritten with image %s", now.Disk, now.Image)
	case now.Stage == region.StageInstalled:
		note = fmt.Sprintf("image %s is on disk %s", now.Image, now.Disk)
	}
	event.Act(s.Events, srv, reason, note, nil)
}

// sameMachine checks that a report comes from the machine that the ticket was given to. Its source
// address is not compared: the installer may be leased another one than the boot loader was.
func sameMachine(srv *region.Server, ticket *corev1.Secret, inv *inventory.Inventory) error {
	if asked := string(ticket.Data[keySystemUUID]); asked != "" && !sameUUID(asked, inv.System.UUID) {
		return refusal(enroll.ReasonWrongServer, "the ticket was given to the machine with UUID %s, the report is of %q", asked, inv.System.UUID)
	}
	mac := string(ticket.Data[keyMAC])
	for _, n := range inv.NICs {
		if strings.EqualFold(n.MACAddress, mac) {
			return nil
		}
	}
	return refusal(enroll.ReasonWrongServer, "the ticket of server %s was given to the machine with MAC address %s, which is not in the report", srv.Name, mac)
}

// sameUUID compares SMBIOS UUIDs in either byte order; those that identify nothing must be equal as they are.
func sameUUID(a, b string) bool {
	ka, kb := fingerprint.UUID(a), fingerprint.UUID(b)
	if ka == "" || kb == "" {
		return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b))
	}
	return ka == kb
}

func issued(token *corev1.Secret) time.Time {
	t, err := time.Parse(time.RFC3339, string(token.Data[keyIssued]))
	if err != nil {
		return time.Time{}
	}
	return t
}

func diskName(d *inventory.Disk) string {
	if d.SerialNumber != "" {
		return d.SerialNumber
	}
	return d.WWN
}
