package enrollment_test

import (
	"crypto/tls"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
)

// get1 reads a server.
func (w *world) get1(name string) *region.Server {
	w.t.Helper()
	s := &region.Server{}
	if err := w.get(s, "", name); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// set changes the status of s1.
func (w *world) set(change func(*region.ServerStatus)) {
	w.t.Helper()
	s := w.get1("s1")
	change(&s.Status)
	if err := w.api.Status().Update(w.t.Context(), s); err != nil {
		w.t.Fatal(err)
	}
}

func TestTicketOnlyInRequestedNetworkBoot(t *testing.T) {
	known := func(macs ...string) *inventory.Inventory {
		inv := report(uuid1, macs[0]).Inventory
		for _, m := range macs[1:] {
			inv.NICs = append(inv.NICs, inventory.NIC{Name: "x", MACAddress: m})
		}
		return &inv
	}
	for _, tt := range []struct {
		name   string
		status func(w *world, s *region.ServerStatus)
		given  bool
	}{
		{"asked for just now", func(*world, *region.ServerStatus) {}, true},
		{"never asked for", func(w *world, s *region.ServerStatus) { s.Netboot = nil }, false},
		{"never asked for, and it came before", func(w *world, s *region.ServerStatus) {
			s.Netboot = &region.NetbootStatus{LastSeen: &metav1.Time{Time: w.now}, MACAddress: mac1}
		}, false},
		{"asked for 24 minutes ago", func(w *world, s *region.ServerStatus) { s.Netboot = requested(w.now.Add(-24 * time.Minute)) }, true},
		{"asked for 25 minutes ago", func(w *world, s *region.ServerStatus) { s.Netboot = requested(w.now.Add(-25 * time.Minute)) }, false},
		{"asked for in the future", func(w *world, s *region.ServerStatus) { s.Netboot = requested(w.now.Add(time.Minute)) }, false},
		{"it was never seen on", func(w *world, s *region.ServerStatus) { s.Power = region.PowerOff }, false},
		{"its BMC is silent", func(w *world, s *region.ServerStatus) { s.Power = region.PowerUnknown }, false},
		{"it was off since", func(w *world, s *region.ServerStatus) {
			s.Netboot = requested(w.now.Add(-time.Minute))
			s.Netboot.Ended = &metav1.Time{Time: w.now}
		}, false},
		{"from a NIC that it reported before", func(w *world, s *region.ServerStatus) { s.Inventory = known(mac2, strings.ToUpper(mac1)) }, true},
		{"from a NIC that it never reported", func(w *world, s *region.ServerStatus) { s.Inventory = known(mac2) }, false},
		{"the loader asks again", func(w *world, s *region.ServerStatus) {
			s.Netboot.Answered, s.Netboot.AnsweredMACAddress = &metav1.Time{Time: w.now}, mac1
		}, true},
		{"another station asks after it", func(w *world, s *region.ServerStatus) {
			s.Netboot.Answered, s.Netboot.AnsweredMACAddress = &metav1.Time{Time: w.now}, mac2
		}, false},
		{"the loader asks again after ten minutes", func(w *world, s *region.ServerStatus) {
			s.Netboot = requested(w.now.Add(-11 * time.Minute))
			s.Netboot.Answered, s.Netboot.AnsweredMACAddress = &metav1.Time{Time: w.now.Add(-10 * time.Minute)}, mac1
		}, false},
		{"its installer spoke", func(w *world, s *region.ServerStatus) {
			s.Netboot.Reported = &metav1.Time{Time: w.now}
		}, false},
		{"its installer spoke to an earlier version", func(w *world, s *region.ServerStatus) {
			s.Netboot.ObservedOff = nil
			s.Installation = &region.InstallationStatus{Stage: region.StageInspecting, LastReport: &metav1.Time{Time: w.now}}
		}, false},
		{"an installer spoke in an earlier boot", func(w *world, s *region.ServerStatus) {
			s.Installation = &region.InstallationStatus{Stage: region.StageFailed, LastReport: &metav1.Time{Time: w.now.Add(-time.Hour)}}
		}, true},
		{"installed", func(w *world, s *region.ServerStatus) {
			s.Installation = &region.InstallationStatus{Stage: region.StageInstalled, Finished: &metav1.Time{Time: w.now.Add(-time.Hour)}}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.set(func(s *region.ServerStatus) { tt.status(w, s) })
			before := w.get1("s1").Status.Netboot.DeepCopy()
			ticket := w.netboot(uuid1, "SN1", mac1)
			if (ticket != nil) != tt.given {
				t.Fatalf("ticket %v, want %t", ticket, tt.given)
			}
			n := w.get1("s1").Status.Netboot
			if n.LastSeen == nil || !n.LastSeen.Time.Equal(w.now) {
				t.Errorf("that it asked was not recorded: %+v", n)
			}
			if ticket == nil && before != nil && !n.Answered.Equal(before.Answered) {
				t.Error("a machine that was given nothing counts as answered")
			}
		})
	}
}

func TestNoTicketForDeletedServer(t *testing.T) {
	w := newWorld(t)
	s := w.get1("s1")
	s.Finalizers = []string{server.Finalizer}
	if err := w.api.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if ticket := w.netboot(uuid1, "SN1", mac1); ticket != nil {
		t.Error("a server that is being deleted was given a ticket")
	}
	if err := w.get(&corev1.Secret{}, server.Namespace, "ticket-s1"); !apierrors.IsNotFound(err) {
		t.Errorf("its Secret: %v", err)
	}
}

func TestRestartEndsTheNetworkBoot(t *testing.T) {
	w := newWorld(t)
	ticket := w.netboot(uuid1, "SN1", mac1)
	if code, reason := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1), nil); code != 200 {
		t.Fatal(code, reason)
	}
	w.now = w.now.Add(time.Minute)
	if again := w.netboot(uuid1, "SN1", mac1); again != nil {
		t.Error("a second ticket was given in one network boot")
	}
	if n := w.get1("s1").Status.Netboot; n.Ended == nil || !n.Ended.Time.Equal(w.now) {
		t.Errorf("the boot is not over: %+v", n)
	}
}

