package release

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"time"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/wake"
)

// Downloader fetches releases into a cache, from which a [Finder] takes them.
//
// What is in the cache under a release's name is complete and has the sum that
// was published: it is fetched into a file beside it, checked, unpacked into a
// directory beside it, tried, synced, and renamed. An interrupted download goes
// on where it ended, or starts over where that cannot be had; processes that
// want the same release wait for one another.
type Downloader struct {
	Cache string // directory; created
	// URL is where releases are: a template with {version}, {os}, {arch} and
	// {file}, or the directory that holds v<version>/<file>. Empty: OfficialURL.
	URL string
	// SumsURL is the same for SHA256SUMS, if that is to come from elsewhere than
	// the archive, which a mirror can then not forge.
	SumsURL string
	// Dir, when set, is a directory that is used instead of any network.
	Dir string
	// SHA256 of the archive, if a person knows it: then nothing else is asked.
	SHA256 string
	// Client is for tests; nil is [NewClient] with 10 s.
	Client *http.Client
	// Stall is how long nothing may come; 0: 30 s. Pause is the first wait
	// before another try, doubled each time; 0: 500 ms.
	Stall, Pause time.Duration
	// Progress is told how far the archive is; nil: nobody is. It is called
	// often, from the goroutine of Get.
	Progress func(Progress)
	// Waits is told once that another process downloads this version, whose end
	// is waited for until the context ends; nil: nobody is.
	Waits func(version string)
	// Again is told why a request failed that is made once more, before the pause;
	// tries counts those in a row that brought nothing. Nil: nobody is.
	Again func(version string, tries int, pause time.Duration, why error)

	files durable.Files // for tests; nil: this machine's
}

// Progress of one download. Total is -1 when the server does not tell.
type Progress struct {
	Version     string
	Done, Total int64
}

// Fetched is a release in the cache.
type Fetched struct {
	Version string `json:"version"`
	Dir     string `json:"dir"`
	SHA256  string `json:"sha256,omitempty"` // of the archive; empty when nothing was fetched
	From    string `json:"from,omitempty"`
	// Already: it was there, whole.
	Already bool `json:"already,omitempty"`
}

const (
	connectTimeout = 10 * time.Second
	stallTimeout   = 30 * time.Second
	firstPause     = 500 * time.Millisecond
	Tries          = 5 // in a row without a byte
	largestArchive = 2 << 30
	largestSums    = 1 << 20
)

// Get brings one release into the cache. The context bounds all of it.
func (d *Downloader) Get(ctx context.Context, version string) (Fetched, error) {
	version = strings.TrimPrefix(version, "v")
	f, err := d.get(ctx, version)
	if err != nil {
		return f, &DownloadError{Version: version, From: f.From, Err: err}
	}
	return f, nil
}

// Plan says what Get would do, and does nothing.
func (d *Downloader) Plan(version string) Fetched {
	version = strings.TrimPrefix(version, "v")
	if !versionForm.MatchString(version) {
		return Fetched{Version: version}
	}
	f := Fetched{Version: version, Dir: filepath.Join(d.Cache, fullName(version)), From: d.source(d.URL).where(version, archiveName(version))}
	f.Already = whole(f.Dir) == nil
	return f
}

func archiveName(version string) string { return fullName(version) + ".tar.gz" }

func (d *Downloader) get(ctx context.Context, version string) (Fetched, error) {
	if !versionForm.MatchString(version) {
		return Fetched{}, ErrVersion
	}
	f := d.Plan(version)
	if goruntime.GOOS != "linux" {
		return f, fmt.Errorf("etcd is published for %s in a form that is not unpacked here", goruntime.GOOS)
	}
	if err := os.MkdirAll(d.Cache, 0o755); err != nil {
		return f, err
	}
	unlock, err := lockFile(ctx, d.beside(version, ".lock"), func() {
		if d.Waits != nil {
			d.Waits(version)
		}
	})
	if err != nil {
		return f, fmt.Errorf("wait for another download: %w", err)
	}
	defer unlock()
	if f.Already = whole(f.Dir) == nil; f.Already { // whoever held the lock has done it
		return f, nil
	}
	if f.SHA256, err = d.published(ctx, version); err != nil {
		return f, err
	}
	part := d.beside(version, ".tar.gz.part")
	if err := d.fetchWhole(ctx, version, part, f.SHA256); err != nil {
		return f, err
	}
	if err := d.install(ctx, version, part, f.Dir); err != nil {
		return f, err
	}
	return f, os.Remove(part)
}

// beside is a path in the cache that no release has.
func (d *Downloader) beside(version, suffix string) string {
	return filepath.Join(d.Cache, "."+fullName(version)+suffix)
}

func (d *Downloader) source(template string) source {
	if d.Dir != "" {
		return offline{d.Dir}
	}
	w := web{template: cmp.Or(template, OfficialURL), client: d.Client, stall: d.Stall}
	if w.client == nil {
		w.client = NewClient(connectTimeout)
	}
	if w.stall <= 0 {
		w.stall = stallTimeout
	}
	return w
}

