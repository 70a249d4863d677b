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
		v.secretFile(fmt.Sprintf("%s.credentials[%d].file", hardwarePath, i), c.File, "'username: …' and 'password: …'", stat)
	}
	if b := d.Region.Spec.Backup; b != nil && b.Destination.S3 != nil {
		v.secretFile(backupPath+".destination.s3.keyFile", b.Destination.S3.KeyFile, "'accessKeyID: …' and 'secretAccessKey: …'", stat)
	}
	return v.problems
}

// secretFile that holds the given lines.
func (v *validator) secretFile(path, file, lines string, stat func(name string) (fs.FileInfo, error)) {
	// A path that is wrong in itself was reported by Load; the file is not looked for.
	if !(&validator{}).absolute(path, file) {
		return
	}
	info, err := stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.bad(path, file, "does not exist", "create it, readable by root only (chmod 600), with the lines "+lines)
	case err != nil:
		v.bad(path, file, "cannot be looked at: "+err.Error(), "run as root, or check with --offline")
	case !info.Mode().IsRegular():
		v.bad(path, file, fmt.Sprintf("is not a file (%s)", info.Mode()), "give a file with the lines "+lines)
	case info.Mode().Perm()&0o077 != 0:
		v.bad(path, file, fmt.Sprintf("may be read or written by others (mode %04o)", info.Mode().Perm()), "run chmod 600 "+file)
	}
}