func TestTicketExpires(t *testing.T) {
	w := newWorld(t)
	ticket := w.netboot(uuid1, "SN1", mac1)
	inventory := func() (int, string) { return w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1), nil) }
	w.now = w.now.Add(10 * time.Minute)
	if code, reason := inventory(); code != 401 || reason != enroll.ReasonTokenUnknown {
		t.Errorf("first use after ten minutes: %d %s", code, reason)
	}
	w.now = w.now.Add(-time.Minute)
	if code, reason := inventory(); code != 200 {
		t.Errorf("first use after nine minutes: %d %s", code, reason)
	}
	w.now = w.now.Add(time.Hour)
	if code, reason := w.send(enroll.PathProgress, ticket.Token, enroll.Progress{Stage: "Writing"}, nil); code != 204 {
		t.Errorf("a slow installer: %d %s", code, reason)
	}
	w.now = w.now.Add(time.Hour)
	if code, reason := w.send(enroll.PathProgress, ticket.Token, enroll.Progress{Stage: "Writing"}, nil); code != 401 || reason != enroll.ReasonTokenUnknown {
		t.Errorf("two hours after its last inventory report: %d %s", code, reason)
	}
}

// A ticket is of one network boot.
func TestTicketOfEarlierNetworkBoot(t *testing.T) {
	w := newWorld(t)
	ticket := w.netboot(uuid1, "SN1", mac1)
	w.now = w.now.Add(time.Minute)
	w.set(func(s *region.ServerStatus) { s.Netboot = requested(w.now) })
	if code, reason := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1), nil); code != 401 || reason != enroll.ReasonTokenUnknown {
		t.Errorf("%d %s", code, reason)
	}
}

