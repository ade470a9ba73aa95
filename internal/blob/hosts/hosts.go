// Package hosts is an object store that a few hosts keep between them, on their own disks, for small objects: the control
// record of a cluster that has no shared store. Package register has the rules; this one carries its messages, waits and
// tries again.
package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/register"
	"etcdadm.io/internal/wake"
)

const (
	// messageTimeout is how long one keeper may take to answer, its disk included.
	messageTimeout = 2 * time.Second
	// askPatience is how long a read waits for keepers that are silent or disagree, before it asks them again, askTimes at most:
	// a write may be on its way, which the read's own round would end.
	askPatience = 300 * time.Millisecond
	askTimes    = 6
	// firstPause is what a writer waits at most that another one overtook; each further time twice as long, to mostPause.
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
	// MaxObject bounds an object, in bytes: two of them, in Base64, and many small ones fit a document.
	MaxObject = register.MaxDocument / 4
)

// ErrUnconfirmed says that hosts which keep the record are there and do not answer for it yet, because their disks are
// not confirmed.
var ErrUnconfirmed = errors.New("the disks of hosts that keep the record are not confirmed yet")

// ErrUnknown says that this host does not know yet who keeps the record.
var ErrUnknown = errors.New("this host does not know yet which hosts keep the cluster's record")

// Options say who keeps the record. All but Unsure and Rand are required.
type Options struct {
	// Known names the record, and those who keep it by the newest document that this host knows.
	Known func() (record string, keepers []register.Seat)
	// Say carries a message to a keeper: to this host's own as well. Its error says that no answer came.
	Say func(context.Context, register.Message) (register.Reply, error)
	// Unsure tells why this host proposes nothing: its disk may lack what was written on it. It reads what the keepers
	// have alike, and begins no round. A host that becomes unsure while it asks counts no answer. Nil: it is always
	// sure.
	Unsure func() error
	// Learned is told of each document that is known to be chosen. It must not block.
	Learned func(register.Entry)
	// Mint gives 128 random bits as text.
	Mint func() string
	// Now is this host's clock, for Modified.
	Now func() time.Time
	// Rand gives a time below the one that it is given: how long a writer that was overtaken waits. Nil: any, by chance.
	Rand func(time.Duration) time.Duration
}

// Store implements blob.Store. A daemon has one: proposals of one host that pass each other only hinder each other.
type Store struct {
	opt    Options
	writes chan struct{} // held by the writer
	reads  batch

	mu      sync.Mutex
	highest uint64 // ballot number; guarded by mu
	// open is the highest ballot of this host of which nobody knows whether it was chosen: the next read decides it, so that
	// what that does not give never comes true. Guarded by mu.
	open register.Ballot
	// silent says that the last attempt found no majority, or nobody to ask. Guarded by mu.
	silent bool
}

// New makes a store. Nothing is asked before the first call.
func New(o Options) *Store {
	if o.Unsure == nil {
		o.Unsure = func() error { return nil }
	}
	if o.Rand == nil {
		o.Rand = func(most time.Duration) time.Duration { return rand.N(most) }
	}
	return &Store{opt: o, writes: make(chan struct{}, 1)}
}

// Get implements blob.Store.
func (s *Store) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if err := blob.ValidateKey(key); err != nil {
		return nil, err
	}
	doc, err := s.counts(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", key, err)
	}
	object, ok := doc.Objects[key]
	switch {
	case !ok:
		return nil, fmt.Errorf("read %q: %w", key, blob.ErrNotFound)
	case o.IfNoneMatch != "" && o.IfNoneMatch == blob.ETag(object.Tag):
		return nil, fmt.Errorf("read %q: %w", key, blob.ErrNotModified)
	}
	return &blob.Object{
		Body: io.NopCloser(bytes.NewReader(object.Data)), ETag: blob.ETag(object.Tag),
		Size: int64(len(object.Data)), Modified: time.Unix(0, object.Modified),
	}, nil
}

