package check_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/check"
)

const publicKey = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"

// withBackup is the smallest region with spec.backup.
func withBackup(text string) []byte {
	return []byte(smallest + "  backup: " + text + "\n")
}

func TestBackup(t *testing.T) {
	doc, err := check.Load(withBackup(`{destination: {directory: /mnt/backups}, recipients: [`+publicKey+`]}`), "region.yaml")
	if err != nil {
		t.Fatal(err)
	}
	region.Default(doc.Region)
	b := doc.Region.Spec.Backup
	if b.Schedule != "24h" || b.Keep.Count != 14 || b.Keep.Days != 0 {
		t.Errorf("got %+v, want the defaults 24h and the newest 14", b)
	}
	const s3 = `s3: {endpoint: "https://s3.example.net", bucket: backups, prefix: regiond/north-1, keyFile: /etc/regiond/s3.yaml}`
	if _, err := check.Load(withBackup(`{destination: {`+s3+`}, recipients: [`+publicKey+`], schedule: "15 3 * * *", keep: {days: 30}}`), "region.yaml"); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		`{destination: {directory: /mnt/b, ` + s3 + `}, recipients: [` + publicKey + `]}`:                                      "is not the only destination",
		`{destination: {}, recipients: [` + publicKey + `]}`:                                                                   "backups need a directory or an S3 store",
		`{destination: {directory: /var/lib/regiond/backups}, recipients: [` + publicKey + `]}`:                                "is in the data directory, and is lost with it",
		`{destination: {directory: /mnt/b}, recipients: []}`:                                                                   "recipients",
		`{destination: {directory: /mnt/b}, recipients: [age1xyz]}`:                                                            `"age1xyz" is not a public key of age`,
		`{destination: {directory: /mnt/b}, recipients: [AGE-SECRET-KEY-1X]}`:                                                  "this is a private key",
		`{destination: {directory: /mnt/b}, recipients: [` + publicKey + `], schedule: often}`:                                 `"often" is not a schedule`,
		`{destination: {directory: /mnt/b}, recipients: [` + publicKey + `], schedule: 1m}`:                                    "it is less than 5m0s",
		`{destination: {directory: /mnt/b}, recipients: [` + publicKey + `], keep: {count: 0}}`:                                "count",
		strings.ReplaceAll(`{destination: {`+s3+`}, recipients: [`+publicKey+`]}`, "https://s3.example.net", "https://u:p@h/"): "is not the URL of a store",
		strings.ReplaceAll(`{destination: {`+s3+`}, recipients: [`+publicKey+`]}`, "regiond/north-1", "/regiond/"):             `did you mean "regiond"?`,
	} {
		_, err := check.Load(withBackup(text), "region.yaml")
		var problems check.Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// What was written where no secret belongs is not repeated in a terminal, a log or a job's output.
func TestBackupProblemsShowNoSecret(t *testing.T) {
	const private = "AGE-SECRET-KEY-1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQQPZRY9X8GF2TVDW0S3JN5"
	for text, secret := range map[string]string{
		`{destination: {directory: /mnt/b}, recipients: [` + private + `]}`:                                                                                   "1QQPZRY",
		`{destination: {s3: {endpoint: "https://u:hidden@s3.example.net", bucket: backups, keyFile: /etc/regiond/s3.yaml}}, recipients: [` + publicKey + `]}`: "hidden",
	} {
		_, err := check.Load(withBackup(text), "region.yaml")
		var problems check.Problems
		if !errors.As(err, &problems) {
			t.Fatalf("got %v, want problems", err)
		}
		if shown := fmt.Sprintf("%v %+v", err, problems); strings.Contains(shown, secret) {
			t.Errorf("the problem shows %q:\n%s", secret, shown)
		}
	}
}

// A schedule that never comes due, or always is, is refused: a whole backup would be made at each look.
func TestBackupSchedulesThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"1m":             "it is less than 5m0s",
		"@every 1m":      "two of its times are 1m0s apart, less than 5m0s",
		"* * * * *":      "two of its times are 1m0s apart, less than 5m0s",
		"0,2 3 * * 1":    "two of its times are 2m0s apart, less than 5m0s",
		"0 0 30 2 *":     "it has no time",
		"TZ=UTC":         "neither a time like 6h nor a cron expression",
		"CRON_TZ=UTC":    "neither a time like 6h nor a cron expression",
		"TZ=UTC 0 3 * *": "neither a time like 6h nor a cron expression",
	} {
		if _, err := region.ParseBackupSchedule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"*/5 * * * *", "0 0 29 2 *", "@every 6h"} {
		if _, err := region.ParseBackupSchedule(text); err != nil {
			t.Errorf("%q: %v, want it taken", text, err)
		}
	}
}

func TestBackupSchedule(t *testing.T) {
	last := time.Date(2026, 12, 1, 3, 45, 0, 0, time.FixedZone("", 3600)) // 02:45 UTC
	for text, want := range map[string]time.Time{
		"6h":         last.Add(6 * time.Hour),
		"15 3 * * *": time.Date(2026, 12, 1, 3, 15, 0, 0, time.UTC),
		"@daily":     time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC),
	} {
		next, err := region.ParseBackupSchedule(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := next(last); !got.Equal(want) {
			t.Errorf("%q after %s: got %s, want %s", text, last, got, want)
		}
	}
}
