package release

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/internal/durable"
)

func get(t *testing.T, d *Downloader) (Fetched, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return d.Get(ctx, wanted)
}

// installed fails unless the release is in the cache and a Finder takes it.
func installed(t *testing.T, d *Downloader) {
	t.Helper()
	f := &Finder{Dirs: []string{}, Caches: []string{d.Cache}}
	r := find(t, f, wanted)
	if r.Dir != filepath.Join(d.Cache, fullName(wanted)) || r.Etcdctl == "" || r.Etcdutl == "" {
		t.Errorf("found %+v", r)
	}
	left, _ := filepath.Glob(filepath.Join(d.Cache, ".etcd*"))
	for _, path := range left {
		if !strings.HasSuffix(path, ".lock") && !strings.Contains(path, "broken") {
			t.Errorf("left behind: %s", path)
		}
	}
}

// absent fails if a Finder takes anything.
func absent(t *testing.T, d *Downloader) {
	t.Helper()
	f := &Finder{Dirs: []string{}, Caches: []string{d.Cache}, Roots: []string{"/"}}
	if r, err := f.Find(t.Context(), wanted); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("found %+v, %v", r, err)
	}
}

func TestDownload(t *testing.T) {
	p, d, _ := publish(t)
	var last Progress
	d.Progress = func(p Progress) {
		if p.Done < last.Done {
			t.Errorf("from %v to %v", last, p)
		}
		last = p
	}
	if plan := d.Plan(wanted); plan.Already || p.requests() != 0 {
		t.Errorf("planned %+v", plan)
	}
	f, err := get(t, d)
	if err != nil {
		t.Fatal(err)
	}
	installed(t, d)
	if f.SHA256 != sum(p.body) || f.Already || last.Done != int64(len(p.body)) || last.Total != last.Done || !strings.HasSuffix(f.From, archiveName(wanted)) {
		t.Errorf("%+v, progress %+v", f, last)
	}
	again, err := get(t, d)
	if err != nil || !again.Already || p.requests() != 1 {
		t.Errorf("the second time: %+v, %v, %d requests", again, err, p.requests())
	}
}

// However it is cut, it goes on where it ended, and one request a part is made.
func TestCutOffDownloadGoesOn(t *testing.T) {
	p, d, _ := publish(t)
	p.archive = func(w http.ResponseWriter, r *http.Request, _ int) { p.cut(w, r, len(p.body)/7+1) }
	if _, err := get(t, d); err != nil {
		t.Fatal(err)
	}
	installed(t, d)
	if asked := p.spans(); len(asked) < 6 || asked[0] != "" || asked[1] == "" {
		t.Errorf("asked for %q", asked)
	}
}

// Also when nothing but the size that was told says that there is more.
func TestShortAnswersAreNoEnd(t *testing.T) {
	p, d, _ := publish(t)
	p.archive = func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			p.cut(w, r, 1000)
		}
		span, _ := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
		from, err := strconv.Atoi(strings.TrimSuffix(span, "-"))
		if err != nil {
			t.Errorf("asked for %q", r.Header.Get("Range"))
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(p.body)-1, len(p.body)))
		w.WriteHeader(http.StatusPartialContent)
		w.(http.Flusher).Flush() // in chunks, which end as if that were all
		_, _ = w.Write(p.body[from:min(from+len(p.body)/3, len(p.body))])
	}
	if _, err := get(t, d); err != nil {
		t.Fatal(err)
	}
	installed(t, d)
}

// A process that was killed leaves a part, which the next one goes on with.
func TestInterruptedDownloadGoesOn(t *testing.T) {
	p, d, _ := publish(t)
	ctx, cancel := context.WithCancel(t.Context())
	d.Progress = func(p Progress) {
		if p.Done > 100<<10 {
			cancel()
		}
	}
	if _, err := d.Get(ctx, wanted); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	absent(t, d)
	d.Progress = nil
	if _, err := get(t, d); err != nil {
		t.Fatal(err)
	}
	installed(t, d)
	if asked := p.spans(); len(asked) != 2 || !strings.HasPrefix(asked[1], "bytes=") || asked[1] == "bytes=0-" {
		t.Errorf("asked for %q", asked)
	}
}

