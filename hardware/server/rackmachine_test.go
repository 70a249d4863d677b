package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"net/netip"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/enrollment"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/machine/inventory"
	"regiond.dev/regiond/region"
	hostpkg "regiond.dev/regiond/region/host"
)

// ownLife is how long after its last sign regiond may take a machine for the network boot that it asked for.
const ownLife = 40 * time.Minute

// box is a machine of a rack, with its BMC. It knows the truth that regiond has to find out, and so what regiond may do.
type box struct {
	r                      *rack
	name, uuid, serial     string
	mac                    net.HardwareAddr
	address                netip.AddrPort
	silent, once, netFirst bool // BMC; one-shot network boot; boot order
	power                  region.PowerState

	doing string // "", "pxe", "loading", "writing", "disk"
	since time.Time
	deaf  bool // its system does not shut down

	// own: what it runs is a network boot that regiond asked for, and regiond has not seen it end. sign is its last.
	// ordered: regiond wrote down that it would start it, and was killed: who did start it then can't be told.
	own      bool
	ordered  bool
	sign     time.Time
	reported bool // its installer spoke
	refused  bool // its installation was refused

	foreign bool // the disk holds what regiond did not write
	marker  *inventory.InstallMarker
	written time.Time // by regiond's clock
	asked   bool      // to be installed again, since it was written
	guests  int
	vacated bool

	ticket *enroll.Ticket
	order  *enroll.Install
}

func (b *box) server() *region.Server {
	s := &region.Server{}
	if err := b.r.api.Get(context.Background(), client.ObjectKey{Name: b.name}, s); err != nil {
		b.r.violate("%s: %v", b.name, err)
	}
	return s
}

// consent is what allows regiond to end what the machine runs, "" when nothing does.
func (b *box) consent(cut bool) region.Consent {
	spec := b.server().Spec
	due := b.due(spec)
	switch {
	case spec.Retired:
		return region.ConsentRetired
	case spec.TakeoverUntil != nil && b.r.now.Before(spec.TakeoverUntil.Time):
		return region.ConsentTakeover
	case b.own && !b.refused && b.r.now.Before(b.sign.Add(ownLife)):
		return region.ConsentOwnBoot
	case !cut && due && b.installed() && b.guests == 0:
		return region.ConsentReinstall
	}
	return ""
}

// due says whether a reinstallation is asked for that was not done: by the clock, or as it came, if the clock was set meanwhile.
func (b *box) due(spec region.ServerSpec) bool {
	r := spec.ReinstallAfter
	return r != nil && (b.asked || !r.After(b.r.now) && r.After(b.written))
}

func (b *box) installed() bool { return b.marker != nil && b.marker.Complete }

// signs notes that regiond hears of the network boot.
func (b *box) signs() {
	if b.r.now.After(b.sign) {
		b.sign = b.r.now
	}
}

func (b *box) answers() error {
	if b.silent {
		return errors.New("no answer")
	}
	return nil
}

func (b *box) cut() { b.power, b.doing, b.ticket, b.order = region.PowerOff, "", nil, nil }

// start is what firmware does at power-on and at a reset.
func (b *box) start() {
	b.power, b.since, b.doing = region.PowerOn, b.r.now, "disk"
	if b.once || b.netFirst {
		b.doing = "pxe"
	}
	if b.ordered {
		b.own, b.ordered, b.reported, b.refused, b.sign = true, false, false, false, time.Time{}
		b.signs()
	}
	b.once, b.deaf = false, b.r.rng.IntN(3) == 0
}

// String is for failures: what the machine is, and what regiond holds it for.
func (b *box) String() string {
	s := b.server()
	status, _ := json.Marshal(map[string]any{"netboot": s.Status.Netboot, "installation": s.Status.Installation, "shutdown": s.Status.Shutdown, "reinstallation": s.Status.Reinstallation})
	return fmt.Sprintf("%s: power %s, does %q, own boot %t (sign %s), reported %t, refused %t, foreign %t, installed %t; spec %+v; status %s",
		b.name, b.power, b.doing, b.own, b.sign.Format(time.TimeOnly), b.reported, b.refused, b.foreign, b.installed(), s.Spec, status)
}

// live lets the machine do what it does by itself.
func (b *box) live(ctx context.Context) {
	if b.power != region.PowerOn || b.r.now.Sub(b.since) < 15*time.Second && !b.since.After(b.r.now) {
		return
	}
	b.since = b.r.now
	switch b.doing {
	case "pxe":
		if b.ticket = b.r.ask(ctx, b, b.mac); b.ticket != nil {
			b.doing = "loading"
			return
		}
		b.doing = "disk"
	case "loading":
		b.inspect()
	case "writing":
		b.write()
	case "disk":
		switch {
		case b.installed():
			b.agent(ctx)
		case !b.foreign && b.r.rng.IntN(2) == 0:
			b.doing = "pxe" // nothing to boot: firmware goes on to the network
		}
	}
}

// ask lets somebody with a MAC address ask for the machine's script.
func (r *rack) ask(ctx context.Context, b *box, mac net.HardwareAddr) *enroll.Ticket {
	before := b.server()
	ticket, err := r.enroll.Netboot(ctx, enrollment.Machine{MAC: mac, UUID: b.uuid, Serial: b.serial, Address: netip.MustParseAddr("10.99.0.100")})
	if err != nil {
		r.violate("%s: netboot: %v", b.name, err)
	}
	itself := bytes.Equal(mac, b.mac)
	if ticket == nil {
		if itself && b.reported && before.Status.Netboot != nil && before.Status.Netboot.Requested != nil {
			b.own = false // regiond can tell that it restarted
		}
		return nil
	}
	switch {
	case !b.own || !r.now.Before(b.sign.Add(ownLife)):
		r.violate("%s: a ticket was given to %s outside of a network boot that regiond asked for", b.name, mac)
	case b.reported:
		r.violate("%s: a second ticket was given in one network boot", b.name)
	case before.Spec.Retired || r.twin[b.name]:
		r.violate("%s: a ticket was given to a server that is retired, or two servers", b.name)
	case !itself && before.Status.Inventory != nil:
		r.violate("%s: a ticket was given to the stranger %s, although the machine's MAC addresses are known", b.name, mac)
	}
	b.signs()
	r.did["ticket"]++
	return ticket
}

