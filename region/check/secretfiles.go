package check

import (
	"errors"
	"fmt"
	"io/fs"
)

// CheckSecretFiles reports credential files that are missing, are no files or may be read by
// others than their owner. It asks stat (os.Stat) and reads none of them.
func (d *Document) CheckSecretFiles(stat func(name string) (fs.FileInfo, error)) Problems {
	v := &validator{file: d.Name, index: d.index}
	for i, c := range d.Region.Spec.Hardware.Credentials {
		path := fmt.Sprintf("%s.credentials[%d].file", hardwarePath, i)
		// A path that is wrong in itself was reported by Load; the file is not looked for.
		if !(&validator{}).absolute(path, c.File) {
			continue
		}
		info, err := stat(c.File)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			v.bad(path, c.File, "does not exist", "create it, readable by root only (chmod 600), with the lines 'username: …' and 'password: …'")
		case err != nil:
			v.bad(path, c.File, "cannot be looked at: "+err.Error(), "run as root, or check with --offline")
		case !info.Mode().IsRegular():
			v.bad(path, c.File, fmt.Sprintf("is not a file (%s)", info.Mode()), "give a file with the lines 'username: …' and 'password: …'")
		case info.Mode().Perm()&0o077 != 0:
			v.bad(path, c.File, fmt.Sprintf("may be read or written by others (mode %04o)", info.Mode().Perm()), "run chmod 600 "+c.File)
		}
	}
	return v.problems
}
