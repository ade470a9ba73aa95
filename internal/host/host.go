package host

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// Options are what a host is made of.
type Options struct {
	ID          cluster.HostID
	ClusterName string
	Address     string       // as shown to others
	URLs        cluster.URLs // where a member of this host listens, as it advertises them

	// Releases lists what the host can run now.
	Releases func() []cluster.Version
	// Options lists the etcd arguments beyond ours for a release; nil: those of
	// the spec.
	Options func(cluster.Version) []string

	Disk    Disk
	Process Process
	// Member is the client of a member launched like this.
	Member  func(record.Launch) Member
	Intents Intents
	Reacher Reacher
	// Sources makes sources of generations ready and takes backups; nil: this
	// host does neither.
	Sources Sources
	// Decrypts reports whether this host has a secret key for encrypted backups
	// now; nil: it has none.
	Decrypts func() bool
	// Problems are what the daemon knows of this host beside its member, for people; it never
	// waits. Nil: nothing.
	Problems func() []cluster.Problem
	// PeerTLS is how the member of a token and the others take each other's certificates;
	// it never waits. Nil, or nil from it: that is not known, or they speak without.
	PeerTLS func(token string) *cluster.PeerTLS
	// PruneAfter is how long what was set aside of a removed member is kept at
	// least, before a leader may have it pruned (SAFETY.md, rule 22); zero: for ever.
	PruneAfter time.Duration
	// Settings are the daemon's choices that ought to be those of every host.
	Settings []cluster.HostSetting
	// AskPeers asks the other hosts what they remember of this one, and
	// returns the answers that came by the end of the context, or sooner when
	// no more are to be expected. Nil: there is nobody to ask.
	AskPeers func(context.Context) []cluster.Ping

	// Promoted reads from the store whether a member that joined a cluster which
	// something else runs was, or is about to be, made a voter; nil: it cannot be told.
	Promoted func(context.Context, cluster.MemberID) (bool, error)

	Mint func() string // random and never the same; nil: 128 bits from crypto/rand
	Log  *slog.Logger  // nil: slog.Default
}

// Host is this machine. Make one with New, run it with Run; every method may
// be called at any time and from any goroutine.
type Host struct {
	o       Options
	booted  chan struct{} // closed when Run has brought the machine in line with the record
	turn    chan struct{} // held to admit an op or to make a promise; short
	writer  chan struct{} // held to change the state; as long as the disk takes
	looking chan struct{} // held to look at the data directory for an observation
	changes chan struct{}
	lost    chan struct{} // the evidence for the member was found gone
	stray   chan struct{} // the process took another member's ID

	background context.Context // of what goes on beside the ops; ends with the host
	stopWork   context.CancelFunc

	mu        sync.Mutex   // guards what follows; never held across a call to a port
	state     record.State // what is durable
	broken    *cluster.Problem
	saveErr   error
	saveBegan time.Time // of the write that is under way; zero: none is
	running   *task     // the op being carried out; nil: none
	phase     phase     // of it, or of the start; zero: none that is told
	own       phase     // of what the host looks at or writes by itself, beside an op
	resting   bool      // Rest was called
	closing   bool
	tasks     sync.WaitGroup
	fenceUsed time.Time
	stamps    []stamp
	overdue   []*look // under way, and given up by whoever asked for them; the oldest first
	changeNo  uint64
	highest   cluster.Progress // newer than the state's until the next beat
	highestOf cluster.ClusterID
	peers     []record.Peer     // newer than the state's until the next beat
	spec      *cluster.Spec     // newer than the state's until the next beat
	standing  *cluster.Standing // what a leader told of a spec that is refused
	aside     []cluster.SetAside
	foreign   []cluster.SetAside
	theirs    *cluster.Predecessor // not taken over yet; nil: there is nothing to take over
	inventErr error
	// inventNo counts the lists of what lies on the disk that were begun, and listed is
	// the last one that was taken in: one that took longer than a later one is old.
	inventNo, listed uint64
	blocked          string                     // why nothing is started beside what was found at the start
	noted            map[string]cluster.Problem // by code
	answered         int                        // PID of the process whose member answered with its ID
	// answeredRestarts is how often it had been restarted then.
	answeredRestarts int
	client           Member
	clientOf         string      // the nonce of the launch that client is for
	pruneFailed      time.Time   // when a directory could not be pruned
	reading          *logReading // nil: none is under way
	v2               v2Look
	failedRelease    cluster.Version // what a leader gave up on, since this daemon started; zero: nothing
	failedOptions    *record.Ran     // what the member did not start with, since this daemon started
	rolledBack       bool            // a peer remembers a later beat of this disk
	stageNow         *cluster.Staged // how far staging is; nil: nothing is being staged
	stageGiveUp      context.CancelCauseFunc
	backupGiveUp     context.CancelCauseFunc // of the backup in taken
	taken            *cluster.Taken
	tidying          bool // after a backup
	drill            *cluster.Taken
	asking           map[*asking]struct{}
	hash             *cluster.Hash
	database         *cluster.DatabaseWork
}

