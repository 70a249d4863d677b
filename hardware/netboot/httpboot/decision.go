package httpboot

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"regiond.dev/regiond/hardware/netboot/ipxe"
	"regiond.dev/regiond/machine/inventory"
)

// decisionTime bounds a decision; iPXE waits much longer for an answer.
const decisionTime = 15 * time.Second

// decide answers iPXE's question with the machine's own script.
func (s *Server) decide(w http.ResponseWriter, r *http.Request, _ route) {
	c, problem := parseClient(r.URL.Query())
	c.Address = peer(r)
	log := s.config.Log.With(slog.String("mac", c.MAC.String()), slog.String("address", c.Address.String()), slog.String("uuid", c.UUID))
	if problem != "" {
		s.decisions.WithLabelValues("malformed").Inc()
		log.Warn("netboot question is malformed: told to boot the disk", slog.Any("problem", problem))
		s.script(w, ipxe.NoJob())
		return
	}
	// Only the machine that holds the lease may speak for a MAC address: another would be handed
	// its ticket.
	if mac, ok := s.config.Leases.Holder(c.Address); !ok || !bytes.Equal(mac, c.MAC) {
		s.decisions.WithLabelValues("foreign-address").Inc()
		log.Warn("netboot question for a MAC address from an address that is not leased to it: told to boot the disk", slog.String("holder", mac.String()))
		s.script(w, ipxe.NoJob())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), decisionTime)
	defer cancel()
	job, err := s.config.Decider.Netboot(ctx, c)
	if err != nil {
		s.decisions.WithLabelValues("error").Inc()
		s.unavailable(w, r, err)
		return
	}
	if job == nil {
		s.decisions.WithLabelValues("disk").Inc()
		log.Info("no job: told to boot the disk", slog.Any("firmware", c.Firmware))
		s.script(w, ipxe.NoJob())
		return
	}
	if r.Method == http.MethodHead {
		return // no ticket is made for one who does not read it
	}
	nonce, err := s.tickets.add(c, job.Ticket)
	if err != nil {
		s.decisions.WithLabelValues("error").Inc()
		s.unavailable(w, r, err)
		return
	}
	text, err := ipxe.Job(s.config.Address, nonce, job.KernelArguments)
	if err != nil {
		s.decisions.WithLabelValues("error").Inc()
		s.unavailable(w, r, err)
		return
	}
	s.decisions.WithLabelValues("job").Inc()
	log.Info("job: told to run the installer", slog.Any("firmware", c.Firmware), slog.String("arguments", strings.Join(job.KernelArguments, " ")))
	s.script(w, text)
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// maxSerial is the most of a serial number that is looked at, in bytes (SMBIOS strings are at
// most 64 by convention).
const maxSerial = 128

// parseClient reads the query that iPXE sends. UUID and serial number are dropped when they
// cannot be ones; without MAC address or platform there is nobody to answer.
func parseClient(q url.Values) (c Client, problem string) {
	mac, err := net.ParseMAC(q.Get("mac"))
	if err != nil || len(mac) != 6 {
		return c, "mac is not a MAC address"
	}
	c.MAC = mac
	switch q.Get("platform") {
	case "efi":
		c.Firmware = inventory.FirmwareUEFI
	case "pcbios":
		c.Firmware = inventory.FirmwareBIOS
	default:
		return c, "platform is neither efi nor pcbios"
	}
	if u := q.Get("uuid"); uuidForm.MatchString(u) {
		c.UUID = strings.ToLower(u)
	}
	if serial := q.Get("serial"); len(serial) <= maxSerial && printable(serial) {
		c.Serial = strings.TrimSpace(serial)
	}
	return c, ""
}

func printable(s string) bool {
	for _, r := range s {
		if r < ' ' || r > '~' {
			return false
		}
	}
	return true
}
