package credentials

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/region"
)

// Importer keeps one Secret for each credential of a region.
type Importer struct {
	client      client.Client
	credentials []region.Credential

	mu       sync.Mutex
	problems []string
}

// NewImporter for the credentials of a region.
func NewImporter(c client.Client, credentials []region.Credential) *Importer {
	return &Importer{client: c, credentials: credentials}
}

// Sync reads every file and applies its Secret. A file that can't be read leaves the Secret of an
// earlier time in place: servers in operation stay manageable while someone repairs the file.
// Applying what is already there changes nothing, not even the resourceVersion.
func (i *Importer) Sync(ctx context.Context) error {
	var errs []error
	var problems []string
	for _, c := range i.credentials {
		if err := i.sync(ctx, c); err != nil {
			err = fmt.Errorf("credentials %q: %w", c.Name, err)
			errs = append(errs, err)
			problems = append(problems, err.Error())
		}
	}
	i.mu.Lock()
	i.problems = problems
	i.mu.Unlock()
	return errors.Join(errs...)
}

// Problems of the last Sync, for status.
func (i *Importer) Problems() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.problems
}

func (i *Importer) sync(ctx context.Context, c region.Credential) error {
	value, err := Read(c.File)
	if err != nil {
		return err
	}
	key, err := value.Key()
	if err != nil {
		return err
	}
	encode := base64.StdEncoding.EncodeToString
	data := map[string]any{server.KeyUsername: encode([]byte(value.Username)), server.KeyPassword: encode([]byte(value.Password))}
	if len(key) > 0 {
		data[server.KeyBMCKey] = encode(key)
	}
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "Secret",
		"type":       "kubernetes.io/basic-auth",
		"metadata": map[string]any{
			"name":      server.CredentialsSecret(c.Name),
			"namespace": server.Namespace,
		},
		"data": data,
	}}
	if err := i.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(secret), client.FieldOwner(region.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply Secret %s/%s: %w", server.Namespace, secret.GetName(), err)
	}
	return nil
}
