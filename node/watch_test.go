package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"regiond.dev/regiond/machine/configuration"
	"regiond.dev/regiond/node/service"
)

// secretWorld is the API of one host's Secret.
type secretWorld struct {
	mu       sync.Mutex
	content  string
	version  int
	lists    int
	watches  int
	watchers []chan string // raw events
	answer   int           // status of watches, if not 200
}

// set changes the Secret.
func (s *secretWorld) set(content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.content = content
	kind := "MODIFIED"
	if content == "" {
		kind = "DELETED"
	}
	s.send(fmt.Sprintf(`{"type":%q,"object":%s}`, kind, s.object()))
}

func (s *secretWorld) object() string {
	b, err := json.Marshal(map[string]any{"metadata": map[string]string{"name": "s1", "resourceVersion": fmt.Sprint(s.version)},
		"data": map[string][]byte{configuration.SecretKey: []byte(s.content)}})
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// send sends an event to all watchers; "" ends their watches.
func (s *secretWorld) send(event string) {
	for _, w := range s.watchers {
		w <- event
	}
	if event == "" {
		s.watchers = nil
	}
}

func (s *secretWorld) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	if q.Get("fieldSelector") != "metadata.name=s1" {
		http.Error(w, "forbidden", http.StatusForbidden)
		return
	}
	s.mu.Lock()
	if q.Get("watch") == "" {
		s.lists++
		items := ""
		if s.content != "" {
			items = s.object()
		}
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"%d"},"items":[%s]}`, s.version, items)
		s.mu.Unlock()
		return
	}
	s.watches++
	if s.answer != 0 {
		w.WriteHeader(s.answer)
		s.mu.Unlock()
		return
	}
	events := make(chan string, 100)
	s.watchers = append(s.watchers, events)
	if q.Get("resourceVersion") != fmt.Sprint(s.version) && s.content != "" {
		events <- fmt.Sprintf(`{"type":"MODIFIED","object":%s}`, s.object())
	}
	s.mu.Unlock()
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-req.Context().Done():
			return
		case e := <-events:
			if e == "" {
				return
			}
			fmt.Fprintln(w, e)
			w.(http.Flusher).Flush()
		}
	}
}

func watchWorld(t *testing.T) (*secretWorld, *kubernetes) {
	t.Helper()
	s := &secretWorld{version: 1}
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	k, err := newKubernetes(server.URL, string(ca), "s1", func() *tls.Certificate { return nil }, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return s, k
}

func TestFollow(t *testing.T) {
	s, k := watchWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen, failures := make(chan string, 100), make(chan error, 100)
	done := make(chan bool)
	go func() { k.follow(ctx, func(c string) { seen <- c }, func(err error) { failures <- err }); close(done) }()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Fatalf("%q, want %q", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%q was not seen", want)
		}
	}
	watching := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; <-time.After(5 * time.Millisecond) {
			s.mu.Lock()
			ok := s.watches >= n && len(s.watchers) > 0
			s.mu.Unlock()
			if ok {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("no watch")
			}
		}
	}
	watching(1)
	s.set("one")
	expect("one")
	s.set("two")
	expect("two")
	s.mu.Lock()
	s.send(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}`)
	s.mu.Unlock()
	s.set("") // deleted: no word
	s.set("three")
	expect("three")
	// The watch ends, breaks, is too old: what was missed is listed.
	for i, event := range []string{"", `{"type":"ERROR","object":{"code":410}}`, `not JSON`} {
		s.mu.Lock()
		s.send(event)
		s.watchers = nil
		s.content, s.version = fmt.Sprint("missed ", i), s.version+1
		s.mu.Unlock()
		expect(fmt.Sprint("missed ", i))
		watching(i + 2)
	}
	stop()
	<-done
	said := false
	for len(failures) > 0 {
		if err := <-failures; err != nil {
			said = true
		}
	}
	if !said {
		t.Error("a broken watch was not told of")
	}
}

