package hostkey_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/region"
	"regiond.dev/regiond/region/host"
	"regiond.dev/regiond/region/scheme"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestSuperseded(t *testing.T) {
	renewed := &hostkey.Record{}
	renewed.Sign(hostkey.Key{ID: "new"}, hostkey.Key{ID: "old"}, t0)
	for name, c := range map[string]struct {
		record    *hostkey.Record
		key       string
		notBefore time.Time
		want      bool
	}{
		"nothing was recorded by earlier versions": {nil, "any", t0.Add(-time.Hour), false},
		"the newest key":                               {renewed, "new", t0.Add(-5 * time.Minute), false},
		"the key before, if the answer was lost":       {renewed, "old", t0.Add(-60 * 24 * time.Hour), false},
		"the disk of an earlier installation":          {renewed, "other", t0.Add(-time.Hour), true},
		"an installation was ordered, no agent joined": {&hostkey.Record{Issued: t0}, "old", t0.Add(-time.Hour), true},
		"the record is of a backup, the key is newer":  {renewed, "newer", t0.Add(time.Hour), false},
	} {
		if got := c.record.Superseded(c.key, c.notBefore); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestReadmits(t *testing.T) {
	open := func(change func(*hostkey.Record)) *hostkey.Record {
		r := &hostkey.Record{}
		r.Sign(hostkey.Key{ID: "new"}, hostkey.Key{ID: "old"}, t0)
		r.ReadmitUntil = t0.Add(200 * 24 * time.Hour)
		if change != nil {
			change(r)
		}
		return r
	}
	now := t0.Add(199 * 24 * time.Hour)
	used := func(r *hostkey.Record) { r.Readmitted, r.ReadmittedKey = now.Add(-time.Minute), "new" }
	for name, c := range map[string]struct {
		record    *hostkey.Record
		key       string
		heartbeat time.Time
		want      bool
	}{
		"no record":                         {nil, "new", t0, false},
		"not opened":                        {open(func(r *hostkey.Record) { r.ReadmitUntil = time.Time{} }), "new", t0, false},
		"over":                              {open(func(r *hostkey.Record) { r.ReadmitUntil = now }), "new", t0, false},
		"open":                              {open(nil), "new", t0, true},
		"the key before":                    {open(nil), "old", t0, true},
		"another key":                       {open(nil), "other", t0, false},
		"the answer was lost":               {open(used), "new", t0, true},
		"used, then the key before":         {open(used), "old", t0, false},
		"used, and the host was heard":      {open(used), "new", now, false},
		"never heard, used, asks again":     {open(used), "new", time.Time{}, true},
		"installation ordered, no key":      {&hostkey.Record{Issued: t0, ReadmitUntil: now.Add(time.Hour)}, "new", t0, false},
		"installed again since it was used": {open(func(r *hostkey.Record) { used(r); r.Keys = []string{"next"} }), "new", t0, false},
		"the empty key is not a recorded":   {&hostkey.Record{ReadmitUntil: now.Add(time.Hour)}, "", t0, false},
	} {
		if got := c.record.Readmits(c.key, c.heartbeat, now); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// The record is of one object: an earlier one of the same name was another machine. A refused change leaves it as it is.
func TestRecordIsOfOneObject(t *testing.T) {
	api := fake.NewClientBuilder().WithScheme(scheme.New()).Build()
	first := &region.Server{ObjectMeta: metav1.ObjectMeta{Name: "s1", UID: types.UID("1")}}
	second := &region.Server{ObjectMeta: metav1.ObjectMeta{Name: "s1", UID: types.UID("2")}}
	sign := func(key string) func(*hostkey.Record) error {
		return func(r *hostkey.Record) error { r.Sign(hostkey.Key{ID: key}, hostkey.Key{}, t0); return nil }
	}
	if err := hostkey.Update(t.Context(), api, first, sign("a")); err != nil {
		t.Fatal(err)
	}
	if r, err := hostkey.Read(t.Context(), api, second); r != nil || err != nil {
		t.Errorf("record of an earlier server: %+v %v", r, err)
	}
	refused := errors.New("refused")
	if err := hostkey.Update(t.Context(), api, first, func(r *hostkey.Record) error { r.Keys = nil; return refused }); !errors.Is(err, refused) {
		t.Errorf("got %v, want the refusal", err)
	}
	if r, err := hostkey.Read(t.Context(), api, first); err != nil || !r.Holds("a") || !r.Expires.Equal(t0.Add(hostkey.Validity)) {
		t.Errorf("record %+v %v", r, err)
	}
	if err := hostkey.Update(t.Context(), api, second, sign("b")); err != nil {
		t.Fatal(err)
	}
	if r, err := hostkey.Read(t.Context(), api, second); err != nil || r.Holds("a") || !r.Holds("b") {
		t.Errorf("record of the new server: %+v %v", r, err)
	}
	secret := &corev1.Secret{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: region.NamespaceSystem, Name: hostkey.Name("s1")}, secret); err != nil || !metav1.IsControlledBy(secret, second) {
		t.Errorf("owner %v %v", secret.OwnerReferences, err)
	}
}

// TestNeedsReadmission: a host whose last certificate did not reach it asks with the key of the one
// that expired, and must be let back although the record's certificate is still valid.
func TestNeedsReadmission(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := &hostkey.Record{}
	r.Sign(hostkey.Key{ID: "a"}, hostkey.Key{}, now)
	var heartbeat time.Time
	for _, step := range []struct {
		name   string
		change func()
		after  time.Duration
		want   bool
	}{
		{"signed", func() {}, time.Hour, false},
		{"asks, since its clock is wrong", func() { r.Asked = now.Add(2 * time.Hour) }, 3 * time.Hour, true},
		{"its clock was set, and it is heard", func() { heartbeat = now.Add(4 * time.Hour) }, 30 * 24 * time.Hour, false},
		{"expired", func() {}, hostkey.Validity, true},
		{"signed again", func() { r.Sign(hostkey.Key{ID: "a"}, hostkey.Key{}, now.Add(hostkey.Validity)) }, hostkey.Validity + time.Minute, false},
		{"asks, since that was lost", func() { r.Asked = now.Add(hostkey.Validity + 2*time.Minute) }, hostkey.Validity + 3*time.Minute, true},
		{"signed once more", func() { r.Sign(hostkey.Key{ID: "a"}, hostkey.Key{}, now.Add(hostkey.Validity+time.Hour)) }, hostkey.Validity + 2*time.Hour, false},
	} {
		step.change()
		if got := r.NeedsReadmission(heartbeat, now.Add(step.after)); got != step.want {
			t.Errorf("%s: got %v, want %v", step.name, got, step.want)
		}
	}
	if (*hostkey.Record)(nil).NeedsReadmission(now, now) {
		t.Error("no record: got true, want false")
	}
}

// What a join token says is taken over where nothing was ever recorded. An order to install has revoked it.
func TestAdopt(t *testing.T) {
	ofJoin := &hostkey.Record{Keys: []string{"first"}, Issued: t0, Expires: t0.Add(hostkey.Validity), OfJoin: true}
	joined := &hostkey.Record{}
	joined.Sign(hostkey.Key{ID: "a"}, hostkey.Key{}, t0)
	for name, c := range map[string]struct {
		have, with *hostkey.Record
		want       string
	}{
		"nothing was recorded":      {&hostkey.Record{}, ofJoin, "[first]"},
		"an installation's order":   {&hostkey.Record{Issued: t0}, ofJoin, "[]"},
		"an agent has joined since": {joined, ofJoin, "[a]"},
		"the record was removed":    {&hostkey.Record{}, joined, "[]"},
	} {
		have := *c.have
		have.Adopt(c.with)
		if got := fmt.Sprint(have.Keys); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// The rights are those of the recorded keys. Where a certificate does not name its key, they are those of the host's name, too.
func TestHolders(t *testing.T) {
	key := func(id string) hostkey.Key { return hostkey.Key{ID: id, Named: true} }
	byName := func(id string) hostkey.Key { return hostkey.Key{ID: id} }
	sign := func(key, asking hostkey.Key, confirmed string) *hostkey.Record {
		r := &hostkey.Record{}
		r.Sign(key, asking, t0)
		r.Confirm(confirmed)
		return r
	}
	for name, c := range map[string]struct {
		record *hostkey.Record
		want   host.Holders
	}{
		"no record":                            {nil, host.Holders{ByName: true, Unrecorded: true}},
		"installation ordered":                 {&hostkey.Record{Issued: t0}, host.Holders{}},
		"a record of an earlier version":       {&hostkey.Record{Keys: []string{"a", "b"}, Issued: t0}, host.Holders{ByName: true}},
		"joined":                               {sign(key("a"), hostkey.Key{}, ""), host.Holders{Keys: []string{"a"}}},
		"renewed":                              {sign(key("b"), key("a"), ""), host.Holders{Keys: []string{"b", "a"}}},
		"renewed for the same key":             {sign(key("a"), key("a"), ""), host.Holders{Keys: []string{"a"}}},
		"renewed and confirmed":                {sign(key("b"), key("a"), "b"), host.Holders{Keys: []string{"b"}}},
		"confirmed by the one before":          {sign(key("b"), key("a"), "a"), host.Holders{Keys: []string{"b", "a"}}},
		"renewed by a later agent":             {sign(key("b"), byName("a"), ""), host.Holders{Keys: []string{"b"}, ByName: true}},
		"renewed by a later agent, confirmed":  {sign(key("b"), byName("a"), "b"), host.Holders{Keys: []string{"b"}}},
		"renewed by an earlier agent":          {sign(byName("b"), key("a"), ""), host.Holders{Keys: []string{"a"}, ByName: true}},
		"renewed by earlier agents, confirmed": {sign(byName("b"), byName("a"), "b"), host.Holders{ByName: true}},
	} {
		if got := c.record.Holders(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// Whether an agent asks is known by what it did. An agent of an earlier version does not.
func TestAsks(t *testing.T) {
	sign := func(k hostkey.Key, change func(*hostkey.Record)) *hostkey.Record {
		r := &hostkey.Record{}
		r.Sign(k, hostkey.Key{ID: "before", Named: !k.Named}, t0)
		if change != nil {
			change(r)
		}
		return r
	}
	named, byName := hostkey.Key{ID: "k", Named: true}, hostkey.Key{ID: "k"}
	for name, c := range map[string]struct {
		record *hostkey.Record
		want   bool
	}{
		"no record":                       {nil, false},
		"installation ordered":            {&hostkey.Record{Issued: t0}, false},
		"an agent that names its key":     {sign(named, nil), true},
		"an earlier one after it":         {sign(byName, nil), false},
		"an earlier one, but it asked":    {sign(byName, func(r *hostkey.Record) { r.Asked = t0 }), true},
		"an earlier one, which came back": {sign(byName, func(r *hostkey.Record) { r.Readmitted, r.ReadmittedKey = t0, "k" }), true},
		"another one came back":           {sign(byName, func(r *hostkey.Record) { r.Readmitted, r.ReadmittedKey = t0, "other" }), false},
	} {
		if got := c.record.Asks(); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// Records of earlier versions are read.
func TestRecordsOfEarlierVersions(t *testing.T) {
	api := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: region.NamespaceSystem, Name: hostkey.Name("s1")},
		Data: map[string][]byte{"ownerUID": []byte("1"), "record.json": []byte(
			`{"keys":["b","a"],"issued":"2026-03-01T12:00:00Z","expires":"2026-05-30T12:00:00Z","asked":"2026-06-01T12:00:00Z","askedFrom":"10.99.0.7"}`)},
	}).Build()
	r, err := hostkey.Read(t.Context(), api, &region.Server{ObjectMeta: metav1.ObjectMeta{Name: "s1", UID: "1"}})
	if err != nil || !r.Holds("a") || !r.Holds("b") || !r.Issued.Equal(t0) || !r.Expired(t0.Add(hostkey.Validity)) || r.AskedFrom != "10.99.0.7" || !r.Holders().ByName {
		t.Errorf("got %+v %v", r, err)
	}
}