// What an earlier download left is of another file, is too much, or the server
// knows no ranges: it starts over by itself.
func TestUselessRestStartsOver(t *testing.T) {
	for name, prepare := range map[string]func(p *publisher) []byte{
		"of another file": func(*publisher) []byte { return bytes.Repeat([]byte("x"), 1000) },
		"too long":        func(p *publisher) []byte { return append(bytes.Clone(p.body), 1, 2, 3) },
		"whole but wrong": func(p *publisher) []byte { return bytes.Repeat([]byte("x"), len(p.body)) },
		"no ranges": func(p *publisher) []byte {
			p.archive = func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = w.Write(p.body) }
			return p.body[:1000]
		},
		"another range": func(p *publisher) []byte {
			p.archive = func(w http.ResponseWriter, r *http.Request, n int) {
				if n == 1 {
					w.Header().Set("Content-Range", fmt.Sprintf("bytes 5-%d/%d", len(p.body)-1, len(p.body)))
					w.WriteHeader(http.StatusPartialContent)
					_, _ = w.Write(p.body[5:])
					return
				}
				http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(p.body))
			}
			return p.body[:1000]
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, d, _ := publish(t)
			left := prepare(p)
			if err := errors.Join(os.MkdirAll(d.Cache, 0o755), os.WriteFile(d.beside(wanted, ".tar.gz.part"), left, 0o600)); err != nil {
				t.Fatal(err)
			}
			d.Progress = func(p Progress) {
				if p.Total >= 0 && p.Done > p.Total {
					t.Errorf("what is not the rest was taken for it: %+v", p)
				}
			}
			if _, err := get(t, d); err != nil {
				t.Fatal(err)
			}
			installed(t, d)
		})
	}
}

// What starts over, and is then not what was published, is not tried a third time, and
// nothing of it is kept for the next download to go on with.
func TestRestOfAForgery(t *testing.T) {
	p, d, _ := publish(t)
	p.sums = sum(nil) + "  " + archiveName(wanted)
	p.archive = func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = w.Write(p.body) } // knows no ranges
	part := d.beside(wanted, ".tar.gz.part")
	if err := errors.Join(os.MkdirAll(d.Cache, 0o755), os.WriteFile(part, p.body[:1000], 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, d); !errors.Is(err, ErrTrust) || p.requests() != 2 {
		t.Errorf("%v after %d requests", err, p.requests())
	}
	if _, err := os.Stat(part); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the forgery is kept: %v", err)
	}
	absent(t, d)
}

// What a process that was killed had unpacked is not made a part of the release.
func TestHalfUnpackedIsNotUsed(t *testing.T) {
	_, d, _ := publish(t)
	rest := d.beside(wanted, ".new")
	program(t, filepath.Join(rest, "etcdutl"), "echo old")
	program(t, filepath.Join(rest, "plugin"), "echo old")
	if _, err := get(t, d); err != nil {
		t.Fatal(err)
	}
	installed(t, d)
	if _, err := os.Stat(filepath.Join(d.Cache, fullName(wanted), "plugin")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is in the release: %v", err)
	}
}

// syncs notes what is synced before the release has its name, and after.
type syncs struct {
	durable.Files

	place         string
	before, after []string
}

func (s *syncs) SyncDir(path string) error {
	if _, err := os.Lstat(s.place); err == nil {
		s.after = append(s.after, filepath.Base(path))
	} else {
		s.before = append(s.before, filepath.Base(path))
	}
	return s.Files.SyncDir(path)
}

// A release is durable before it has its name: after a power cut it is whole or not there.
func TestReleaseIsDurable(t *testing.T) {
	_, d, _ := publish(t)
	s := &syncs{Files: durable.OS().Files, place: filepath.Join(d.Cache, fullName(wanted))}
	d.files = s
	if _, err := get(t, d); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(slices.Clone(programs), contentsName, "."+fullName(wanted)+".new") {
		if !slices.Contains(s.before, name) {
			t.Errorf("%s was not synced before the release had its name, only %q", name, s.before)
		}
	}
	if !slices.Equal(s.after, []string{filepath.Base(d.Cache)}) {
		t.Errorf("after it has its name %q is synced", s.after)
	}
}

