package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"time"

	"etcdadm.io/internal/bounded"
)

const (
	// answerDeadline is how long a binary may take to tell its version: it has to
	// be read from disk, and a slow one may hold the largest part of 100 MB.
	answerDeadline = 20 * time.Second
	// silentFor is how long a binary that did not answer is taken for one that does
	// not: a start that has another one to go on with does not wait for it again.
	silentFor = 30 * time.Second
)

// errNoTime says that a binary was not asked.
var errNoTime = errors.New("ask for its version: no time was left")

// A silence is a binary that did not answer.
type silence struct {
	at  time.Time
	had time.Duration // the time that it was given
	err error
}

// answers are the versions that binaries have told. A binary is asked again
// when its file is another one by time or size. Of errors only a silence is kept,
// for a while.
//
// Before that a downloaded program is held against the sum that was written
// with it: what lies in a cache may have been changed, or have rotted.
type answers struct {
	mu      sync.Mutex // guards what follows; not held while a binary runs
	known   map[file]string
	silent  map[file]silence
	genuine map[file]bool
}

type file struct {
	path  string // with links resolved: kops has many names for one binary
	mtime time.Time
	size  int64
}

func identify(path string) (file, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return file{}, err
	}
	info, err := os.Stat(real)
	if err != nil {
		return file{}, err
	}
	return file{path: real, mtime: info.ModTime(), size: info.Size()}, nil
}

// verify holds a program against the sum of its download, if it is one, and tells which
// file it is.
func (a *answers) verify(path string) (file, error) {
	key, err := identify(path)
	if err != nil {
		return file{}, err
	}
	a.mu.Lock()
	genuine := a.genuine[key]
	a.mu.Unlock()
	if genuine {
		return key, nil
	}
	if err := verify(key.path); err != nil {
		return file{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.genuine == nil {
		a.genuine = make(map[file]bool)
	}
	a.genuine[key] = true
	return key, nil
}

// version runs "etcd --version" of a program that was verified as this file.
func (a *answers) version(ctx context.Context, path string, key file, within time.Duration) (string, error) {
	a.mu.Lock()
	version, ok := a.known[key]
	silent := a.silent[key]
	a.mu.Unlock()
	if ok {
		return version, nil
	}
	// What is given much more time than it had may well answer.
	if time.Since(silent.at) < silentFor && within < 2*silent.had {
		return "", silent.err
	}
	version, err := ask(ctx, path, within)
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(err, context.DeadlineExceeded) {
		if a.silent == nil {
			a.silent = make(map[file]silence)
		}
		a.silent[key] = silence{at: time.Now(), had: within, err: err}
	}
	if err != nil {
		return "", err
	}
	if a.known == nil {
		a.known = make(map[file]string)
	}
	a.known[key] = version
	return version, nil
}

// share is the time that one binary is given: half of what the caller has left, so
// that however many do not answer, those behind them are asked, too.
func share(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return answerDeadline
	}
	return min(answerDeadline, time.Until(end)/2)
}

// ask runs a binary. Errors: context.DeadlineExceeded, when it did not answer within
// the time; errNoTime; context.Canceled, when the caller does not want to know any more.
func ask(ctx context.Context, path string, within time.Duration) (string, error) {
	if within <= 0 {
		return "", errNoTime
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := bounded.Program(ctx, path); err != nil {
		return "", fmt.Errorf("ask for its version: %w", err)
	}
	asked := time.Now()
	cmd := exec.CommandContext(ctx, path, "--version")
	// etcd reads ETCD_* as flags and some of them make it fail. Nothing else of
	// our environment is its business either.
	// On some processors releases run only when told that this is known.
	cmd.Env = []string{"ETCD_UNSUPPORTED_ARCH=" + goruntime.GOARCH}
	cmd.Dir = "/"
	// A child of the binary that keeps its output open must not hold us up.
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout = &limited{buf: &out, left: 4096} // some releases warn on stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer in %s: %w", time.Since(asked).Round(100*time.Millisecond), ctx.Err())
		}
		return "", fmt.Errorf("ask for its version: %w", err)
	}
	for line := range strings.Lines(out.String()) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "etcd Version: "); ok && versionForm.MatchString(version) {
			return version, nil
		}
	}
	return "", errors.New("ask for its version: the answer is not etcd's")
}

// limited keeps the beginning of what is written.
type limited struct {
	buf  *bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.buf.Write(p[:n])
	l.left -= n
	return len(p), nil
}