// published is the sum that the archive has to have.
func (d *Downloader) published(ctx context.Context, version string) (string, error) {
	if d.SHA256 != "" {
		if !isSum(d.SHA256) {
			return "", fmt.Errorf("%q is no SHA-256", d.SHA256)
		}
		return strings.ToLower(d.SHA256), nil
	}
	from := d.source(cmp.Or(d.SumsURL, d.URL))
	if w, is := from.(web); is {
		if u, err := url.Parse(expand(w.template, version, SumsName)); err != nil || !secure(u) {
			return "", fmt.Errorf("%w: %s does not come over TLS, and no SHA-256 was given", ErrTrust, from.where(version, SumsName))
		}
	}
	var text []byte
	err := d.again(ctx, version, func() (int64, error) {
		body, _, err := from.open(ctx, version, SumsName, 0)
		if err != nil {
			return 0, err
		}
		defer body.Close()
		text, err = io.ReadAll(io.LimitReader(body, largestSums))
		return 0, err
	})
	if err != nil {
		return "", fmt.Errorf("read %s: %w", from.where(version, SumsName), err)
	}
	sum, known := parseSums(string(text))[archiveName(version)]
	if !known {
		return "", fmt.Errorf("%w: %s does not name %s", ErrNotPublished, from.where(version, SumsName), archiveName(version))
	}
	return sum, nil
}

// fetchWhole leaves the archive with the right sum in part.
func (d *Downloader) fetchWhole(ctx context.Context, version, part, want string) error {
	for {
		before, err := d.fetch(ctx, version, part)
		if err != nil {
			return err
		}
		got, err := sumOf(part)
		if err != nil || got == want {
			return err
		}
		if err := os.Remove(part); err != nil {
			return err
		}
		if before == 0 { // all of it came in one go
			return fmt.Errorf("%w: the SHA-256 of %s is %s, and %s was published", ErrTrust, archiveName(version), got, want)
		}
		// What was left of an earlier download was of another file.
	}
}

// fetch appends what is missing to part, and says how much of it was there.
func (d *Downloader) fetch(ctx context.Context, version, part string) (before int64, err error) {
	f, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	before = size
	from := d.source(d.URL)
	if err == nil {
		err = d.again(ctx, version, func() (int64, error) {
			n, err := d.append(ctx, from, version, f, size)
			if errors.Is(err, errRange) && size > 0 {
				before, size = 0, 0
				if err := errors.Join(f.Truncate(0), seek(f, 0)); err != nil {
					return 0, err
				}
				n, err = d.append(ctx, from, version, f, 0)
			}
			size += n
			return n, err
		})
	}
	return before, errors.Join(err, f.Sync(), f.Close())
}

func seek(f *os.File, at int64) error {
	_, err := f.Seek(at, io.SeekStart)
	return err
}

// append reads once, until the end or an error.
func (d *Downloader) append(ctx context.Context, from source, version string, f *os.File, size int64) (n int64, err error) {
	body, total, err := from.open(ctx, version, archiveName(version), size)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	buffer := make([]byte, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		read, err := body.Read(buffer)
		if read > 0 {
			wrote, werr := f.Write(buffer[:read])
			n += int64(wrote)
			if d.Progress != nil {
				d.Progress(Progress{Version: version, Done: size + n, Total: total})
			}
			if werr != nil {
				return n, &localError{werr}
			}
		}
		switch {
		case size+n > largestArchive:
			return n, &localError{errors.New("the archive does not end")}
		case errors.Is(err, io.EOF) && total > size+n:
			return n, io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// localError is one that another request does not cure.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// again repeats what failed for a reason that may pass, until it was tried
// in vain several times in a row; one that brought bytes was not in vain.
func (d *Downloader) again(ctx context.Context, version string, try func() (int64, error)) error {
	first := d.Pause
	if first <= 0 {
		first = firstPause
	}
	for n, pause := 1, first; ; n, pause = n+1, pause*2 {
		brought, err := try()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil || lasting(err) {
			return err
		}
		if brought > 0 {
			n, pause = 0, first
		}
		if n >= Tries {
			return fmt.Errorf("tried %d times: %w", n, err)
		}
		if d.Again != nil {
			d.Again(version, n, pause, err)
		}
		if !wake.After(ctx, pause) {
			return ctx.Err()
		}
	}
}

func lasting(err error) bool {
	var local *localError
	var refused *refusedError
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &local) || errors.As(err, &refused) || errors.As(err, &certificate) ||
		errors.Is(err, ErrNotPublished) || errors.Is(err, ErrTrust)
}

// DownloadError says which release could not be had, from where, and what to do.
type DownloadError struct {
	Version string
	From    string
	Err     error
}

func (e *DownloadError) Error() string {
	if e.From == "" {
		return fmt.Sprintf("download etcd %q: %v", e.Version, e.Err)
	}
	return fmt.Sprintf("download etcd %s from %s: %v", e.Version, e.From, e.Err)
}

func (e *DownloadError) Unwrap() error { return e.Err }

// Hint says what to do.
func (e *DownloadError) Hint() string {
	switch {
	case errors.Is(e.Err, syscall.ENOSPC):
		return "a release takes about 120 MB while it is unpacked; make room, or choose another --cache-dir; it goes on where it ended"
	case errors.Is(e.Err, ErrTrust):
		return "do not use that archive; --sha256 takes the sum that you know, --sums-url has SHA256SUMS from elsewhere"
	case errors.Is(e.Err, ErrNotPublished):
		return "is that version published for " + goruntime.GOOS + "-" + goruntime.GOARCH + "? --release-url names a mirror, --from a directory with the archive"
	case errors.Is(e.Err, context.Canceled), errors.Is(e.Err, context.DeadlineExceeded):
		return "call it again: it goes on where it ended"
	}
	return "call it again: it goes on where it ended; --release-url names a mirror, --from a directory with archives"
}