func TestWhatIsNotPublishedIsNeverUsed(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(p *publisher, d *Downloader)
		want    error
		asked   int // for the archive; -1: whatever
	}{
		"wrong sum":        {func(p *publisher, _ *Downloader) { p.sums = sum(nil) + "  " + archiveName(wanted) }, ErrTrust, 1},
		"sums without end": {func(p *publisher, _ *Downloader) { p.sums = strings.Repeat("\n", largestSums) + p.sums }, ErrNotPublished, 0},
		"not in the sums":  {func(p *publisher, _ *Downloader) { p.sums = "nothing" }, ErrNotPublished, 0},
		"no such version":  {func(_ *publisher, d *Downloader) { d.URL += "/elsewhere" }, ErrNotPublished, 0},
		"a sum by hand":    {func(_ *publisher, d *Downloader) { d.SHA256 = sum(nil) }, ErrTrust, 1},
		"clear text":       {func(_ *publisher, d *Downloader) { d.URL = "http://192.0.2.1" }, ErrTrust, 0},
		"no URL":           {func(_ *publisher, d *Downloader) { d.URL = "ftp://x" }, ErrTrust, 0},
		"archive not there": {func(p *publisher, _ *Downloader) {
			p.archive = func(w http.ResponseWriter, _ *http.Request, _ int) { http.NotFound(w, nil) }
		}, ErrNotPublished, 1},
		"archive taken back": {func(p *publisher, _ *Downloader) {
			p.archive = func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusGone) }
		}, ErrNotPublished, 1},
		"forbidden": {func(p *publisher, _ *Downloader) {
			p.archive = func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusForbidden) }
		}, nil, 1},
		"broken for good": {func(p *publisher, _ *Downloader) {
			p.archive = func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusBadGateway) }
		}, nil, Tries},
		"stalls before the header": {func(p *publisher, d *Downloader) {
			d.Stall = 300 * time.Millisecond // in which a busy machine connects
			p.archive = func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }
		}, errStalled, Tries},
		"stalls in the middle": {func(p *publisher, d *Downloader) {
			d.Stall = 30 * time.Millisecond
			p.archive = func(w http.ResponseWriter, r *http.Request, n int) {
				w.Header().Set("Content-Length", strconv.Itoa(len(p.body)))
				if n == 1 {
					_, _ = w.Write(p.body[:1000])
				}
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
		}, errStalled, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, d, _ := publish(t)
			c.prepare(p, d)
			_, err := get(t, d)
			var failed *DownloadError
			if !errors.As(err, &failed) || failed.Hint() == "" || c.want != nil && !errors.Is(err, c.want) || c.asked >= 0 && p.requests() != c.asked {
				t.Errorf("%v after %d requests, want %v", err, p.requests(), c.want)
			}
			// Whoever is told to call it again does so, with what must not be used.
			if failed != nil && strings.Contains(failed.Hint(), "do not use that archive") != errors.Is(c.want, ErrTrust) {
				t.Errorf("%v, and then: %s", err, failed.Hint())
			}
			absent(t, d)
		})
	}
}

// A hiccup is no failure; whoever waits is told of each.
func TestServerRecovers(t *testing.T) {
	p, d, _ := publish(t)
	var told []string
	d.Again = func(version string, tries int, pause time.Duration, why error) {
		told = append(told, fmt.Sprintf("%d %v", tries, why))
		if version == "" || pause <= 0 {
			t.Errorf("etcd %q, in %s", version, pause)
		}
	}
	p.archive = func(w http.ResponseWriter, r *http.Request, n int) {
		if n < Tries {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		http.ServeContent(w, r, "x", time.Time{}, bytes.NewReader(p.body))
	}
	if _, err := get(t, d); err != nil {
		t.Fatal(err)
	}
	installed(t, d)
	if len(told) != Tries-1 || told[0] != "1 the server answered 503 Service Unavailable" {
		t.Errorf("told %q", told)
	}
}

func TestRedirects(t *testing.T) {
	p, d, s := publish(t)
	// To another server, as the real one does it, with a secret in the URL.
	front := httptest.NewServer(http.RedirectHandler(s.URL+"/v"+wanted+"/"+archiveName(wanted)+"?signature=secret", http.StatusFound))
	defer front.Close()
	d.URL, d.SumsURL = front.URL, s.URL
	if _, err := get(t, d); err != nil {
		t.Fatal(err)
	}
	installed(t, d)

	_, d, _ = publish(t)
	d.URL, d.SumsURL = front.URL, s.URL
	s.Close()
	if _, err := get(t, d); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("an error with a signature in it: %v", err)
	}

	// From TLS to clear text: never.
	elsewhere := "http://192.0.2.1/"
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, SumsName) {
			fmt.Fprint(w, p.sums)
			return
		}
		http.Redirect(w, r, elsewhere, http.StatusFound)
	}))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that is refused below
	secure.StartTLS()
	defer secure.Close()
	_, d, _ = publish(t)
	d.URL, d.Client = secure.URL, NewClient(time.Second)
	d.Client.Transport = secure.Client().Transport
	if _, err := get(t, d); !errors.Is(err, ErrTrust) {
		t.Errorf("redirected to clear text: %v", err)
	}
	elsewhere = "/again" // redirects without end
	if _, err := get(t, d); err == nil {
		t.Error("redirected without end")
	}
	// A certificate that nobody vouches for is not tried again and again.
	d.Client = nil
	if _, err := get(t, d); err == nil || strings.Contains(err.Error(), "tried") {
		t.Errorf("an unknown certificate: %v", err)
	}
	absent(t, d)
}