// An installer that waits for an image, which somebody forgot to build, asks every few seconds. It
// keeps its ticket for as long as that takes.
func TestTicketOfWaitingInstaller(t *testing.T) {
	w := newWorld(t)
	w.image = enrollment.ErrNoImage
	ticket := w.netboot(uuid1, "SN1", mac1)
	ask := func() (i enroll.Instruction) {
		t.Helper()
		if code, reason := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1), &i); code != 200 {
			t.Fatal(w.now, code, reason)
		}
		return i
	}
	for range 12 {
		if i := ask(); i.WaitSeconds == 0 {
			t.Fatalf("%+v", i)
		}
		w.now = w.now.Add(40 * time.Minute)
	}
	w.image = nil
	if i := ask(); i.Install == nil {
		t.Errorf("%+v", i)
	}
	w.now = w.now.Add(2 * time.Hour)
	if code, reason := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1), nil); code != 401 || reason != enroll.ReasonTokenUnknown {
		t.Errorf("two hours after its last use: %d %s", code, reason)
	}
}

// Tickets of the version that gave them also to machines that came by themselves don't say which
// boot they are of, nor when they expire.
func TestTicketOfEarlierVersion(t *testing.T) {
	at := func(w *world, ago time.Duration) *metav1.Time { return &metav1.Time{Time: w.now.Add(-ago)} }
	lasts := func(w *world, s *region.ServerStatus, ago time.Duration) {
		s.Installation = &region.InstallationStatus{Stage: region.StageInspecting, LastReport: at(w, ago)}
	}
	for _, tt := range []struct {
		name string
		// age of the ticket.
		age    time.Duration
		status func(w *world, s *region.ServerStatus)
		good   bool
	}{
		{"in a boot that regiond asked for", time.Minute, func(w *world, s *region.ServerStatus) { s.Netboot = requested(w.now.Add(-5 * time.Minute)) }, true},
		{"not used in its time", 10 * time.Minute, func(w *world, s *region.ServerStatus) { s.Netboot = requested(w.now.Add(-15 * time.Minute)) }, false},
		{"used for hours, just now, too", 5 * time.Hour, func(w *world, s *region.ServerStatus) {
			s.Netboot = requested(w.now.Add(-5*time.Hour - 5*time.Minute))
			lasts(w, s, time.Minute)
		}, true},
		{"last used two hours ago", 5 * time.Hour, func(w *world, s *region.ServerStatus) {
			s.Netboot = requested(w.now.Add(-5*time.Hour - 5*time.Minute))
			lasts(w, s, 2*time.Hour)
		}, false},
		{"it came by itself", time.Minute, func(w *world, s *region.ServerStatus) {
			s.Netboot = &region.NetbootStatus{LastSeen: at(w, time.Minute)}
		}, false},
		{"it came by itself, long after regiond asked for a boot", time.Minute, func(w *world, s *region.ServerStatus) {
			s.Netboot = requested(w.now.Add(-26 * time.Minute))
			lasts(w, s, 0)
		}, false},
		{"it came before regiond asked for another boot", time.Minute, func(w *world, s *region.ServerStatus) { s.Netboot = requested(w.now) }, false},
		{"the boot is over", time.Minute, func(w *world, s *region.ServerStatus) {
			s.Netboot = requested(w.now.Add(-5 * time.Minute))
			s.Netboot.Ended = at(w, 0)
		}, false},
		{"the status was lost", time.Minute, func(w *world, s *region.ServerStatus) { s.Netboot = nil }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			ticket := w.netboot(uuid1, "SN1", mac1)
			secret := &corev1.Secret{}
			if err := w.get(secret, server.Namespace, "ticket-s1"); err != nil {
				t.Fatal(err)
			}
			delete(secret.Data, "requested")
			delete(secret.Data, "expires")
			secret.Data["issued"] = []byte(w.now.Add(-tt.age).UTC().Format(time.RFC3339))
			if err := w.api.Update(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			w.set(func(s *region.ServerStatus) { tt.status(w, s) })
			code, reason := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1), nil)
			if good := code == 200; good != tt.good || !good && reason != enroll.ReasonTokenUnknown {
				t.Errorf("%d %s", code, reason)
			}
		})
	}
}

