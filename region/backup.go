package region

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Backup says where to, for whom and when regiond backs up the control host: Kubernetes' objects,
// OpenStack's databases, keys and records.
type Backup struct {
	// Destination of the backups: a directory or an S3-compatible store. It should not be on the
	// control host.
	Destination BackupDestination `json:"destination"`
	// Recipients are the public keys, age1…, of those who may restore a backup. `age-keygen` makes a
	// pair; the private key is needed to restore, and does not belong on the control host.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	Recipients []string `json:"recipients"`
	// Schedule is the time from one backup to the next, e.g. 6h, or a cron expression in UTC, e.g.
	// "15 3 * * *". A backup that was missed is made up for. Default "24h".
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Schedule string `json:"schedule,omitempty"`
	// Keep says which backups stay when another one was made. The newest always does.
	// +optional
	Keep BackupRetention `json:"keep,omitempty"`
	// ExcludeGuestImages leaves out the images that users uploaded to Glance. They have to be uploaded
	// again after a restore.
	// +optional
	ExcludeGuestImages bool `json:"excludeGuestImages,omitempty"`
}

// BackupDestination is one of a directory and an S3-compatible store.
type BackupDestination struct {
	// Directory on the control host, usually a mounted file system of another machine.
	// +kubebuilder:validation:Pattern=`^/.`
	// +optional
	Directory string `json:"directory,omitempty"`
	// S3 is a bucket of an S3-compatible store.
	// +optional
	S3 *S3Bucket `json:"s3,omitempty"`
}

// S3Bucket is a place in an S3-compatible store.
type S3Bucket struct {
	// Endpoint is the URL of the store, e.g. https://s3.example.net.
	// +kubebuilder:validation:Pattern=`^https?://.`
	Endpoint string `json:"endpoint"`
	// Bucket that the backups are in. It must be there.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	Bucket string `json:"bucket"`
	// Prefix of the objects' names, e.g. regiond/north-1.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Prefix string `json:"prefix,omitempty"`
	// Region of the bucket, where the store has regions.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Region string `json:"region,omitempty"`
	// KeyFile on the control host has accessKeyID and secretAccessKey in YAML, readable by root only.
	// +kubebuilder:validation:Pattern=`^/.`
	KeyFile string `json:"keyFile"`
	// CAFile on the control host has the authority of the store's certificate, in PEM. Default: the
	// system's authorities.
	// +kubebuilder:validation:Pattern=`^/.`
	// +optional
	CAFile string `json:"caFile,omitempty"`
}

// BackupRetention says which backups are kept. One that either rule keeps stays. Default: the newest
// 14.
type BackupRetention struct {
	// Count of the newest backups to keep.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Count int32 `json:"count,omitempty"`
	// Days for which every backup is kept.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=36500
	// +optional
	Days int32 `json:"days,omitempty"`
}

// ConditionBackedUp of a Region: backups are made as declared. It is there only if they are declared.
const ConditionBackedUp = "BackedUp"

// MinBackupInterval keeps one backup from beginning while the last one is hardly read.
const MinBackupInterval = 5 * time.Minute

// ParseBackupSchedule returns the function that tells the time of the next backup from that of the
// last one.
func ParseBackupSchedule(s string) (next func(last time.Time) time.Time, err error) {
	if d, err := time.ParseDuration(s); err == nil {
		if d < MinBackupInterval {
			return nil, fmt.Errorf("it is less than %s", MinBackupInterval)
		}
		return func(last time.Time) time.Time { return last.Add(d) }, nil
	}
	c, err := parseCron(s)
	if err != nil {
		return nil, fmt.Errorf("it is neither a time like 6h nor a cron expression like \"15 3 * * *\": %w", err)
	}
	at := c.Next(sampleFrom)
	if at.IsZero() {
		return nil, errors.New("it has no time: no year has that day")
	}
	for range samples {
		after := c.Next(at)
		if gap := after.Sub(at); !after.IsZero() && gap < MinBackupInterval {
			return nil, fmt.Errorf("two of its times are %s apart, less than %s", gap, MinBackupInterval)
		}
		at = after
	}
	return func(last time.Time) time.Time { return c.Next(last.UTC()) }, nil
}

// A schedule's times are tried from sampleFrom on, as many as samples.
var sampleFrom = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const samples = 20

// parseCron reads a cron expression. The library panics at a time zone without an expression.
func parseCron(s string) (cron.Schedule, error) {
	if strings.Contains(s, "TZ=") && !strings.Contains(s, " ") {
		return nil, errors.New("a time zone is not one")
	}
	return cron.ParseStandard(s)
}
