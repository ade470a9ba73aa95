package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/bounded"
	"golang.org/x/sys/unix"
)

const (
	// logLeast is what has to be free where etcd writes its log: a file takes blocks of its
	// file system, and what etcd says of one trouble is a few of them.
	logLeast = 64 << 10
	// logAnswers is how long that file system is waited for: as an observation waits for the
	// member's data.
	logAnswers = time.Second
)

// logRoom watches whether there is room for etcd's log, which may lie on a file system of its
// own. etcd goes on without it, and says nothing: what it warned of is lost, and so is why it
// ended.
type logRoom struct {
	mu      sync.Mutex // guards problem
	problem *cluster.Problem
}

// look looks once. An error is that the file system does not answer; nothing is to be read
// of the log then.
func (r *logRoom) look(ctx context.Context, file string) error {
	dir := filepath.Dir(file)
	free, err := bounded.Do(ctx, dir, logAnswers, func() (uint64, error) { return freeFor(dir) })
	var silent *bounded.SilentError
	var p *cluster.Problem
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &silent):
		p = &cluster.Problem{
			Code:     "log-not-written",
			Sentence: fmt.Sprintf("etcd's log %s cannot be written, or read: %v", file, silent),
			Hint:     "check that disk or mount; etcd may hang with it",
		}
	case errors.Is(err, fs.ErrNotExist): // before the first start
	case err == nil && free < logLeast:
		p = &cluster.Problem{
			Code:     "log-not-written",
			Sentence: fmt.Sprintf("the file system of etcd's log %s is full: etcd goes on, and what it says is lost", file),
			Hint:     "make room there; older parts of the log are " + file + ".1 and above",
		}
	}
	r.mu.Lock()
	r.problem = p
	r.mu.Unlock()
	if silent != nil {
		return silent
	}
	return nil
}

// problems never waits.
func (r *logRoom) problems() []cluster.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.problem == nil {
		return nil
	}
	return []cluster.Problem{*r.problem}
}

// freeFor is how many bytes this user, who is etcd's, can still write below a directory.
func freeFor(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if st.Blocks == 0 { // some network and user-space file systems do not tell
		return math.MaxUint64, nil
	}
	blocks := st.Bavail
	if os.Geteuid() == 0 {
		blocks = st.Bfree
	}
	return blocks * uint64(st.Bsize), nil
}
