package journal_test

import (
	"bytes"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"regiond.dev/regiond/bootstrap/journal"
)

// slow takes nothing until it is released.
type slow struct {
	begun    chan struct{}
	once     sync.Once
	released chan struct{}
	bytes.Buffer
}

func (s *slow) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.released
	return s.Buffer.Write(p)
}

// Whoever reads a copy slowly, or was suspended in the middle of it, must not keep DHCP from writing
// its leases. bbolt holds up a writer that needs a larger file while a transaction reads.
func TestSlowReaderOfACopyHoldsUpNoWriter(t *testing.T) {
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	w := &slow{begun: make(chan struct{}), released: make(chan struct{})}
	copied := make(chan error, 1)
	go func() { copied <- j.Copy(w) }()
	<-w.begun
	wrote := make(chan error, 1)
	go func() {
		wrote <- j.DB().Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("dhcp"))
			if err != nil {
				return err
			}
			return b.Put([]byte("lease"), make([]byte, 1<<20))
		})
	}()
	select {
	case err := <-wrote:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a writer waits for the reader of a copy")
	}
	close(w.released)
	if err := <-copied; err != nil {
		t.Error(err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if w.Len() == 0 || w.Len() >= 1<<20 {
		t.Errorf("got a copy of %d bytes, want the file as it was before the write", w.Len())
	}
}