func (b *box) inventory() inventory.Inventory {
	inv := *machine()
	inv.System.UUID, inv.System.SerialNumber = b.uuid, b.serial
	inv.NICs = []inventory.NIC{{Name: "eth0", MACAddress: b.mac.String(), Boot: true}}
	d := &inv.Disks[0]
	d.Marker, d.Blank = b.marker, b.marker == nil && !b.foreign
	if b.foreign {
		d.Content = "LVM"
	}
	return inv
}

// inspect reports the inventory and obeys.
func (b *box) inspect() {
	var i enroll.Instruction
	if !b.post(enroll.PathInventory, enroll.InventoryReport{Inventory: b.inventory()}, &i) {
		b.doing = "hung"
		return
	}
	b.reported = true
	b.signs()
	switch {
	case i.Install != nil:
		b.checkWrite()
		b.order, b.doing, b.foreign = i.Install, "writing", false
		b.marker = &inventory.InstallMarker{RegionUID: i.Install.Identity.RegionUID, ServerUID: i.Install.Identity.ServerUID}
		b.post(enroll.PathProgress, enroll.Progress{Stage: "Writing", BytesWritten: 1, BytesTotal: 10}, nil)
	case i.BootDisk:
		b.doing, b.own = "disk", false
		b.r.did["adoption"]++
	case i.PowerOff:
		b.refused = true
		b.r.did["refusal"]++
		if b.r.rng.IntN(4) > 0 {
			b.cut()
		} else {
			b.doing = "hung"
		}
	}
}

// checkWrite looks for the evidence that the disk may be written to.
func (b *box) checkWrite() {
	spec := b.server().Spec
	due := b.due(spec)
	b.r.did["write"]++
	if b.installed() {
		b.r.did["replacement"]++
	}
	switch {
	case !b.own:
		b.r.violate("%s: an installation was ordered on a machine that regiond did not start", b.name)
	case b.foreign && !b.r.profile().RootDisk.Overwrite:
		b.r.violate("%s: a disk with foreign data was given away", b.name)
	case b.installed() && (!due || b.guests > 0):
		b.r.violate("%s: an installation was replaced (asked for: %t, %d guests)", b.name, due, b.guests)
	}
}

// write ends the installation, or fails.
func (b *box) write() {
	if b.r.rng.IntN(8) == 0 {
		b.post(enroll.PathProgress, enroll.Progress{Stage: "Failed", Message: "write error"}, nil)
		b.doing = "hung"
		b.signs()
		return
	}
	b.marker.Complete, b.marker.Image = true, b.order.Manifest.Version
	b.marker.Installed = b.r.now.Add(time.Duration(b.r.rng.IntN(3)-1) * 1000 * time.Hour).UTC().Format(time.RFC3339) // its clock may be wrong
	b.written, b.asked, b.vacated, b.guests = b.r.now.Truncate(time.Second), false, false, 0
	b.post(enroll.PathProgress, enroll.Progress{Stage: "Installed", BytesWritten: 10, BytesTotal: 10}, nil)
	b.doing, b.own = "disk", false
}

// post sends a report and says whether it was taken.
func (b *box) post(path string, in, out any) bool {
	body, err := json.Marshal(in)
	if err != nil {
		b.r.violate("%s: %v", b.name, err)
	}
	req := httptest.NewRequest("POST", path, bytes.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+b.ticket.Token)
	resp := httptest.NewRecorder()
	b.r.enroll.Handler().ServeHTTP(resp, req)
	if resp.Code/100 == 5 {
		b.r.violate("%s: %s: %d %s", b.name, path, resp.Code, resp.Body)
	}
	if resp.Code/100 == 2 && out != nil {
		if err := json.Unmarshal(resp.Body.Bytes(), out); err != nil {
			b.r.violate("%s: %v", b.name, err)
		}
	}
	return resp.Code/100 == 2
}

// agent reports as the installed system's agent does, if regiond has given it its objects.
func (b *box) agent(ctx context.Context) {
	h := &region.Host{}
	if b.r.api.Get(ctx, client.ObjectKey{Name: b.name}, h) != nil {
		return
	}
	if h.Status.BootID == "" {
		inv := b.inventory()
		h.Status.BootID, h.Status.Inventory = "boot", &inv
		h.Status.Conditions = []metav1.Condition{{Type: region.ConditionHealthy, Status: "True", Reason: "Healthy", LastTransitionTime: metav1.NewTime(b.r.now)}}
		if err := b.r.api.Update(ctx, h); err != nil {
			b.r.violate("%s: %v", b.name, err)
		}
	}
	l := &coordinationv1.Lease{}
	if b.r.api.Get(ctx, client.ObjectKey{Namespace: hostpkg.Namespace, Name: b.name}, l) == nil {
		l.Spec.RenewTime = &metav1.MicroTime{Time: b.r.now}
		if err := b.r.api.Update(ctx, l); err != nil {
			b.r.violate("%s: %v", b.name, err)
		}
	}
}
