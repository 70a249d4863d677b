package journal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
)

func steps(db *bbolt.DB) ([]Step, error) {
	var all []Step
	err := db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketSteps)
		if b == nil {
			return nil
		}
		return b.ForEach(func(k, v []byte) error {
			var s Step
			if err := json.Unmarshal(v, &s); err != nil {
				return fmt.Errorf("record %q: %w", k, err)
			}
			all = append(all, s)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("journal: read steps: %w", err)
	}
	slices.SortStableFunc(all, func(a, b Step) int {
		if c := a.Begun.Compare(b.Begun); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all, nil
}
