package backup

import "time"

// Keep says which backups are kept: a backup that either rule keeps stays, and the newest always.
type Keep struct {
	// Count of the newest.
	Count int
	// Days for which every backup is kept.
	Days int
}

// Expired are the backups of one region that are not kept. Without a rule none expires. A backup from the
// future, made with a wrong clock, counts as the newest.
func (k Keep) Expired(all []Stored, now time.Time) []Stored {
	if k.Count <= 0 && k.Days <= 0 {
		return nil
	}
	var out []Stored
	for i, s := range newestFirst(append([]Stored(nil), all...)) {
		young := k.Days > 0 && s.Time.After(now.AddDate(0, 0, -k.Days))
		if i > 0 && i >= k.Count && !young {
			out = append(out, s)
		}
	}
	return out
}
