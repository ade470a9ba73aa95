package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const wanted = "3.6.1"

// entry of an archive.
type entry struct {
	name string
	text string
	kind byte // of tar; 0: a file
	link string
}

func script(version string) string {
	return "#!/bin/sh\necho etcd Version: " + version + "\n"
}

// usual is what an archive of etcd has in it, and a document that is not
// packed well, so that there is something to be cut off.
func usual(version string) []entry {
	noise := make([]byte, 256<<10)
	for i := range noise {
		noise[i] = byte(rand.N(256))
	}
	top := fullName(version)
	return []entry{
		{name: top + "/", kind: tar.TypeDir},
		{name: top + "/README.md", text: string(noise)},
		{name: top + "/etcd", text: script(version)},
		{name: top + "/etcdctl", text: script(version)},
		{name: top + "/etcdutl", text: script(version)},
		{name: top + "/Documentation/etcd", text: "not this one"},
	}
}

func archive(t *testing.T, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, e := range entries {
		kind := e.kind
		if kind == 0 {
			kind = tar.TypeReg
		}
		if err := w.WriteHeader(&tar.Header{Name: e.name, Typeflag: kind, Linkname: e.link, Size: int64(len(e.text)), Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// publisher is a server with one release, which misbehaves as a test asks.
type publisher struct {
	body []byte
	sums string
	// archive, when set, answers instead of the usual way; n counts from 1.
	archive func(w http.ResponseWriter, r *http.Request, n int)

	mu     sync.Mutex
	asked  int
	ranges []string // of the requests for the archive
}

func publish(t *testing.T) (*publisher, *Downloader, *httptest.Server) {
	t.Helper()
	p := &publisher{body: archive(t, usual(wanted))}
	p.sums = fmt.Sprintf("### SHA256SUMS\n%s  %s\n%s  other.zip\n", sum(p.body), archiveName(wanted), sum(nil))
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return p, &Downloader{Cache: filepath.Join(t.TempDir(), "cache"), URL: s.URL, Stall: 10 * time.Second, Pause: time.Millisecond}, s
}

func (p *publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimPrefix(r.URL.Path, "/v"+wanted+"/") {
	case SumsName:
		fmt.Fprint(w, p.sums)
	case archiveName(wanted):
		p.mu.Lock()
		p.asked++
		n := p.asked
		p.ranges = append(p.ranges, r.Header.Get("Range"))
		p.mu.Unlock()
		if p.archive != nil {
			p.archive(w, r, n)
			return
		}
		http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(p.body))
	default:
		http.NotFound(w, r)
	}
}

// cut sends a part of the archive and breaks the connection. The rest is
// served from where it is asked for.
func (p *publisher) cut(w http.ResponseWriter, r *http.Request, part int) {
	from := 0
	if span, asked := strings.CutPrefix(r.Header.Get("Range"), "bytes="); asked {
		from, _ = strconv.Atoi(strings.TrimSuffix(span, "-"))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(p.body)-1, len(p.body)))
		w.Header().Set("Content-Length", strconv.Itoa(len(p.body)-from))
		w.WriteHeader(http.StatusPartialContent)
	} else {
		w.Header().Set("Content-Length", strconv.Itoa(len(p.body)))
	}
	_, _ = w.Write(p.body[from:min(from+part, len(p.body))])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// requests for the archive so far.
func (p *publisher) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// spans are the ranges that were asked for.
func (p *publisher) spans() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ranges)
}
