package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/internal/regular"
)

// OfficialURL is where the etcd project publishes its releases.
const OfficialURL = "https://github.com/etcd-io/etcd/releases/download"

// SumsName is the file with the SHA-256 of every other file of a release.
const SumsName = "SHA256SUMS"

// Errors of a source that callers decide on.
var (
	// ErrNotPublished: the place has no such file.
	ErrNotPublished = errors.New("there is no such file")
	// ErrTrust: what is asked for could not be told from a forgery.
	ErrTrust = errors.New("not to be trusted")
	// errRange: the rest of a file cannot be had, only the whole.
	errRange = errors.New("the rest cannot be downloaded")
)

// source is where files of releases come from.
type source interface {
	// open reads a file of a release from an offset on. Total is the size of the
	// whole file, -1 when it is not told.
	open(ctx context.Context, version, name string, offset int64) (body io.ReadCloser, total int64, err error)
	// where names the place of a file for people, without secrets.
	where(version, name string) string
}

// web is a source behind URLs.
type web struct {
	template string
	client   *http.Client
	stall    time.Duration // without a byte
}

// expand fills a template in: {version}, {os}, {arch} and {file}. One that has
// no {file} is the directory that the etcd project's own URL is.
func expand(template, version, file string) string {
	if !strings.Contains(template, "{file}") {
		template = strings.TrimSuffix(template, "/") + "/v{version}/{file}"
	}
	return strings.NewReplacer("{version}", version, "{os}", goruntime.GOOS, "{arch}", goruntime.GOARCH, "{file}", file).Replace(template)
}

func (w web) where(version, name string) string {
	u, err := url.Parse(expand(w.template, version, name))
	if err != nil {
		return "the URL of " + name
	}
	return shownURL(u)
}

// shownURL is a URL without what may be secret in it.
func shownURL(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}

// secure reports whether what comes from a URL is what its owner sends: TLS,
// or this machine itself.
func secure(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

func (w web) open(ctx context.Context, version, name string, offset int64) (io.ReadCloser, int64, error) {
	address := expand(w.template, version, name)
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, 0, fmt.Errorf("%s is not the URL of a file", w.where(version, name))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		cancel(nil)
		return nil, 0, errors.New("the URL cannot be asked for")
	}
	request.Header.Set("Accept-Encoding", "identity") // sizes and offsets are those of the file
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	// The answer's header has to come within the stall time, too.
	watch := time.AfterFunc(w.stall, func() { cancel(errStalled) })
	response, err := w.client.Do(request) //nolint:bodyclose // watched closes it
	if err != nil {
		err = bare(ctx, err)
		cancel(nil)
		return nil, 0, err
	}
	body := &watched{body: response.Body, ctx: ctx, cancel: cancel, watch: watch, stall: w.stall}
	total, err := answered(response, offset)
	if err != nil {
		body.Close()
		return nil, 0, err
	}
	return body, total, nil
}

var errStalled = errors.New("no data arrived for too long")

// bare takes the URL out of a client's error: after a redirect it is one with
// a signature in it.
func bare(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		err = cause
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// answered reads the size of the whole file in the answer.
func answered(r *http.Response, offset int64) (total int64, err error) {
	switch {
	case r.StatusCode == http.StatusOK && offset > 0, r.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return 0, errRange
	case r.StatusCode == http.StatusOK:
		return r.ContentLength, nil
	case r.StatusCode == http.StatusPartialContent:
		span, size, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Content-Range"), "bytes "), "/")
		if first, _, _ := strings.Cut(span, "-"); first != strconv.FormatInt(offset, 10) {
			return 0, errRange
		}
		if total, err = strconv.ParseInt(size, 10, 64); err != nil {
			total = -1
		}
		return total, nil
	case r.StatusCode == http.StatusNotFound, r.StatusCode == http.StatusGone:
		return 0, fmt.Errorf("%w: %s", ErrNotPublished, r.Status)
	case r.StatusCode >= 500 || r.StatusCode == http.StatusTooManyRequests:
		return 0, fmt.Errorf("the server answered %s", r.Status)
	}
	return 0, &refusedError{r.Status}
}

// refusedError is an answer that does not change by asking again.
type refusedError struct{ status string }

func (e *refusedError) Error() string { return "the server answered " + e.status }

// watched ends a body that delivers nothing for too long.
type watched struct {
	body   io.ReadCloser
	ctx    context.Context // the request's own, for why it ended
	cancel context.CancelCauseFunc
	watch  *time.Timer
	stall  time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	w.watch.Reset(w.stall)
	if err != nil && !errors.Is(err, io.EOF) {
		err = bare(w.ctx, err)
	}
	return n, err
}

func (w *watched) Close() error {
	w.watch.Stop()
	w.cancel(nil)
	return w.body.Close()
}

// NewClient is an HTTP client for downloads: proxies of the environment, a
// deadline for connecting, and no way from TLS to clear text by a redirect.
func NewClient(connect time.Duration) *http.Client {
	dialer := &net.Dialer{Timeout: connect}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           dialer.DialContext,
			TLSHandshakeTimeout:   connect,
			ForceAttemptHTTP2:     true,
			DisableCompression:    true,
			MaxIdleConnsPerHost:   1,
			IdleConnTimeout:       time.Minute,
			ExpectContinueTimeout: time.Second,
		},
		CheckRedirect: func(request *http.Request, via []*http.Request) error {
			switch {
			case len(via) >= 10:
				return errors.New("it redirects without end")
			case secure(via[0].URL) && !secure(request.URL):
				return fmt.Errorf("%w: it redirects from TLS to clear text", ErrTrust)
			}
			return nil
		},
	}
}

// offline is a source that is a directory: the files of several releases, or a
// directory v<version> for each.
type offline struct{ dir string }

func (o offline) open(_ context.Context, version, name string, offset int64) (io.ReadCloser, int64, error) {
	var f *os.File
	err := fs.ErrNotExist
	for _, path := range []string{filepath.Join(o.dir, "v"+version, name), filepath.Join(o.dir, name)} {
		if f, err = regular.Open(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, ErrNotPublished
	} else if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	if offset > info.Size() {
		f.Close()
		return nil, 0, errRange
	}
	return f, info.Size(), nil
}

func (o offline) where(_, name string) string { return filepath.Join(o.dir, name) }
