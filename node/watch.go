package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"regiond.dev/regiond/machine/backoff"
	"regiond.dev/regiond/machine/configuration"
)

// Watching this host's Secret.
const (
	// watchFor is how long one watch lasts: the API server ends it then, and the Secret is listed, which is the net under the watch.
	watchFor = 2 * time.Minute
	// watchSilence ends a watch of which nothing is heard for longer than it should last.
	watchSilence = watchFor + 30*time.Second
	// maxEvent bounds an event in bytes: a Secret of 1 MiB in base64, and its metadata.
	maxEvent = 4 << 20
	// watchStable is how long a watch must have lasted for its end to count as the first one.
	watchStable = time.Minute
)

// secret is a Secret as far as it is read.
type secret struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Data map[string][]byte `json:"data"`
}

// content of the configuration, empty when there is none.
func (s secret) content() string { return string(s.Data[configuration.SecretKey]) }

// secretList is the answer to a list.
type secretList struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Items []secret `json:"items"`
}

// watchEvent of the API (Kubernetes API concepts, "Efficient detection of changes").
type watchEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

var errExpired = errors.New("the watch is too old; listing again")

func (k *kubernetes) secretsPath(query url.Values) string {
	query.Set("fieldSelector", "metadata.name="+k.name)
	return "/api/v1/namespaces/regiond-hosts/secrets?" + query.Encode()
}

// configuration lists this host's Secret: its content, and the version from which on to watch.
func (k *kubernetes) configuration(ctx context.Context) (content, version string, err error) {
	var list secretList
	if err := k.do(ctx, http.MethodGet, k.secretsPath(url.Values{}), nil, &list); err != nil {
		return "", "", err
	}
	for _, s := range list.Items {
		content = s.content()
	}
	return content, list.Metadata.ResourceVersion, nil
}

// watchConfiguration gives every change of this host's Secret since a version, until the watch ends.
func (k *kubernetes) watchConfiguration(ctx context.Context, version string, changed func(content string)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	query := url.Values{"watch": {"1"}, "resourceVersion": {version}, "allowWatchBookmarks": {"true"},
		"timeoutSeconds": {fmt.Sprint(int(watchFor / time.Second))}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url+k.secretsPath(query), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	silence := time.AfterFunc(watchSilence, func() { cancel(errors.New("nothing was heard of the watch for too long")) })
	defer silence.Stop()
	// The client's own time-out is for whole exchanges; a watch is meant to last.
	exchanges := k.client()
	resp, err := (&http.Client{Transport: exchanges.Transport, CheckRedirect: exchanges.CheckRedirect}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		if resp.StatusCode == http.StatusGone {
			return errExpired
		}
		return &statusError{resp.StatusCode, "watch refused: " + http.StatusText(resp.StatusCode)}
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	for lines.Scan() {
		silence.Reset(watchSilence)
		var e watchEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		switch e.Type {
		case "ADDED", "MODIFIED":
			var s secret
			if err := json.Unmarshal(e.Object, &s); err != nil {
				return fmt.Errorf("watch: %w", err)
			}
			changed(s.content())
		case "ERROR":
			return errExpired // whatever it is, a list says how things are
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("watch: %w", err)
	}
	return nil
}

// follow gives the configuration of this host, and then each change of it, until the context ends. A Secret that is deleted
// says nothing: what a host runs is not stopped by that.
func (k *kubernetes) follow(ctx context.Context, changed func(content string), failed func(error)) {
	retry := backoff.Backoff{First: firstRetry, Most: time.Minute}
	for {
		content, version, err := k.configuration(ctx)
		if err == nil {
			if content != "" {
				changed(content)
			}
			began := k.now()
			err = k.watchConfiguration(ctx, version, func(content string) {
				if content != "" {
					changed(content)
				}
			})
			if err == nil || errors.Is(err, errExpired) || k.now().Sub(began) > watchStable {
				retry.Reset()
			}
		}
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errExpired) {
			err = nil
		}
		failed(err)
		if !backoff.Sleep(ctx, backoff.Jitter(retry.Next())) {
			return
		}
	}
}

// reach makes a request over a connection of its own: one that was there before a change of the network proves nothing.
func (k *kubernetes) reach(ctx context.Context) error {
	transport := k.http.Transport.(*http.Transport).Clone() // newKubernetes made it
	transport.DisableKeepAlives = true
	defer transport.CloseIdleConnections()
	alone := &kubernetes{url: k.url, name: k.name, now: k.now,
		http: &http.Client{Transport: transport, Timeout: apiTimeout, CheckRedirect: k.http.CheckRedirect}}
	_, err := alone.host(ctx)
	return err
}
