package installer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"regiond.dev/regiond/machine/enroll"
)

// ReadTicket reads the ticket with which the machine was netbooted.
func ReadTicket(path string) (enroll.Ticket, error) {
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
