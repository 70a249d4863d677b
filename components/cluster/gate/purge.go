package gate

import (
	"context"
	"errors"
	"fmt"
)

// imageTables of Glance's database, those first whose rows refer to others. Glance keeps rows of deleted images for ever
// (glance-manage db purge), and a probe every few minutes leaves a quarter of a million a year.
var imageTables = []struct{ table, key string }{
	{"image_locations", "image_id"}, {"image_properties", "image_id"}, {"image_tags", "image_id"}, {"image_members", "image_id"}, {"images", "id"},
}

// purgeImages are statements that remove the rows of images which this cluster's probe has deleted.
// glance-manage can't: it removes those of everyone's images, whose IDs could then be taken by
// others (OSSN-0075). Each takes the probe's mark once.
func purgeImages() []string {
	var all []string
	for _, t := range imageTables {
		of := "SELECT id FROM (SELECT id FROM glance.images WHERE name = ? AND deleted = 1 AND visibility = 'private') AS probes"
		all = append(all, fmt.Sprintf("DELETE FROM glance.%s WHERE %s IN (%s)", t.table, t.key, of))
	}
	return all
}

// PurgeImages removes what Glance's probe leaves in the database.
func PurgeImages(ctx context.Context, t Target) (err error) {
	db, err := t.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, s := range purgeImages() {
		if _, err := db.ExecContext(ctx, s, t.mark()); err != nil {
			return fmt.Errorf("mariadb %s: remove rows of images that the probe of glance has deleted: %w", t.MariaDB, err)
		}
	}
	return nil
}
