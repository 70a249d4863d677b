// Package registry serves the component images of package oci to the region's hosts: a read-only
// registry over an OCI image layout (https://github.com/opencontainers/distribution-spec, category
// "pull"). Images are pulled by digest; there are no tags, so none can move.
package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"regiond.dev/regiond/images/oci"
)

// Error codes (distribution-spec, "Error Codes").
const (
	codeBlobUnknown     = "BLOB_UNKNOWN"
	codeManifestUnknown = "MANIFEST_UNKNOWN"
	codeNameUnknown     = "NAME_UNKNOWN"
	codeUnsupported     = "UNSUPPORTED"
	codeUnknown         = "UNKNOWN"
)

// Handler serves the layout in a folder, which may be created or replaced while it runs.
func Handler(layout string, log *slog.Logger) http.Handler {
	return &handler{index: index{layout: layout}, log: log}
}

type handler struct {
	index index
	log   *slog.Logger
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refuse(w, http.StatusMethodNotAllowed, codeUnsupported, "this registry is read-only; its images are written by regiond image build")
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/v2/")
	switch {
	case !ok:
		refuse(w, http.StatusNotFound, codeUnsupported, "not found; this registry serves /v2/ only")
	case rest == "":
		w.WriteHeader(http.StatusOK)
	default:
		h.object(w, r, rest)
	}
}

// object serves NAME/manifests/REFERENCE and NAME/blobs/DIGEST.
func (h *handler) object(w http.ResponseWriter, r *http.Request, path string) {
	images, err := h.index.read()
	if err != nil {
		h.log.Error("read the index of images", slog.Any("error", err))
		refuse(w, http.StatusInternalServerError, codeUnknown, "the images' index can't be read; see regiond's log on the seed host")
		return
	}
	for _, kind := range []struct{ separator, unknown string }{{"/manifests/", codeManifestUnknown}, {"/blobs/", codeBlobUnknown}} {
		name, reference, ok := strings.Cut(path, kind.separator)
		if !ok {
			continue
		}
		repository := images[name]
		if repository == nil {
			refuse(w, http.StatusNotFound, codeNameUnknown, fmt.Sprintf("no image named %q", name))
			return
		}
		digest, err := v1.NewHash(reference)
		if err != nil {
			refuse(w, http.StatusNotFound, kind.unknown, fmt.Sprintf("%q is not a digest; images are pulled by digest", reference))
			return
		}
		media, ok := repository.media[digest]
		if manifest := kind.unknown == codeManifestUnknown; !ok || manifest != repository.manifests[digest] {
			refuse(w, http.StatusNotFound, kind.unknown, fmt.Sprintf("%s does not belong to %s", digest, name))
			return
		}
		h.blob(w, r, digest, media)
		return
	}
	refuse(w, http.StatusNotFound, codeUnsupported, "not found; this registry serves manifests and blobs only")
}

// blob serves a file of the layout, or the requested range of it: containerd resumes interrupted
// pulls.
func (h *handler) blob(w http.ResponseWriter, r *http.Request, digest v1.Hash, media string) {
	f, err := os.Open(oci.BlobPath(h.index.layout, digest))
	if err != nil {
		h.log.Error("read a blob", slog.Any("error", err))
		status := http.StatusInternalServerError
		if errors.Is(err, fs.ErrNotExist) {
			status = http.StatusNotFound
		}
		refuse(w, status, codeBlobUnknown, fmt.Sprintf("%s can't be read; see regiond's log on the seed host", digest))
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		h.log.Error("read a blob", slog.Any("error", err))
		refuse(w, http.StatusInternalServerError, codeUnknown, fmt.Sprintf("%s can't be read; see regiond's log on the seed host", digest))
		return
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Docker-Content-Digest", digest.String())
	w.Header().Set("ETag", `"`+digest.String()+`"`)
	http.ServeContent(w, r, "", info.ModTime(), f)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error means that the client is gone; there is nobody left to report it to.
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]string{{"code": code, "message": message}}})
}
