package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"regiond.dev/regiond/hardware/installer"
	"regiond.dev/regiond/hardware/installer/link"
	"regiond.dev/regiond/machine/enroll"
)

// networkWithin is how long the network that the machine was booted over may stay away. After that,
// restarting helps more than waiting: firmware and regiond decide anew.
const networkWithin = 10 * time.Minute

func install(log *slog.Logger) error {
	ctx := context.Background()
	ticket, err := installer.ReadTicket(enroll.TicketFile)
	if err != nil {
		return err
	}
	if err := installer.SetClock(ticket.Time, log); err != nil {
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
