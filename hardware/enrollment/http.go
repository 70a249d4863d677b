package enrollment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"regiond.dev/regiond/machine/enroll"
)

// statuses are the HTTP status codes of refusals.
var statuses = map[string]int{
	enroll.ReasonMalformed:     http.StatusBadRequest,
	enroll.ReasonTokenUnknown:  http.StatusUnauthorized,
	enroll.ReasonTokenUsed:     http.StatusForbidden,
	enroll.ReasonWrongServer:   http.StatusForbidden,
	enroll.ReasonNotReadmitted: http.StatusForbidden,
	enroll.ReasonNoJob:         http.StatusConflict,
	enroll.ReasonTooLarge:      http.StatusRequestEntityTooLarge,
	enroll.ReasonTooMany:       http.StatusTooManyRequests,
	enroll.ReasonUnavailable:   http.StatusServiceUnavailable,
}

func refusal(reason, format string, args ...any) *enroll.Error {
	return &enroll.Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Handler serves the paths of package enroll.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	handle(s, mux, enroll.PathInventory, s.inventory)
	handle(s, mux, enroll.PathProgress, s.progress)
	handle(s, mux, enroll.PathJoin, s.join)
	handle(s, mux, enroll.PathRenew, s.renew)
	handle(s, mux, enroll.PathConfirm, s.confirm)
	handle(s, mux, enroll.PathReadmit, s.readmit)
	return mux
}

// handle decodes a request, bounds it, calls f and encodes what it returns. A nil answer is 204.
func handle[In any](s *Server, mux *http.ServeMux, path string, f func(ctx context.Context, r *http.Request, in In) (any, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		from := source4(r)
		var in In
		var out any
		err := error(nil)
		if !s.limits.allow(from) {
			err = refusal(enroll.ReasonTooMany, "too many requests from %s; wait a minute", from)
		} else if err = decode(w, r, &in); err == nil {
			out, err = f(r.Context(), r, in)
		}
		if err == nil {
			s.metrics.requests.WithLabelValues(path, "OK").Inc()
			answer(w, s.Log, http.StatusOK, out)
			return
		}
		refused := (*enroll.Error)(nil)
		if !errors.As(err, &refused) {
			// What went wrong inside is not for machines that nothing is known of.
			s.Log.Error("enroll request failed", slog.String("path", path), slog.String("from", from.String()), slog.Any("error", err))
			refused = refusal(enroll.ReasonUnavailable, "regiond can't answer now; try again in a few seconds")
			if apierrors.IsInvalid(err) {
				refused = refusal(enroll.ReasonMalformed, "the report holds values that regiond does not know; are installer and regiond of one version?")
			}
		} else if s.limits.log(from) {
			s.Log.Warn("enroll request refused", slog.String("path", path), slog.String("from", from.String()), slog.String("reason", refused.Reason), slog.String("message", refused.Message))
		}
		if counts(err) {
			s.limits.refused(from)
		}
		s.metrics.requests.WithLabelValues(path, refused.Reason).Inc()
		answer(w, s.Log, statuses[refused.Reason], refused)
	})
}

// decode reads one JSON value of bounded size, strictly: what is not known is refused, not ignored.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, enroll.MaxBody))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = errors.New("more than one JSON value")
		}
	}
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return refusal(enroll.ReasonTooLarge, "the body is larger than %d bytes", large.Limit)
	}
	return refusal(enroll.ReasonMalformed, "the body is not what this path takes: %v", err)
}

func answer(w http.ResponseWriter, log *slog.Logger, status int, out any) {
	w.Header().Set("Cache-Control", "no-store")
	if out == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	b, err := json.Marshal(out)
	if err != nil {
		log.Error("encode an answer", slog.Any("error", err))
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(b); err != nil {
		log.Debug("an answer was not received", slog.Any("error", err))
	}
}

// bearer is the token of the request (RFC 6750 section 2.1).
func bearer(r *http.Request) string {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return strings.TrimSpace(token)
}

// source4 is the address that the request came from.
func source4(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