func TestOfflineDirectory(t *testing.T) {
	for name, sub := range map[string]string{"flat": "", "by version": "v" + wanted} {
		t.Run(name, func(t *testing.T) {
			p, d, s := publish(t)
			s.Close()
			d.Dir = t.TempDir()
			if _, err := get(t, d); !errors.Is(err, ErrNotPublished) {
				t.Errorf("an empty directory: %v", err)
			}
			dir := filepath.Join(d.Dir, sub)
			if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, archiveName(wanted)), p.body, 0o644), os.WriteFile(filepath.Join(dir, SumsName), []byte(p.sums), 0o644)); err != nil {
				t.Fatal(err)
			}
			if _, err := get(t, d); err != nil {
				t.Fatal(err)
			}
			installed(t, d)
		})
	}
}

func TestArchivesThatAreNotEtcds(t *testing.T) {
	top := fullName(wanted)
	etcd := entry{name: top + "/etcd", text: script(wanted)}
	ctl := entry{name: top + "/etcdctl", text: script(wanted)}
	for name, entries := range map[string][]entry{
		"leads outside":        {{name: "../etcd", text: "x"}, {name: top + "/../../etcd", text: "x"}, {name: "/etcd", text: "x"}, ctl},
		"bare names":           {{name: "etcd", text: script(wanted)}, {name: "etcdctl", text: script(wanted)}},
		"a bare name":          {{name: "etcd", text: script(wanted)}, ctl},
		"one further down":     {{name: top + "/bin/etcd", text: script(wanted)}, ctl},
		"another top":          {{name: "etcd-v3.6.2/etcd", text: script(wanted)}, ctl},
		"a link":               {{name: top + "/etcd", kind: tar.TypeSymlink, link: "/bin/sh"}, ctl},
		"a hard link":          {{name: top + "/etcd", kind: tar.TypeLink, link: "/bin/sh"}, ctl},
		"two":                  {etcd, etcd, ctl},
		"no etcdctl":           {etcd},
		"another version":      {{name: top + "/etcd", text: script("3.6.2")}, ctl},
		"no program":           {{name: top + "/etcd", text: "\x00\x01"}, ctl},
		"nothing":              {},
		"a pipe":               {{name: top + "/etcd", kind: tar.TypeFifo}, ctl},
		"says nothing of etcd": {{name: top + "/etcd", text: "#!/bin/sh\necho hello\n"}, ctl},
	} {
		t.Run(name, func(t *testing.T) {
			p, d, _ := publish(t)
			p.body = archive(t, entries)
			d.SHA256 = sum(p.body)
			_, err := get(t, d)
			if err == nil || slices.ContainsFunc(entries, func(e entry) bool { return e.kind != 0 }) && !strings.Contains(err.Error(), "is no program") {
				t.Errorf("it was taken, or looked at too late: %v", err)
			}
			absent(t, d)
			parent, err := os.ReadDir(filepath.Dir(d.Cache))
			if err != nil || len(parent) != 1 {
				t.Errorf("beside the cache: %v, %v", parent, err)
			}
		})
	}
	for name, body := range map[string][]byte{"no gzip": []byte("hello"), "cut": archive(t, usual(wanted))[:5000], "without its end": cutEnd(archive(t, usual(wanted))), "empty": nil} {
		p, d, _ := publish(t)
		p.body, d.SHA256 = body, sum(body)
		if _, err := get(t, d); err == nil {
			t.Errorf("%s: it was taken", name)
		}
		absent(t, d)
	}
}

// cutEnd takes the checksum away that a gzip ends with.
func cutEnd(b []byte) []byte { return b[:len(b)-8] }

// What was changed or has rotted in the cache is not used, and fetched anew.
func TestAlteredProgramIsNotUsed(t *testing.T) {
	for _, name := range programs {
		p, d, _ := publish(t)
		if _, err := get(t, d); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(d.Cache, fullName(wanted), name)
		if err := os.WriteFile(path, []byte(script(wanted)+"# more\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		f := &Finder{Dirs: []string{}, Caches: []string{d.Cache}}
		if _, err := f.Find(t.Context(), wanted); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), ErrAltered.Error()) {
			t.Errorf("%s was altered: %v", name, err)
		}
		if _, err := get(t, d); err != nil || p.requests() != 2 {
			t.Errorf("%v, %d requests", err, p.requests())
		}
		installed(t, d)
		if aside, _ := filepath.Glob(filepath.Join(d.Cache, ".*broken-1", name)); len(aside) != 1 {
			t.Errorf("what was there is gone")
		}
	}
}