// List implements blob.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	if err := blob.ValidatePrefix(prefix); err != nil {
		return nil, err
	}
	doc, err := s.counts(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %q: %w", prefix, err)
	}
	var out []blob.Info
	for key, o := range doc.Objects {
		if strings.HasPrefix(key, prefix) {
			out = append(out, blob.Info{Key: key, Size: int64(len(o.Data)), Modified: time.Unix(0, o.Modified)})
		}
	}
	slices.SortFunc(out, func(a, b blob.Info) int { return strings.Compare(a.Key, b.Key) })
	blob.Heard(ctx, len(out))
	return out, nil
}

// Put implements blob.Store. An object of more than [MaxObject] bytes gives blob.ErrTooLarge.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (blob.ETag, error) {
	if err := blob.ValidateKey(key); err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(body, MaxObject+1))
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("write %q: %w", key, ctx.Err())
	case err != nil:
		return "", fmt.Errorf("write %q: read what is to be written: %w", key, err)
	case len(data) > MaxObject:
		return "", fmt.Errorf("write %q: %w: the hosts of a cluster keep at most %d bytes an object", key, blob.ErrTooLarge, MaxObject)
	}
	w := &register.Write{Key: key, Object: &register.Object{Tag: s.opt.Mint(), Data: data, Modified: s.opt.Now().UnixNano()}}
	if cond != blob.Any {
		w.Holds = func(exists bool, tag string) bool { return cond.Holds(exists, blob.ETag(tag)) }
	}
	if err := s.write(ctx, w); err != nil {
		return "", fmt.Errorf("write %q: %w", key, err)
	}
	return blob.ETag(w.Object.Tag), nil
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := blob.ValidateKey(key); err != nil {
		return err
	}
	if err := s.write(ctx, &register.Write{Key: key}); err != nil {
		return fmt.Errorf("delete %q: %w", key, err)
	}
	return nil
}

// Document reads all that the record says.
func (s *Store) Document(ctx context.Context) (*register.Document, error) { return s.read(ctx) }

// Decide reads what the record says, and has it decided: a write whose outcome was not known, and that is not in what this
// gives, never takes effect. A read after a write of this store that ended so does it too; what another host left open, a
// daemon that begins to lead decides.
func (s *Store) Decide(ctx context.Context) (*register.Document, error) {
	return s.round(ctx, nil, func() {})
}

// ChangeKeepers makes a change of who keeps the record: one more or one less. It may be asked for more than one document, and
// gives nil where that has what is wanted, as after an attempt that it took for failed.
func (s *Store) ChangeKeepers(ctx context.Context, change register.Change) (*register.Document, error) {
	return s.round(ctx, change, func() {})
}

// MovedError says that the record is sealed: nothing of it counts any more, and it never changes again. It wraps
// register.ErrMoved, and is no blob.ErrNotFound: whoever asks for an object has to ask where the record is now.
type MovedError struct{ register.Moved }

func (e *MovedError) Error() string { return "the record was moved to " + e.Store }
func (e *MovedError) Unwrap() error { return register.ErrMoved }

// Seal ends the record: what it says from then on is where the next place is. It is sealed only while it is the document that the
// caller has looked at, and only if the gate of ctx lets the write go (see blob.While). A seal that is there already, with the
// same name, is this one.
//
// Errors: blob.ErrPreconditionFailed, nothing was sealed; [*MovedError], another place was named first. After any other error
// only [Store.Decide] tells whether it was sealed.
func (s *Store) Seal(ctx context.Context, seen *register.Document, m register.Moved) (*register.Document, error) {
	doc, err := s.round(ctx, func(base *register.Document) (*register.Document, error) {
		if !base.Same(seen) {
			return nil, blob.ErrPreconditionFailed
		}
		return base.Sealed(m)
	}, func() {})
	switch {
	case doc != nil && doc.Moved != nil && doc.Moved.To == m.To:
		return doc, nil
	case doc != nil && doc.Moved != nil:
		return nil, &MovedError{*doc.Moved}
	case err != nil:
		return nil, fmt.Errorf("seal the record: %w", err)
	}
	return doc, nil
}

// round is one operation that writes, one at a time.
func (s *Store) round(ctx context.Context, change register.Change, sent func()) (*register.Document, error) {
	select {
	case s.writes <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the write before: %w", ctx.Err())
	}
	defer func() { <-s.writes }()
	e, err := s.try(ctx, func(record string, known []register.Seat, b register.Ballot) (*register.Proposer, []register.Message) {
		return register.Round(record, known, b, change)
	}, sent)
	return e.Doc, err
}

