package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"etcdadm.io/internal/bounded"
	"etcdadm.io/internal/release"
)

// A server is an etcd that will be thrown away. It listens on sockets in its
// working directory, which is the site that only this user can enter: a port on
// loopback would let every user of the machine read the database, and could be
// taken by somebody else. Nothing that is asked needs
// credentials: health and the hash are told without them.
type server struct {
	site   *site
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process is over and err is set
	err    error
	logged string // file
}

// Names of the sockets. etcd wants the form of host and port.
const (
	clientSocket = "client:1"
	peerSocket   = "peer:1"
)

const (
	// askEvery is how often a starting etcd is asked whether it is there; there
	// is no event to wait for.
	askEvery  = 20 * time.Millisecond
	askWithin = 30 * time.Second // whether it is healthy
	stopGrace = 60 * time.Second // until SIGKILL: it writes what it has
	killGrace = 30 * time.Second // from SIGKILL: a process that waits for a disk does not end before
	// servesAtLeast is how long an etcd of little data may take to serve, and from one
	// raft snapshot to the next: one that runs and comes to nothing does not end.
	servesAtLeast = 10 * time.Minute
	// slowestRead is what a disk reads in a second at least, in bytes: the throttled ones
	// of clouds give more. What etcd has to read has so much more time.
	slowestRead = 2 << 20
)

// ServesWithin is how long an etcd may take to read what is in its data directory, once
// for a start and once for a hash of it, and from one raft snapshot to the next. What cannot be looked at adds nothing.
func ServesWithin(data string) time.Duration {
	var size int64
	_ = filepath.WalkDir(data, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it is a bound, and the rest counts
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return servesAtLeast + time.Duration(size/slowestRead)*time.Second
}

// NotServed is why an etcd is given up that has not come on within this time.
func NotServed(within time.Duration) error {
	return fmt.Errorf("no result within %s, enough for a disk that reads %d MiB/s: check whether the disk is slower or overloaded, and try again: %w", within, slowestRead>>20, context.DeadlineExceeded)
}

// HealthPath is where an etcd says whether it has a leader and answers reads. An alarm
// is raised in its database, and so in a backup or a copy of it: it says nothing of that.
// A release that knows of no exceptions is given up after [ServesWithin].
const HealthPath = "/health?exclude=NOSPACE&exclude=CORRUPT"

// startServer starts an etcd on a data directory within the site. It dies with
// us at the latest.
func startServer(r release.Release, s *site, dataDir string, flags ...string) (*server, error) {
	const nobody = "http://127.0.0.1:1" // nobody is to come back by this address
	return s.launch(r, slices.Concat([]string{
		"--name=throw-away",
		"--data-dir=" + dataDir,
		"--listen-client-urls=unix://" + clientSocket,
		"--listen-peer-urls=unix://" + peerSocket,
		"--advertise-client-urls=" + nobody,
		"--initial-advertise-peer-urls=" + nobody,
		"--initial-cluster=throw-away=" + nobody,
		"--quota-backend-bytes=-1", // what the cluster accepted fits here, too
	}, flags))
}

// launch starts an etcd with these flags in the site.
func (s *site) launch(r release.Release, flags []string) (*server, error) {
	if err := bounded.Program(context.Background(), r.Etcd); err != nil {
		return nil, fmt.Errorf("start a throw-away etcd: %w", err)
	}
	logged := s.path("etcd.log")
	log, err := os.OpenFile(logged, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	srv := &server{site: s, ended: make(chan struct{}), logged: logged}
	srv.cmd = exec.Command(r.Etcd, slices.Concat(r.Args, flags)...)
	srv.cmd.Dir, srv.cmd.Env = s.dir, bareEnvironment()
	srv.cmd.Stdout, srv.cmd.Stderr = log, log
	srv.cmd.ExtraFiles = []*os.File{s.lock}
	srv.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel ends the child with the thread that started it.
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		defer close(srv.ended)
		err := srv.cmd.Start()
		if err == nil {
			s.sign(srv.cmd.Process.Pid, filepath.Base(r.Etcd))
		}
		started <- err
		if err == nil {
			srv.err = srv.cmd.Wait()
			s.signSelf()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start a throw-away etcd: %w", err)
	}
	return srv, nil
}

// until asks until the answer is yes, the process is over, or ctx ends.
func (s *server) until(ctx context.Context, what string, ask func(context.Context) (bool, error)) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	var last error
	for {
		yes, err := ask(ctx)
		if yes {
			return nil
		}
		last = err
		select {
		case <-s.ended:
			return fmt.Errorf("wait until the throw-away etcd %s: it ended (%w): %s", what, s.err, s.lastWords())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait until the throw-away etcd %s: %w", what, context.Cause(ctx)), last)
		case <-tick.C:
		}
	}
}

// lastWords is the last line of etcd's log that tells of a failure, else the last.
func (s *server) lastWords() string {
	f, err := os.Open(s.logged)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > 1<<20 {
		_, _ = f.Seek(-1<<20, io.SeekEnd)
	}
	words, failed := "it said nothing", false
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if tells := tellsOfFailure(line); tells || !failed && strings.TrimSpace(line) != "" {
			words, failed = line, failed || tells
		}
	}
	return words[:min(len(words), 600)]
}