// A status that is lost while an installer runs is filled again from the ticket, so that regiond
// still knows that it started the machine.
func TestTicketRestoresTheRecord(t *testing.T) {
	w := newWorld(t)
	const bmc = "10.98.0.11:623"
	w.set(func(s *region.ServerStatus) { s.Netboot.BMCAddress = bmc })
	asked := w.get1("s1").Status.Netboot.Requested
	ticket := w.netboot(uuid1, "SN1", mac1)
	if code, reason := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1), nil); code != 200 {
		t.Fatal(code, reason)
	}
	w.set(func(s *region.ServerStatus) { s.Netboot, s.Installation = nil, nil })
	if code, reason := w.send(enroll.PathProgress, ticket.Token, enroll.Progress{Stage: "Writing"}, nil); code != 204 {
		t.Fatal(code, reason)
	}
	if n := w.get1("s1").Status.Netboot; n == nil || !n.Requested.Equal(asked) || n.Answered == nil || n.AnsweredMACAddress != mac1 || n.BMCAddress != bmc {
		t.Errorf("record %+v", n)
	}
}

// A ticket holds good only for the machine behind the BMC that was asked: an address may be corrected while an installer runs.
func TestTicketIsOfItsBMC(t *testing.T) {
	w := newWorld(t)
	w.set(func(s *region.ServerStatus) { s.Netboot.BMCAddress = "10.98.0.11:623" })
	ticket := w.netboot(uuid1, "SN1", mac1)
	if code, reason := w.send(enroll.PathInventory, ticket.Token, report(uuid1, mac1), nil); code != 200 {
		t.Fatal(code, reason)
	}
	s := w.get1("s1")
	s.Spec.BMC.Address = "10.98.0.13"
	if err := w.api.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if code, reason := w.send(enroll.PathProgress, ticket.Token, enroll.Progress{Stage: "Installed"}, nil); code != 401 || reason != enroll.ReasonTokenUnknown {
		t.Errorf("%d %s", code, reason)
	}
	if i := w.get1("s1").Status.Installation; i.Stage == region.StageInstalled {
		t.Error("the server counts as installed by a machine that is not behind its BMC")
	}
}

// What an earlier system of a server has no more: rights.
func TestRightsEnd(t *testing.T) {
	retire := func(w *world) {
		s := w.get1("s1")
		before := s.DeepCopy()
		s.Spec.Retired = true
		if err := w.api.Patch(w.t.Context(), s, client.MergeFrom(before)); err != nil {
			w.t.Fatal(err)
		}
	}
	accept := func(w *world) {
		w.now = w.now.Add(time.Minute)
		s := w.get1("s1")
		before := s.DeepCopy()
		s.Spec.ReinstallAfter = &metav1.Time{Time: w.now}
		if err := w.api.Patch(w.t.Context(), s, client.MergeFrom(before)); err != nil {
			w.t.Fatal(err)
		}
		w.set(func(st *region.ServerStatus) {
			st.Reinstallation = &region.ReinstallationStatus{After: metav1.Time{Time: w.now}, Accepted: metav1.Time{Time: w.now}}
		})
	}
	for name, end := range map[string]func(*world){"retired": retire, "being installed again": accept} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			token := w.installed(uuid1, "SN1", mac1).Identity.JoinToken
			end(w)
			if code, reason := w.send(enroll.PathJoin, token, enroll.JoinRequest{CSR: csr(t, newKey(t)), SystemUUID: uuid1}, nil); code != 403 || reason != enroll.ReasonWrongServer {
				t.Errorf("join with an unused token: %d %s", code, reason)
			}
			w = newWorld(t)
			key := newKey(t)
			var joined enroll.JoinResponse
			if code, reason := w.send(enroll.PathJoin, w.installed(uuid1, "SN1", mac1).Identity.JoinToken, enroll.JoinRequest{CSR: csr(t, key), SystemUUID: uuid1}, &joined); code != 200 {
				t.Fatal(code, reason)
			}
			end(w)
			block, _ := pem.Decode([]byte(joined.Certificate))
			c, err := enroll.NewClient(w.serve(t), w.signer.pem, &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Renew(t.Context(), enroll.JoinRequest{CSR: csr(t, key), SystemUUID: uuid1}); !refusedFor(err, enroll.ReasonWrongServer) {
				t.Errorf("renewal: %v", err)
			}
			if w.signer.signed != 1 {
				t.Errorf("%d certificates were signed", w.signer.signed)
			}
		})
	}
}