func TestWatchIsBounded(t *testing.T) {
	s, k := watchWorld(t)
	s.answer = http.StatusGone
	if err := k.watchConfiguration(t.Context(), "1", nil); !errors.Is(err, errExpired) {
		t.Errorf("%v", err)
	}
	s.answer = http.StatusForbidden
	if err := k.watchConfiguration(t.Context(), "1", nil); err == nil || unreachable(err) {
		t.Errorf("%v", err)
	}
	s.answer = 0
	go func() {
		for {
			s.mu.Lock()
			n := len(s.watchers)
			if n > 0 {
				s.send(`{"type":"MODIFIED","object":{"data":{"x":"` + strings.Repeat("A", maxEvent) + `"}}}`)
			}
			s.mu.Unlock()
			if n > 0 {
				return
			}
			<-time.After(time.Millisecond)
		}
	}()
	if err := k.watchConfiguration(t.Context(), "1", func(string) { t.Error("taken") }); err == nil {
		t.Error("an event without bounds was taken")
	}
}

// services are a service manager that starts everything.
type services struct {
	mu   sync.Mutex
	runs map[string]service.State
	n    int
}

func (s *services) States(_ context.Context, names []string) (map[string]service.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	states := map[string]service.State{}
	for _, n := range names {
		st, ok := s.runs[n]
		if !ok {
			st = service.State{Name: n, Active: service.Inactive, Enabled: true}
		}
		states[n] = st
	}
	return states, nil
}

func (s *services) Start(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.runs[name] = service.State{Name: name, Active: service.Active, Enabled: true, Invocation: fmt.Sprint(s.n), Started: time.Now()}
	return nil
}

func (s *services) Restart(ctx context.Context, name string) error { return s.Start(ctx, name) }
func (s *services) Stop(context.Context, string) error             { return nil }
func (s *services) Reload(context.Context, string) error           { return nil }
func (s *services) Enable(context.Context, string) error           { return nil }
func (s *services) Disable(context.Context, string) error          { return nil }
func (s *services) ReloadUnits(context.Context) error              { return nil }

// An agent takes its configuration from the API server and attests what runs, and starts with the last one when nobody answers.
func TestAgentConfigures(t *testing.T) {
	r, id := newFakeRegion(t)
	dir, root := t.TempDir(), t.TempDir()
	writeIdentity(t, dir, id)
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"passwd": fmt.Sprintf("root:x:%d:0::/:/bin/sh\n", os.Getuid()), "group": fmt.Sprintf("root:x:%d:\n", os.Getgid())} {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	conf := func(content string) (string, string) {
		b, digest, err := configuration.Configuration{
			Files:    []configuration.File{{Path: "/etc/nova/nova.conf", Mode: "0640", Owner: "root", Group: "root", Content: content}},
			Services: []configuration.Service{{Name: "nova-compute.service", Files: []string{"/etc/nova/nova.conf"}}}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return string(b), digest
	}
	manager := &services{runs: map[string]service.State{}}
	var log bytes.Buffer
	start := func() (stop func()) {
		a, err := New(Config{DataDir: dir, StateFile: filepath.Join(dir, "run", "agent.json"), RunFile: filepath.Join(dir, "processes.json"), Root: root,
			Version: "v1", Observer: fakeObserver(t), Services: manager, HeartbeatEvery: 20 * time.Millisecond, ObserveEvery: 50 * time.Millisecond,
			CompareEvery: 100 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	content, digest := conf("secret password 1")
	r.secret.set(content)
	stop := start()
	r.see("the configuration", func() bool {
		c := r.host.Status.Configuration
		return c != nil && c.Digest == digest && len(c.Processes) == 1 && c.Processes[0].ConfigDigest != "" && len(r.host.Status.Conditions) == 2
	})
	before := r.host.Status.Configuration.Processes[0]
	content, digest = conf("secret password 2")
	r.secret.set(content)
	r.see("the changed configuration", func() bool {
		c := r.host.Status.Configuration
		return c.Digest == digest && c.Processes[0].ConfigDigest != before.ConfigDigest && r.host.Status.Conditions[1].Reason == "Applied"
	})
	stop()
	r.set(func() { r.away = true })
	if err := os.Remove(filepath.Join(root, "etc/nova/nova.conf")); err != nil {
		t.Fatal(err)
	}
	manager.runs = map[string]service.State{}
	stop = start()
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(5 * time.Millisecond) {
		b, err := os.ReadFile(filepath.Join(root, "etc/nova/nova.conf"))
		states, _ := manager.States(t.Context(), []string{"nova-compute.service"})
		if err == nil && string(b) == "secret password 2" && states["nova-compute.service"].Runs() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the services were not started without the control plane")
		}
	}
	stop()
	if strings.Contains(log.String(), "secret password") {
		t.Error("the log holds what files hold")
	}
}