// New makes a host that does nothing yet.
func New(o Options) *Host {
	if o.Mint == nil {
		o.Mint = Mint
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	background, stop := context.WithCancel(context.Background())
	return &Host{
		o: o, background: background, stopWork: stop,
		booted: make(chan struct{}), turn: make(chan struct{}, 1), writer: make(chan struct{}, 1),
		looking: make(chan struct{}, 1), changes: make(chan struct{}, 1), lost: make(chan struct{}, 1),
		stray: make(chan struct{}, 1),
		noted: map[string]cluster.Problem{}, asking: map[*asking]struct{}{},
	}
}

// Mint returns 128 random bits as 22 characters that are safe in URLs and
// file names; it never begins with a dash.
func Mint() string {
	for {
		var b [16]byte
		rand.Read(b[:]) // never fails
		if s := base64.RawURLEncoding.EncodeToString(b[:]); s[0] != '-' {
			return s
		}
	}
}

const (
	// askTimeout bounds the wait for what peers remember; they ping every 100 ms
	// after a start, and it costs a lone host that much at each boot.
	askTimeout = 2 * time.Second
	// adoptTimeout bounds the look for a process left by an earlier daemon.
	adoptTimeout = 20 * time.Second
)

// Changes receives a value after something happened on this host that a leader
// should look at. There is one receiver.
func (h *Host) Changes() <-chan struct{} { return h.changes }

// Noticed says that something changed of what the host was given by its options, such as
// the releases: a leader looks at once, and does not wait for its next look.
func (h *Host) Noticed() { h.changed() }

func (h *Host) changed() {
	h.mu.Lock()
	h.changeNo++
	h.mu.Unlock()
	signal(h.changes) // one that was not yet read tells of this change as well
}

// Identity is what a host tells of itself in a ping.
type Identity struct {
	Host       cluster.HostID
	Disk       cluster.DiskID // empty: not known yet, or not readable
	Beat       uint64         // durable
	Generation uint64         // the highest that the host has heard of
	Promised   cluster.Fence
	Changes    uint64 // counts what Changes tells
	Unfit      string // why this host's daemon must not lead; empty: it may
}

// Identity never waits, not even for the disk.
func (h *Host) Identity() Identity {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.state
	id := Identity{
		Host: h.o.ID, Disk: s.Disk, Beat: s.Beat, Promised: s.Promised, Changes: h.changeNo,
		Generation: max(s.Floor(), s.Local.Generation),
	}
	if h.broken != nil {
		id.Unfit = h.broken.Sentence
	}
	return id
}

// snapshot is the durable state.
func (h *Host) snapshot() record.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// errBroken says that there is no state that could be changed.
var errBroken = errors.New("the host's state cannot be used")

// save changes the state durably. A change that changes nothing writes nothing.
func (h *Host) save(ctx context.Context, change func(*record.State)) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	select {
	case h.writer <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("save state: the disk is busy: %w", ctx.Err())
	}
	defer func() { <-h.writer }()
	h.mu.Lock()
	before, broken := h.state, h.broken
	h.mu.Unlock()
	if broken != nil {
		return fmt.Errorf("save state: %w: %s", errBroken, broken.Sentence)
	}
	next := before
	next.PastDisks, next.Carried, next.Voted = slices.Clip(next.PastDisks), slices.Clip(next.Carried), slices.Clip(next.Voted)
	change(&next)
	if next.Equal(before) {
		return nil
	}
	h.mu.Lock()
	h.saveBegan = time.Now()
	h.mu.Unlock()
	err := h.o.Disk.Save(next)
	h.mu.Lock()
	h.saveErr, h.saveBegan = err, time.Time{}
	if err == nil {
		h.state = next
	}
	h.mu.Unlock()
	if err != nil {
		h.o.Log.Error("cannot write the host's state", "err", err)
		return fmt.Errorf("save state: %w", err)
	}
	return nil
}

// note keeps a problem until it is cleared.
func (h *Host) note(p cluster.Problem) {
	h.mu.Lock()
	_, known := h.noted[p.Code]
	h.noted[p.Code] = p
	h.mu.Unlock()
	if !known {
		h.o.Log.Warn(p.Sentence, "problem", p.Code, "hint", p.Hint)
	}
}

func (h *Host) clear(code string) {
	h.mu.Lock()
	delete(h.noted, code)
	h.mu.Unlock()
}
