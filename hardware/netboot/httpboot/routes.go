package httpboot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"regiond.dev/regiond/hardware/netboot/ipxe"
	"regiond.dev/regiond/machine/diskimage"
)

// Routes, which are also the labels of the counters.
const (
	routeNone      = "none"
	routeBootstrap = "/boot.ipxe"
	routeDecision  = "/ipxe"
	routeLoader    = "/netboot/snponly.efi"
	routeKernel    = "/netboot/vmlinuz"
	routeInitramfs = "/netboot/initramfs"
	routeTicket    = "/netboot/ticket"
	routeChunk     = "/images/chunks"
)

// route is a matched path.
type route struct {
	name   string
	handle func(*Server, http.ResponseWriter, *http.Request, route)
	// nonce of a ticket; version and chunk of an image.
	nonce, version, chunk string
}

var (
	ticketPath = regexp.MustCompile(`^/netboot/ticket/([0-9a-f]{32})\.cpio$`)
	// A version begins with a letter or digit, so that it is never "." or "..".
	chunkPath = regexp.MustCompile(`^/images/([A-Za-z0-9][A-Za-z0-9._+~-]{0,127})/chunks/([0-9a-f]{64})$`)
)

// match finds the route. It looks at the path as it was sent: no route has anything to escape, so
// that a path with a percent sign is none of ours, and nothing is ever decoded twice.
func match(u *url.URL) route {
	path := u.EscapedPath()
	switch path {
	case routeBootstrap:
		return route{name: path, handle: (*Server).bootstrap}
	case routeDecision:
		return route{name: path, handle: (*Server).decide}
	case routeLoader:
		return route{name: path, handle: (*Server).loader}
	case routeKernel:
		return route{name: path, handle: (*Server).kernel}
	case routeInitramfs:
		return route{name: path, handle: (*Server).initramfs}
	}
	if m := ticketPath.FindStringSubmatch(path); m != nil {
		return route{name: routeTicket, handle: (*Server).ticket, nonce: m[1]}
	}
	if m := chunkPath.FindStringSubmatch(path); m != nil {
		return route{name: routeChunk, handle: (*Server).chunk, version: m[1], chunk: m[2]}
	}
	return route{name: routeNone}
}

func (s *Server) bootstrap(w http.ResponseWriter, _ *http.Request, _ route) {
	s.script(w, ipxe.Bootstrap(s.config.Address))
}

// script sends a script.
func (s *Server) script(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=us-ascii")
	w.Header().Set("Cache-Control", "no-store")
	if _, err := io.WriteString(w, text); err != nil {
		s.config.Log.Debug("HTTP: script was not sent whole; the machine asks again", slog.Any("error", err))
	}
}

func (s *Server) loader(w http.ResponseWriter, r *http.Request, _ route) {
	s.file(w, r, func() (string, error) { return s.config.Loader, nil })
}

func (s *Server) kernel(w http.ResponseWriter, r *http.Request, _ route) {
	s.file(w, r, s.config.Kernel)
}

func (s *Server) initramfs(w http.ResponseWriter, r *http.Request, _ route) {
	s.file(w, r, s.config.Initramfs)
}

// file sends the file that find names. Failing, it answers 503: iPXE's script tries again.
func (s *Server) file(w http.ResponseWriter, r *http.Request, find func() (string, error)) {
	path, err := find()
	if err != nil {
		s.unavailable(w, r, err)
		return
	}
	f, err := os.Open(path)
	if err != nil {
		s.unavailable(w, r, err)
		return
	}
	defer f.Close()
	s.content(w, r, f)
}

// chunk sends a chunk of an image. os.Root keeps the path inside the images folder, whatever
// links lie in it.
func (s *Server) chunk(w http.ResponseWriter, r *http.Request, rt route) {
	root, err := os.OpenRoot(s.config.ImageDir)
	if err != nil {
		s.unavailable(w, r, err)
		return
	}
	defer root.Close()
	f, err := root.Open(filepath.Join("node", rt.version, diskimage.ChunkDir, rt.chunk))
	if errors.Is(err, fs.ErrNotExist) {
		http.Error(w, "no such chunk", http.StatusNotFound)
		return
	}
	if err != nil {
		s.unavailable(w, r, err)
		return
	}
	defer f.Close()
	// A chunk's name is its content.
	w.Header().Set("ETag", `"`+rt.chunk+`"`)
	s.content(w, r, f)
}

// content sends an open file, whole or in ranges, when there is a place for it.
func (s *Server) content(w http.ResponseWriter, r *http.Request, f *os.File) {
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() == 0) {
		err = fmt.Errorf("%s is empty or no file", f.Name())
	}
	if err != nil {
		s.unavailable(w, r, err)
		return
	}
	leave, ok := s.place(w, r)
	if !ok {
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "application/octet-stream")
	modified := info.ModTime()
	if w.Header().Get("ETag") != "" {
		modified = time.Time{}
	}
	http.ServeContent(w, r, "", modified, f)
}

// unavailable answers 503. What is wrong goes to the log; a machine cannot read it. There is no
// Retry-After: iPXE would obey it without end, and the script's count of tries would not count.
func (s *Server) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	s.config.Log.Error("HTTP: cannot be served; the machine asks again", slog.String("path", r.URL.Path), slog.String("peer", r.RemoteAddr), slog.Any("error", err))
	http.Error(w, "not available now, see the log of regiond", http.StatusServiceUnavailable)
}
