package backup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"go.yaml.in/yaml/v3"
)

// partSize of uploads in bytes. S3 takes 10,000 parts at most, so a backup has at most 640 GB; one
// part is in memory at a time.
const partSize = 64 << 20

// maxKeyFile bounds the file with the access key in bytes.
const maxKeyFile = 64 << 10

// S3Config says where an S3-compatible store is.
type S3Config struct {
	// Endpoint is its URL, e.g. https://s3.example.net.
	Endpoint string
	Bucket   string
	// Prefix of the names, without a slash at its end. May be empty.
	Prefix string
	// Region of the bucket, where the store has any.
	Region string
	// KeyFile holds accessKeyID and secretAccessKey, in YAML, for its owner only.
	KeyFile string
	// CAFile has authorities in PEM to believe instead of the system's. May be empty.
	CAFile string
}

// S3 keeps backups as objects.
type S3 struct {
	config S3Config
	client *minio.Client
}

// NewS3 reads the key. It does not contact the store.
func NewS3(c S3Config) (*S3, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("S3 endpoint %q: want a URL like https://s3.example.net", c.Endpoint)
	}
	key, err := readKey(c.KeyFile)
	if err != nil {
		return nil, err
	}
	transport, err := minio.DefaultTransport(u.Scheme == "https")
	if err != nil {
		return nil, err
	}
	if err := believe(transport, c.CAFile); err != nil {
		return nil, err
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds: credentials.NewStaticV4(key.AccessKeyID, key.SecretAccessKey, ""), Secure: u.Scheme == "https", Transport: transport,
		Region: c.Region, BucketLookup: minio.BucketLookupAuto,
	})
	if err != nil {
		return nil, fmt.Errorf("S3 at %s: %w", c.Endpoint, err)
	}
	return &S3{config: c, client: client}, nil
}

type accessKey struct {
	AccessKeyID     string `yaml:"accessKeyID"`
	SecretAccessKey string `yaml:"secretAccessKey"`
}

// readKey reads the file with the access key. Its error never holds what the file says.
func readKey(file string) (k accessKey, err error) {
	f, err := os.Open(file)
	if err != nil {
		return k, fmt.Errorf("key of the S3 store: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return k, fmt.Errorf("key of the S3 store: %w", err)
	}
	if m := info.Mode(); !m.IsRegular() || m.Perm()&0o077 != 0 {
		return k, fmt.Errorf("key of the S3 store: %s has mode %s and may be read by others: chmod 600 %s", file, m, file)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return k, fmt.Errorf("key of the S3 store: %w", err)
	}
	if yaml.Unmarshal(b, &k) != nil || k.AccessKeyID == "" || k.SecretAccessKey == "" {
		return k, fmt.Errorf("key of the S3 store: %s is not YAML with the keys accessKeyID and secretAccessKey", file)
	}
	return k, nil
}

func believe(t *http.Transport, caFile string) error {
	if caFile == "" {
		return nil
	}
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return fmt.Errorf("authority of the S3 store: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return fmt.Errorf("authority of the S3 store: %s holds no certificate in PEM", caFile)
	}
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return nil
}

func (s *S3) String() string {
	return fmt.Sprintf("%s, bucket %s", s.config.Endpoint, path.Join(s.config.Bucket, s.config.Prefix))
}

func (s *S3) key(name string) string { return path.Join(s.config.Prefix, name) }

// prefix of all keys.
func (s *S3) prefix() string {
	if s.config.Prefix == "" {
		return ""
	}
	return s.config.Prefix + "/"
}

// Create begins an object, which appears when all of it was sent.
func (s *S3) Create(ctx context.Context, name string) (Upload, error) {
	if err := s.RemoveLeftovers(ctx, time.Now().Add(-leftoverAge)); err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	u := &s3Upload{PipeWriter: w, sent: make(chan error, 1)}
	go func() {
		_, err := s.client.PutObject(ctx, s.config.Bucket, s.key(name), r, -1, minio.PutObjectOptions{
			ContentType: "application/octet-stream", PartSize: partSize,
		})
		err = s.fail(name, err)
		ended := err // what Write says from now on
		if err == nil {
			ended = errors.New("the upload has ended")
		}
		u.sent <- errors.Join(err, r.CloseWithError(ended))
	}()
	return u, nil
}

// RemoveLeftovers of backups that were cut off and begun before a time: a store keeps their parts, and
// charges for them, and no listing of objects shows them. A key that may not list uploads leaves that to
// the bucket's rules.
func (s *S3) RemoveLeftovers(ctx context.Context, before time.Time) error {
	ctx, cancel := context.WithCancel(ctx) // ends the listing when it is left early
	defer cancel()
	for u := range s.client.ListIncompleteUploads(ctx, s.config.Bucket, s.prefix(), true) {
		if u.Err != nil {
			if code := minio.ToErrorResponse(u.Err).Code; code == minio.AccessDenied || code == minio.NotImplemented {
				return nil
			}
			return fmt.Errorf("%s: uploads that were cut off: %w", s, u.Err)
		}
		if _, ok := ParseName(strings.TrimPrefix(u.Key, s.prefix())); !ok || !u.Initiated.Before(before) {
			continue
		}
		if err := s.client.RemoveIncompleteUpload(ctx, s.config.Bucket, u.Key); err != nil {
			return fmt.Errorf("%s: %s: remove what a backup that was cut off left: %w", s, u.Key, err)
		}
	}
	return nil
}

type s3Upload struct {
	*io.PipeWriter
	sent chan error
}

// Commit waits until the store has all of it.
func (u *s3Upload) Commit() error {
	if err := u.Close(); err != nil {
		return err
	}
	return <-u.sent
}

// Discard ends the upload; the client removes what was sent. Why an upload failed Write has said.
func (u *s3Upload) Discard() error {
	err := u.CloseWithError(errors.New("the backup was not completed"))
	<-u.sent
	return err
}

// fail says of which object a failure is.
func (s *S3) fail(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", s, s.key(name), err)
}

// Open an object. That it is missing is an error here and not at its first byte.
func (s *S3) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	o, err := s.client.GetObject(ctx, s.config.Bucket, s.key(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, s.fail(name, err)
	}
	if _, err := o.Stat(); err != nil {
		return nil, errors.Join(s.fail(name, err), o.Close())
	}
	return o, nil
}

// List the objects that are backups.
func (s *S3) List(ctx context.Context) ([]Stored, error) {
	ctx, cancel := context.WithCancel(ctx) // ends the listing when it is left early
	defer cancel()
	var all []Stored
	for o := range s.client.ListObjects(ctx, s.config.Bucket, minio.ListObjectsOptions{Prefix: s.prefix()}) {
		if o.Err != nil {
			return nil, fmt.Errorf("%s: %w", s, o.Err)
		}
		if b, ok := ParseName(strings.TrimPrefix(o.Key, s.prefix())); ok {
			b.Size = o.Size
			all = append(all, b)
		}
	}
	return newestFirst(all), nil
}

// Remove an object.
func (s *S3) Remove(ctx context.Context, name string) error {
	return s.fail(name, s.client.RemoveObject(ctx, s.config.Bucket, s.key(name), minio.RemoveObjectOptions{}))
}