func (s *Store) read(ctx context.Context) (*register.Document, error) {
	return s.reads.do(ctx, func(ctx context.Context) (*register.Document, error) {
		if s.leftOpen() {
			return s.Decide(ctx)
		}
		e, err := s.try(ctx, register.Read, func() {})
		return e.Doc, err
	})
}

// counts is what the record says, while it is the one that counts.
func (s *Store) counts(ctx context.Context) (*register.Document, error) {
	doc, err := s.read(ctx)
	if err == nil && doc.Moved != nil {
		return nil, &MovedError{*doc.Moved}
	}
	return doc, err
}

func (s *Store) write(ctx context.Context, w *register.Write) error {
	doc, err := s.round(ctx, w.Change, w.Sent)
	var large *register.TooLargeError
	switch {
	case doc != nil && doc.Moved != nil:
		return &MovedError{*doc.Moved}
	case errors.Is(err, register.ErrCondition):
		return blob.ErrPreconditionFailed
	case errors.As(err, &large):
		return fmt.Errorf("%w: %w", blob.ErrTooLarge, err)
	}
	return err
}

// try makes attempts until one ends with a result, or the time is up. Sent is told of each that may have been written.
func (s *Store) try(ctx context.Context, begin func(string, []register.Seat, register.Ballot) (*register.Proposer, []register.Message), tell func()) (register.Entry, error) {
	sent := false
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		var e register.Entry
		err := ErrUnknown
		if record, known := s.opt.Known(); record != "" && len(known) > 0 {
			ballot := register.Ballot{Number: s.above(0) + 1, Nonce: s.opt.Mint()}
			p, out := begin(record, known, ballot)
			s.carry(ctx, p, out)
			s.above(p.Highest())
			if p.Sent() {
				sent = true
				tell()
			}
			e, err = p.Result()
			if e.Doc != nil {
				s.hear(false)
				s.decided(e.Ballot)
				s.opt.Learned(e)
				return e, err
			}
			if p.Sent() {
				s.leave(ballot)
			}
			if errors.Is(err, register.ErrNoMajority) {
				_, silent := p.Answered()
				err = fmt.Errorf("%w: not among them: %s", err, names(silent))
			}
			// Hosts that wait for a word are no sign that the record is lost: they leave silent as it is.
			if waits := p.Unconfirmed(); errors.Is(err, register.ErrNoMajority) && len(waits) > 0 {
				err = fmt.Errorf("%w: %s. Start the agents of the other hosts; "+
					"or, if no older copy of its disk was put back: etcdadm host confirm-disk %s",
					ErrUnconfirmed, names(waits), cluster.ShellWord(string(waits[0].Host)))
			}
		}
		if errors.Is(err, register.ErrNoMajority) || errors.Is(err, ErrUnknown) {
			s.hear(true)
		}
		if errors.Is(err, register.ErrOvertaken) {
			// The one that overtook it is given time to end.
			if wake.After(ctx, s.opt.Rand(pause)+pause/4) {
				continue
			}
			err = fmt.Errorf("%w, and the time is up: %w", err, ctx.Err())
		}
		if sent { // never as an error that says that nothing was written
			err = fmt.Errorf("whether it was written is not known: %s", err.Error())
		}
		return e, err
	}
}

// Silent tells whether the last attempt found no majority of the keepers that this host knows: there may be newer ones.
func (s *Store) Silent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent
}

func (s *Store) hear(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
}

// leave takes note of a ballot that may have been chosen, or yet be.
func (s *Store) leave(b register.Ballot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Compare(s.open) > 0 {
		s.open = b
	}
}

// decided takes note of a ballot that was chosen: no lower one comes true after it.
func (s *Store) decided(b register.Ballot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Compare(s.open) >= 0 {
		s.open = register.Ballot{}
	}
}

func (s *Store) leftOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open != register.Ballot{}
}

// above raises the highest number that was seen, and gives it.
func (s *Store) above(n uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.highest = max(s.highest, n)
	return s.highest
}

func names(seats []register.Seat) string {
	var out []string
	for _, seat := range seats {
		out = append(out, string(seat.Host))
	}
	return strings.Join(out, ", ")
}
