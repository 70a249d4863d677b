package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"regiond.dev/regiond/hardware/installer"
	"regiond.dev/regiond/hardware/installer/link"
	"regiond.dev/regiond/machine/enroll"
)

// networkWithin is how long the network that the machine was booted over may stay away. After that,
// restarting helps more than waiting: firmware and regiond decide anew.
const networkWithin = 10 * time.Minute

func install(log *slog.Logger) error {
	ctx := context.Background()
	ticket, err := readTicket(enroll.TicketFile)
	if err != nil {
		return err
	}
	if err := setClock(ticket.Time, log); err != nil {
		return err
	}
	mac, err := net.ParseMAC(ticket.MACAddress)
	if err != nil {
		return fmt.Errorf("the ticket's macAddress: %w", err)
	}
	network, cancel := context.WithTimeout(ctx, networkWithin)
	defer cancel()
	iface, err := link.Up(network, mac, log)
	if err != nil {
		return err
	}
	lease, err := link.Lease(network, iface, log)
	if err != nil {
		return err
	}
	log.Info("network is up", slog.String("interface", iface.Attrs().Name),
		slog.String("mac", mac.String()), slog.Any("address", lease.ACK.YourIPAddr))
	// Ends with the machine.
	go link.Keep(ctx, iface, lease, log)
	outcome, err := installer.Run(ctx, installer.Config{
		Ticket: ticket, Machine: installer.NewLocal(ctx, mac.String()), Version: version, Clock: installer.SystemClock{}, Log: log,
	})
	if err != nil {
		return err
	}
	if outcome == installer.PowerOff {
		return powerOff(log)
	}
	restart(log, 0)
	return nil
}

func readTicket(path string) (enroll.Ticket, error) {
	var ticket enroll.Ticket
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return ticket, fmt.Errorf("there is no ticket %s: this initramfs was not booted by regiond's iPXE script", path)
	}
	if err != nil {
		return ticket, err
	}
	if err := json.Unmarshal(text, &ticket); err != nil {
		return ticket, fmt.Errorf("ticket %s: %w", path, err)
	}
	return ticket, nil
}

// setClock sets the clock by regiond's when it is off by more than an hour, as with an empty CMOS
// battery: certificates would be not yet valid, or not any more. (They are back-dated by an hour.)
func setClock(now string, log *slog.Logger) error {
	theirs, err := time.Parse(time.RFC3339, now)
	if err != nil {
		return fmt.Errorf("the ticket's time: %w", err)
	}
	if off := time.Since(theirs).Abs(); off > time.Hour {
		value := unix.NsecToTimeval(theirs.UnixNano())
		if err := unix.Settimeofday(&value); err != nil {
			return fmt.Errorf("set the clock to %s: %w", now, err)
		}
		log.Warn("the clock was wrong; replace the CMOS battery", slog.Duration("off", off.Round(time.Second)), slog.String("now", now))
		if err := setHardwareClock(theirs); err != nil {
			log.Warn("the hardware clock stays wrong", slog.Any("error", err))
		}
	}
	return nil
}

// setHardwareClock lets the installed system, too, start with the right time (rtc(4)): its agent
// has a certificate to check before it can ask anybody for the time.
func setHardwareClock(now time.Time) (err error) {
	f, err := os.OpenFile("/dev/rtc0", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	now = now.UTC()
	return unix.IoctlSetRTCTime(int(f.Fd()), &unix.RTCTime{
		Sec: int32(now.Second()), Min: int32(now.Minute()), Hour: int32(now.Hour()),
		Mday: int32(now.Day()), Mon: int32(now.Month()) - 1, Year: int32(now.Year()) - 1900,
	})
}
