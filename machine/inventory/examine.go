package inventory

import (
	"fmt"
	"time"
)

// readWithin is how long a disk may take to be examined. A disk that has to spin up first takes half of it; the kernel
// tries to wake a dead one for minutes, and a process that waits for it cannot be interrupted.
const readWithin = 60 * time.Second

// examineWithin fills in what lies on the disk. A disk that cannot be read, or not in time, is not blank but sick.
func (r Reader) examineWithin(d *Disk, within time.Duration) {
	if r.stuck != nil {
		if _, waiting := r.stuck.Load(d.Name); waiting {
			d.Problem = "it still does not answer"
			return
		}
		r.stuck.Store(d.Name, true)
	}
	type answer struct {
		evidence
		err error
	}
	answered := make(chan answer, 1)
	// Ends when the kernel lets go of the disk; the answer is then thrown away.
	go func() {
		e, err := r.examineDisk(d.Name, d.Bytes)
		if r.stuck != nil {
			r.stuck.Delete(d.Name)
		}
		answered <- answer{e, err}
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-timer.C:
		d.Problem = fmt.Sprintf("it did not answer within %s", within)
	case a := <-answered:
		if a.err != nil {
			d.Problem = fmt.Sprintf("it can't be read: %v", a.err)
			return
		}
		d.Blank, d.Content, d.Marker = a.blank, a.content, a.marker
	}
}

func (r Reader) examineDisk(name string, size int64) (evidence, error) {
	f, err := r.OpenDisk(name)
	if err != nil {
		return evidence{}, err
	}
	// Closing a device that was only read cannot lose anything.
	defer f.Close()
	return examine(f, size)
}
