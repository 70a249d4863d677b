package installer

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// SetClock sets the clock by regiond's when it is off by more than an hour, as with an empty CMOS
// battery: certificates would be not yet valid, or not any more. (They are back-dated by an hour.)
func SetClock(now string, log *slog.Logger) error {
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