// Sums that cannot be read are not none: nobody vouches for what lies beside them.
func TestUnreadableSumsVouchForNothing(t *testing.T) {
	_, d, _ := publish(t)
	f, err := get(t, d)
	if err != nil {
		t.Fatal(err)
	}
	sums := filepath.Join(f.Dir, contentsName)
	if err := errors.Join(os.Remove(sums), os.Mkdir(sums, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := whole(f.Dir); err == nil {
		t.Error("it counts as whole")
	}
	if err := verify(filepath.Join(f.Dir, "etcd")); err == nil {
		t.Error("its program counts as the one that was downloaded")
	}
	if f, err = get(t, d); err != nil || f.Already {
		t.Errorf("%+v, %v", f, err)
	}
	installed(t, d)
}

// A program that cannot be read is neither the one that was downloaded nor another.
func TestUnreadableProgramIsNotVerified(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, contentsName), []byte(sum(nil)+"  etcd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range programs { // with a sum and without one
		if err := verify(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A directory that a person filled is theirs.
func TestOwnDirectoryIsLeftAlone(t *testing.T) {
	p, d, _ := publish(t)
	etcd(t, filepath.Join(d.Cache, fullName(wanted)), wanted)
	f, err := get(t, d)
	if err != nil || !f.Already || p.requests() != 0 {
		t.Errorf("%+v, %v, %d requests", f, err, p.requests())
	}
}

// Those that want the same release wait for one another: one request.
func TestOneDownloadAtATime(t *testing.T) {
	p, d, _ := publish(t)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			own := *d
			if _, err := get(t, &own); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if p.requests() != 1 {
		t.Errorf("%d requests", p.requests())
	}
	installed(t, d)

	other, err := lockFile(t.Context(), d.beside(wanted, ".lock"), func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer other()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.Get(ctx, wanted); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another has the lock: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 3*lockPoll)
	defer cancel()
	told := 0
	if _, err := lockFile(ctx, d.beside(wanted, ".lock"), func() { told++ }); !errors.Is(err, context.DeadlineExceeded) || told != 1 {
		t.Errorf("%v, and it was said %d times that another has the lock", err, told)
	}
}

// A full disk is said, nothing half is used, and with room it goes on.
func TestNoSpace(t *testing.T) {
	p, d, _ := publish(t)
	d.Cache = t.TempDir()
	if err := unix.Mount("tmpfs", d.Cache, "tmpfs", 0, "size=128k"); err != nil {
		t.Skipf("SKIPPED, a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.Cache, 0); err != nil {
			t.Error(err)
		}
	})
	_, err := get(t, d)
	var failed *DownloadError
	if !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &failed) || !strings.Contains(failed.Hint(), "make room") {
		t.Fatalf("on a full disk: %v", err)
	}
	absent(t, d)
	if err := unix.Mount("tmpfs", d.Cache, "tmpfs", unix.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, d); err != nil {
		t.Fatal(err)
	}
	installed(t, d)
	if asked := p.spans(); len(asked) != 2 || asked[1] == "" {
		t.Errorf("asked for %q", asked)
	}
}

func TestTemplates(t *testing.T) {
	for template, want := range map[string]string{
		"https://a/b":                    "https://a/b/v3.6.1/x.tar.gz",
		"https://a/b/":                   "https://a/b/v3.6.1/x.tar.gz",
		"https://a/{version}/{file}?k=v": "https://a/3.6.1/x.tar.gz?k=v",
		"https://a/{file}":               "https://a/x.tar.gz",
	} {
		if got := expand(template, wanted, "x.tar.gz"); got != want {
			t.Errorf("%s became %s", template, got)
		}
	}
	w := web{template: "https://user:secret@a/{file}?token=secret"}
	if shown := w.where(wanted, "x"); shown != "https://a/x" {
		t.Errorf("shown as %s", shown)
	}
	if !strings.HasPrefix((&Downloader{}).Plan(wanted).From, OfficialURL+"/v3.6.1/etcd-v3.6.1-") {
		t.Error((&Downloader{}).Plan(wanted).From)
	}
}

func TestDownloadOfNonsense(t *testing.T) {
	p, d, _ := publish(t)
	for _, v := range []string{"", "3.6", "../../3.6.1", "3.6.1/..", "latest"} {
		if _, err := d.Get(t.Context(), v); !errors.Is(err, ErrVersion) || p.requests() > 0 {
			t.Errorf("%q: %v", v, err)
		}
	}
}
