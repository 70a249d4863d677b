package backup

import (
	"slices"
	"time"
)

// Keep says which backups are kept: a backup that either rule keeps stays, and the newest always.
type Keep struct {
	// Count of the newest.
	Count int
	// Days for which every backup is kept.
	Days int
}

// Expired are the backups of one region that are not kept. Without a rule none expires. One from the
// future, made with a wrong clock, is kept until its time has come, and counts as none of the newest.
func (k Keep) Expired(all []Stored, now time.Time) []Stored {
	if k.Count <= 0 && k.Days <= 0 {
		return nil
	}
	var out []Stored
	newer := 0
	for _, s := range newestFirst(slices.Clone(all)) {
		if s.Time.After(now) {
			continue
		}
		young := k.Days > 0 && s.Time.After(now.AddDate(0, 0, -k.Days))
		if newer > 0 && newer >= k.Count && !young {
			out = append(out, s)
		}
		newer++
	}
	return out
}

// ExpiredIn are the backups in a destination that are not kept, of each region by itself. With a
// region's name, those of all others are kept: they have rules of their own.
func (k Keep) ExpiredIn(all []Stored, region string, now time.Time) []Stored {
	out := []Stored{}
	seen := map[[2]string]bool{}
	for _, s := range all {
		of := [2]string{s.Region, s.ID}
		if seen[of] || region != "" && s.Region != region {
			continue
		}
		seen[of] = true
		out = append(out, k.Expired(Of(all, s.Region, s.ID), now)...)
	}
	return out
}
