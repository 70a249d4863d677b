package enrollment

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"regiond.dev/regiond/hardware/server"
	"regiond.dev/regiond/machine/enroll"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
)

// Kinds of tokens; each server has at most one of each, in the Secret <kind>-<server>.
const (
	kindTicket = "ticket" // for one installer
	kindJoin   = "join"   // for the system that it installs
)

// Keys of a token's Secret.
const (
	keyHash       = "sha256"     // of the token, in hex
	keyServerUID  = "serverUID"  // whom it was issued for
	keyHostUID    = "hostUID"    // join: whom it was issued for, if regiond did not install it
	keyExpires    = "expires"    // RFC 3339, if it does by itself
	keyRequested  = "requested"  // ticket: RFC 3339, the network boot that it was given in
	keyBMCAddress = "bmcAddress" // ticket: of the BMC that this network boot was asked of
	keySystemUUID = "systemUUID" // SMBIOS UUID of the machine
	keyMAC        = "macAddress" // ticket: of the interface that netbooted
	keyAddress    = "address"    // ticket: leased to that interface
	keyIssued     = "issued"     // RFC 3339
	keyUsedBy     = "usedBy"     // join: SHA-256 of the public key that the token was used with, in hex
	keyUsed       = "used"       // when
)

func secretName(kind, serverName string) string {
	if kind == kindJoin {
		return host.JoinToken(serverName)
	}
	return kind + "-" + serverName
}

// issue makes a token for a server. It replaces the one before.
func (s *Server) issue(ctx context.Context, kind string, to *region.Server, bound map[string]string) (string, error) {
	data := map[string]string{keyServerUID: string(to.UID), keyIssued: s.Now().UTC().Format(time.RFC3339)}
	maps.Copy(data, bound)
	token, err := issue(ctx, s.Client, kind, to, data)
	if err != nil {
		return "", fmt.Errorf("server %s: %w", to.Name, err)
	}
	return token, nil
}

// issue makes a token that belongs to an object and goes with it.
func issue(ctx context.Context, c client.Client, kind string, to client.Object, data map[string]string) (string, error) {
	var random [32]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", fmt.Errorf("%s token: %w", kind, err)
	}
	// The name in front says which Secret to look at. It is part of what is hashed.
	token := to.GetName() + "." + base64.RawURLEncoding.EncodeToString(random[:])
	content := map[string][]byte{keyHash: []byte(hash(token))}
	for k, v := range data {
		content[k] = []byte(v)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName(kind, to.GetName()), Namespace: server.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, c, secret, func() error {
		secret.Data = content
		secret.OwnerReferences = nil
		return controllerutil.SetControllerReference(to, secret, c.Scheme())
	})
	if err != nil {
		return "", fmt.Errorf("store %s token: %w", kind, err)
	}
	return token, nil
}

// verify returns the server and the Secret that a token was issued for.
func (s *Server) verify(ctx context.Context, kind, token string) (*region.Server, *corev1.Secret, error) {
	secret, err := s.find(ctx, kind, token)
	if err != nil {
		return nil, nil, err
	}
	srv := &region.Server{}
	if err := s.issuedTo(ctx, secret, keyServerUID, srv); err != nil {
		return nil, nil, err
	}
	return srv, secret, nil
}

func unknownToken() error {
	return refusal(enroll.ReasonTokenUnknown, "the token was never given, or was replaced by a newer one; netboot the machine again")
}

// find returns the Secret of a token.
func (s *Server) find(ctx context.Context, kind, token string) (*corev1.Secret, error) {
	name, _, ok := strings.Cut(token, ".")
	if !ok || !isLabel(name) {
		return nil, unknownToken()
	}
	secret := &corev1.Secret{}
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: server.Namespace, Name: secretName(kind, name)}, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, unknownToken()
		}
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(hash(token)), secret.Data[keyHash]) != 1 {
		return nil, unknownToken()
	}
	return secret, nil
}

// issuedTo reads the object that a token was issued to, whose UID is under the key.
func (s *Server) issuedTo(ctx context.Context, secret *corev1.Secret, key string, to client.Object) error {
	_, name, _ := strings.Cut(secret.Name, "-")
	if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, to); err != nil {
		if apierrors.IsNotFound(err) {
			return unknownToken()
		}
		return err
	}
	if uid := string(secret.Data[key]); uid == "" || string(to.GetUID()) != uid || to.GetDeletionTimestamp() != nil {
		return unknownToken() // of an earlier object of the same name
	}
	return nil
}

// Cleanup deletes the tokens of a server that goes.
func (s *Server) Cleanup(ctx context.Context, srv *region.Server) error {
	for _, kind := range []string{kindTicket, kindJoin} {
		if err := s.revoke(ctx, kind, srv.Name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) revoke(ctx context.Context, kind, serverName string) error {
	err := s.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName(kind, serverName), Namespace: server.Namespace}})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("server %s: revoke %s token: %w", serverName, kind, err)
	}
	return nil
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// isLabel says whether s may be the name of a server: a DNS label (RFC 1123 section 2.1).
func isLabel(s string) bool {
	if len(s) == 0 || len(s) > 63 {
		return false
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return false
		}
	}
	return true
}
