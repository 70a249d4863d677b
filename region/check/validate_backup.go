package check

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"filippo.io/age"

	"regiond.dev/regiond/region"
)

const backupPath = "spec.backup"

// backup checks where backups go and who can read them.
func (v *validator) backup(r *region.Region) {
	b := r.Spec.Backup
	if b == nil {
		return
	}
	to, at := b.Destination, backupPath+".destination"
	switch {
	case to.Directory != "" && to.S3 != nil:
		v.bad(at+".directory", to.Directory, "is not the only destination: s3 is given too", "keep one of them")
	case to.S3 != nil:
		v.bucket(at+".s3", to.S3)
	case to.Directory == "":
		v.missing(at, "backups need a directory or an S3 store", "add directory: /mnt/backups, or s3 with endpoint, bucket and keyFile")
	case v.absolute(at+".directory", to.Directory) && below(to.Directory, r.Spec.ControlPlane.DataDir):
		v.bad(at+".directory", to.Directory, "is in the data directory, and is lost with it", "give a directory of another machine's disk that is mounted here")
	}
	for i, recipient := range b.Recipients {
		if !IsRecipient(recipient) {
			v.bad(fmt.Sprintf("%s.recipients[%d]", backupPath, i), withoutKey(recipient), "is not a public key of age", recipientHelp(recipient))
		}
	}
	if _, err := region.ParseBackupSchedule(b.Schedule); err != nil {
		v.bad(backupPath+".schedule", b.Schedule, "is not a schedule: "+err.Error(), `write a time like 6h, or a cron expression in UTC like "15 3 * * *"`)
	}
}

// IsRecipient tells whether a text is one public key of age.
func IsRecipient(text string) bool {
	all, err := age.ParseRecipients(strings.NewReader(text))
	return err == nil && len(all) == 1 && strings.TrimSpace(text) == text
}

// privateKey is how private keys of age begin.
const privateKey = "AGE-SECRET-KEY-"

// withoutKey is what was given, unless it is a private key, which is not repeated.
func withoutKey(text string) string {
	if strings.Contains(strings.ToUpper(text), privateKey) {
		return privateKey + "…"
	}
	return text
}

// recipientHelp says what to give instead.
func recipientHelp(text string) string {
	if withoutKey(text) != text {
		return "this is a private key, and not secret any more once it was in a file like this: make another pair with age-keygen, and write its public key, age1…"
	}
	return "write the line that age-keygen prints as public key, age1…"
}

func (v *validator) bucket(at string, s *region.S3Bucket) {
	u, err := url.Parse(s.Endpoint)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" {
		v.bad(at+".endpoint", withoutUser(s.Endpoint), "is not the URL of a store", "write scheme, name and port only, e.g. https://s3.example.net")
	}
	if s.Prefix != "" && (path.Clean("/"+s.Prefix) != "/"+s.Prefix) {
		v.bad(at+".prefix", s.Prefix, "is not a clean prefix", meant(strings.Trim(path.Clean("/"+s.Prefix), "/"), "leave it out"))
	}
	v.absolute(at+".keyFile", s.KeyFile)
	if s.CAFile != "" {
		v.absolute(at+".caFile", s.CAFile)
	}
}

// withoutUser leaves out of a URL what comes before its host: user and password, if there are any.
func withoutUser(text string) string {
	if at := strings.LastIndex(text, "@"); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

// below tells whether a clean path is a folder or in it.
func below(file, folder string) bool {
	return file == folder || strings.HasPrefix(file, strings.TrimSuffix(folder, "/")+"/")
}
