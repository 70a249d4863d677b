package diagnose

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSecretValues(t *testing.T) {
	named := func(name string, data map[string]string) corev1.Secret {
		s := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{}}
		for key, value := range data {
			s.Data[key] = []byte(value)
		}
		return s
	}
	all := []corev1.Secret{
		named("bmc-lab", map[string]string{"username": "operator", "password": "calvin\n", "short": "abc", "bmcKey": "12345678"}),
		named("openstack-secrets", map[string]string{"secrets.json": `{"nova":{"password":"nova-pass","keys":["key-one","key-two"]},"n":12345678}`}),
		named("ticket", map[string]string{"address": "10.99.0.154", "sha256": strings.Repeat("a1", 32)}),
		named("config-nova", map[string]string{"nova.conf": "[DEFAULT]\nhost = server-1\nusername = nova-of-host-1\npassword = derived-of-host\n" +
			"transport_url = rabbit://nova:derived-for-broker@10.0.0.1:5672/nova\npassword = short\n"}),
		named("host", map[string]string{"configuration.json": `{"files":[{"content":"[a]\nmetadata_proxy_shared_secret = derived-metadata\nb = c\n"}]}`}),
		named("tls", map[string]string{"tls.crt": "certificate", "tls.key": "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA8Iks0uQxT1kkdr2\n-----END PRIVATE KEY-----\n"}),
	}
	want := []string{"12345678", "MC4CAQAwBQYDK2VwBCIEIA8Iks0uQxT1kkdr2", "calvin", "derived-for-broker", "derived-metadata", "derived-of-host", "key-one", "key-two", "nova-pass"}
	if got := secretValues(all); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestScrub(t *testing.T) {
	const password, longer = "p/a ss+word", "p/a ss+word-2"
	s := newScrubber([]string{password, longer})
	for text, want := range map[string]string{
		"nothing to see: a token was issued, keys rotate":                          "nothing to see: a token was issued, keys rotate",
		"login with p/a ss+word failed":                                            "login with [removed] failed",
		"two: p/a ss+word-2.":                                                      "two: [removed].",
		"q=" + url.QueryEscape(password) + "&x=1":                                  "q=[removed]&x=1",
		"/v1/" + url.PathEscape(password):                                          "/v1/[removed]",
		base64.RawStdEncoding.EncodeToString([]byte(password)):                     "[removed]",
		"mysql+pymysql://nova:0ld-one@10.0.0.1:3306/nova":                          "mysql+pymysql://nova:[removed]@10.0.0.1:3306/nova",
		"X-Auth-Token: gAAAAABnTTTTTTTTTTTTTTTTTTTT-x_y=":                          "X-Auth-Token: [removed]",
		"token eyJhbGciOiJSUzI1Ni.eyJpc3MiOiJrdWJl.c2lnbmF0dXJl":                   "token [removed]",
		`{"adminPassword": "hunter2", "name": "vm1"}`:                              `{"adminPassword": "[removed]", "name": "vm1"}`,
		"Authorization: Bearer abc.def":                                            "Authorization: [removed]",
		"rabbit_password = guest":                                                  "rabbit_password = [removed]",
		"-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY-----\nrest": "[removed]\nrest",
		"-----BEGIN EC PRIVATE KEY-----\nMHcC, cut off":                            "[removed]",
	} {
		if got := s.text(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// FuzzScrub: no known secret survives, wherever it is.
func FuzzScrub(f *testing.F) {
	f.Add("before ", "secret-1", " after")
	f.Add("://a:", "b@c/defg", "@")
	f.Fuzz(func(t *testing.T, before, secret, after string) {
		if len(strings.TrimSpace(secret)) < shortest || strings.Contains(removed, secret) {
			return // not looked for
		}
		if got := newScrubber([]string{secret}).text(before + secret + after); strings.Contains(got, secret) && !strings.Contains(before+removed+after, secret) {
			t.Errorf("%q is left in %q", secret, got)
		}
	})
}
