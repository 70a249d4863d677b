package secrets

import (
	"fmt"
	"io"
)

// Keys of Keystone's Fernet repository, below the path of the mapping that has them. Keystone's
// files are numbered: 0 is the staged one, the highest number the primary one.
const (
	fernetStaged    = "staged"
	fernetPrimary   = "primary"
	fernetSecondary = "secondary"
)

// RotateFernet moves the keys below a path on, as `keystone-manage fernet_rotate` does: the staged
// key, which all who validate tokens have had since the last time, signs from now on; what signed
// so far is kept for the tokens that it has signed; what was kept for those before is dropped. The
// tree is not changed. Errors do not show secrets.
func RotateFernet(tree map[string]any, path string, random io.Reader) (map[string]any, error) {
	out := clone(tree)
	for _, step := range [][2]string{{fernetPrimary, fernetSecondary}, {fernetStaged, fernetPrimary}} {
		from, to := path+"."+step[0], path+"."+step[1]
		key, there := Get(tree, from)
		if !there || !(Generator{Generate: "fernet"}).fits(key) {
			return nil, fmt.Errorf("secret %s is missing or not a Fernet key; restore it from a backup", from)
		}
		if !Put(out, to, key) {
			return nil, fmt.Errorf("secret %s: a value on its path is not a mapping", to)
		}
	}
	next, err := Generator{Generate: "fernet"}.New(random)
	if err != nil {
		return nil, fmt.Errorf("secret %s.%s: %w", path, fernetStaged, err)
	}
	Put(out, path+"."+fernetStaged, next) // the mapping is there
	return out, nil
}