// tellsOfFailure: until 3.4 etcd writes a letter for the level, as capnslog does, and
// JSON later.
func tellsOfFailure(line string) bool {
	return slices.ContainsFunc([]string{`"fatal"`, `"panic"`, `"error"`, "panic:", " C | ", " E | "}, func(mark string) bool { return strings.Contains(line, mark) })
}

// ask sends one request to one of the sockets.
func (s *server) ask(ctx context.Context, socket, path string, body []byte) ([]byte, error) {
	dir, err := os.Open(s.site.dir) // a socket's path may not be long; this one never is
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	address := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socket)
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", address)
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://throw-away"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, bytes.TrimSpace(answer))
	}
	return answer, err
}

// healthy says whether it has a leader and answers reads.
func (s *server) healthy(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	_, err := s.ask(ctx, clientSocket, HealthPath, nil)
	return err == nil, err
}

// serves waits until it is healthy.
func (s *server) serves(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, NotServed(within))
	defer cancel()
	return s.until(ctx, "is healthy", s.healthy)
}

// applied waits until a raft snapshot in a directory says that all entries up to one are
// applied. How long that takes nobody knows; what is bounded is the time from one
// snapshot to the next.
func (s *server) applied(ctx context.Context, snap string, last uint64, within time.Duration) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	stalled := time.AfterFunc(within, func() { giveUp(NotServed(within)) })
	defer stalled.Stop()
	var far uint64
	return s.until(ctx, fmt.Sprintf("has applied entry %d", last), func(context.Context) (bool, error) {
		index, err := newestSnapshot(snap)
		if index > far {
			far = index
			stalled.Reset(within)
		}
		return index >= last, err
	})
}

// hashKV asks as its peers would. etcd reads its whole database before it answers.
// Source: etcdserver.HashKVHandler, since 3.5.
func (s *server) hashKV(ctx context.Context, revision int64, within time.Duration) (Hash, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, NotServed(within))
	defer cancel()
	body, err := json.Marshal(map[string]int64{"revision": revision})
	if err != nil {
		return Hash{}, err
	}
	answer, err := s.ask(ctx, peerSocket, "/members/hashkv", body)
	if ctx.Err() != nil {
		return Hash{}, fmt.Errorf("wait until the throw-away etcd tells its hash: %w", context.Cause(ctx))
	}
	if err != nil {
		return Hash{}, err
	}
	var said struct {
		Hash            uint32 `json:"hash"`
		CompactRevision int64  `json:"compact_revision"`
	}
	err = json.Unmarshal(answer, &said)
	return Hash{Revision: revision, CompactRevision: said.CompactRevision, Hash: said.Hash}, err
}

// stop ends it gracefully, so that its database is whole, and by force when it
// does not end in time or ctx is over. It returns after the process is gone, as far as kill does.
func (s *server) stop(ctx context.Context) error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // an ended process is what we want
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-s.ended:
		return nil
	case <-ctx.Done():
	case <-grace.C:
	}
	s.kill()
	return errors.New("the throw-away etcd had to be killed")
}

// kill ends it if it has not ended, and returns after it is gone, or after
// killGrace where its disk does not answer: its site stays locked by it then.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // does nothing to a process that was waited for
	grace := time.NewTimer(killGrace)
	defer grace.Stop()
	select {
	case <-s.ended:
	case <-grace.C:
	}
}
