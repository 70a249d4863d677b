package gate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// An upload stops in the middle for as long as it is told, once, and ends when its context does.
func TestUploadPauses(t *testing.T) {
	content := bytes.Repeat([]byte("x"), imageSize)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		got, err := io.ReadAll(&slow{ctx: t.Context(), content: content, pause: UploadPause})
		if took := time.Since(began); err != nil || !bytes.Equal(got, content) || took != UploadPause {
			t.Errorf("got %v, %d bytes after %s, want all %d after %s", err, len(got), took, len(content), UploadPause)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := io.ReadAll(&slow{ctx: ctx, content: content, pause: UploadPause}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
	})
}
