// Package keeper is one host's part of a record that the hosts of a cluster keep: its file, which is replaced and synced as a
// whole before anything of it is answered. What to answer, package register says.
package keeper

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/register"
	"etcdadm.io/internal/regular"
)

const (
	// FileName is the file in the state directory of a host.
	FileName = "record-keeper.json"
	// format numbers what the file holds. A higher one is a later release's, and answers nothing here.
	format = 1
	// maxFile bounds the file, in bytes: up to two documents, and what is around them.
	maxFile = 3 * register.MaxDocument
	mode    = 0o600
	// maxLook is how old a look at the other hosts may be when the record is made again.
	maxLook = 5 * time.Second
	// turnTimeout bounds the wait for the change before, which may wait for a disk.
	turnTimeout = time.Second
)

var (
	// ErrNone says that this host keeps no record, and never did as far as its disk tells.
	ErrNone = errors.New("this host keeps no record")
	// ErrOther says that this host keeps another record.
	ErrOther = errors.New("this host keeps another record")
)

// file is what lies on the disk.
type file struct {
	Format int `json:"format"`
	// Sum is the SHA-256 of the rest: a digit that a disk changed would be a promise.
	Sum    string          `json:"sum"`
	Keeper json.RawMessage `json:"keeper"`
}

// Medium is what the files of a keeper lie on.
type Medium interface {
	// Read gives a file. One that is not there is fs.ErrNotExist, and no other error is.
	Read(path string) ([]byte, error)
	// Replace replaces a file as a whole, and makes it durable. After an error the former content may be there, or the new one.
	Replace(path string, data []byte) error
}

// onDisk is the file system of the host.
type onDisk struct{ disk durable.Disk }

func (d onDisk) Read(path string) ([]byte, error)       { return regular.Read(path, maxFile) }
func (d onDisk) Replace(path string, data []byte) error { return d.disk.Replace(path, data, mode) }

// Keeper is this host's part. One process has it: the lock of the data directory is held. Its methods may be called from
// several goroutines; they wait for each other, and for the disk.
type Keeper struct {
	path string
	on   Medium
	turn chan struct{} // held by who reads or changes what follows
	// state is what the file holds. Nil: there is none.
	state *register.Keeper
	// doubt says that a write failed: what the file holds is read and written again before anything is answered.
	doubt bool
	// minted is the seat that this process minted last: whatever was forgotten of the disk, nothing was promised by
	// that seat before.
	minted register.Seat
	// record is the name of the record in state, for whoever must not wait for a disk.
	record atomic.Pointer[string]
	// written is the newest chosen document in the file. Nil: none.
	written *register.Document
}

// Open reads the file of a state directory. One that is missing is a host without a record; one that cannot be read is an
// error, and never taken for a missing one.
func Open(dir string, disk durable.Disk) (*Keeper, error) { return OpenOn(dir, onDisk{disk}) }

// OpenOn is [Open] on another medium.
func OpenOn(dir string, on Medium) (*Keeper, error) {
	k := &Keeper{path: filepath.Join(dir, FileName), on: on, turn: make(chan struct{}, 1)}
	if err := k.read(); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *Keeper) read() error {
	data, err := k.on.Read(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		k.have(nil)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the part of the record that this host keeps: %w", err)
	}
	state, err := Decode(data)
	if err != nil {
		return fmt.Errorf("the part of the record that this host keeps, %s, cannot be understood: %w", k.path, err)
	}
	k.have(&state)
	return nil
}

// Decode is what a keeper's file says.
func Decode(data []byte) (state register.Keeper, err error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return state, err
	}
	if f.Format != format {
		return state, fmt.Errorf("it is of format %d, and this release reads %d", f.Format, format)
	}
	if sum(f.Keeper) != f.Sum {
		return state, errors.New("it is not what was written")
	}
	if err := json.Unmarshal(f.Keeper, &state); err != nil {
		return state, err
	}
	if why := state.Check(); why != "" {
		return state, errors.New(why)
	}
	return state, nil
}

// have takes over what the file holds.
func (k *Keeper) have(state *register.Keeper) {
	k.state, k.doubt, k.written = state, false, nil
	if state != nil {
		k.written = state.Chosen.Doc
	}
	name := ""
	if state != nil {
		name = state.Record
	}
	k.record.Store(&name)
}

// Record names the record that this host keeps, "" for none. It waits for nothing.
func (k *Keeper) Record() string { return *k.record.Load() }

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// take waits for the turn. What a failed write left is settled first.
func (k *Keeper) take(ctx context.Context) (done func(), err error) {
	timer := time.NewTimer(turnTimeout)
	defer timer.Stop()
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, fmt.Errorf("the disk of %s has not answered the write before", k.path)
	}
	if k.doubt {
		if err := k.settle(); err != nil {
			<-k.turn
			return nil, err
		}
	}
	return func() { <-k.turn }, nil
}

// settle finds out what a failed write left, and makes it durable: what can be read may be in memory only.
func (k *Keeper) settle() error {
	if err := k.read(); err != nil || k.state == nil {
		return err
	}
	return k.write(*k.state)
}

// encode is the file of a state.
func encode(state register.Keeper) ([]byte, error) {
	content, err := json.Marshal(state)
	if err != nil {
		return nil, err
	}
	return json.Marshal(file{Format: format, Sum: sum(content), Keeper: content})
}

// write makes a state durable, and has it. It ends when the disk does.
func (k *Keeper) write(next register.Keeper) error {
	data, err := encode(next)
	if err != nil {
		return err
	}
	if err := k.on.Replace(k.path, data); err != nil {
		k.doubt = true // the new content may be there, or the old one
		return fmt.Errorf("write the part of the record that this host keeps: %w", err)
	}
	k.have(&next)
	return nil
}

// Found makes a new record that this host keeps alone. A host that keeps one already is not changed: [ErrOther].
func (k *Keeper) Found(ctx context.Context, host cluster.HostID, mint func() string, objects map[string]register.Object) (*register.Document, error) {
	done, err := k.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if k.state != nil {
		return nil, fmt.Errorf("%w: %s", ErrOther, k.state.Record)
	}
	doc, err := register.Found(mint(), k.seat(host, mint), objects)
	if err != nil {
		return nil, err
	}
	founder, err := register.Founder(doc)
	if err != nil {
		return nil, err
	}
	if err := k.write(founder); err != nil {
		return nil, err
	}
	return doc, nil
}

// State is what this host keeps. Without a record it is [ErrNone].
func (k *Keeper) State(ctx context.Context) (register.Keeper, error) {
	done, err := k.take(ctx)
	if err != nil {
		return register.Keeper{}, err
	}
	defer done()
	if k.state == nil {
		return register.Keeper{}, ErrNone
	}
	return *k.state, nil
}

// Again makes a record that this host keeps alone, in the place of the one of base, which it keeps now: see [register.Again].
// Base is the newest that any host has, by a look that began at the given time: an old one is refused, since another host may
// have made the record again meanwhile. What this host kept is set aside.
//
// Errors: [ErrOther].
func (k *Keeper) Again(ctx context.Context, mint func() string, looked time.Time, base register.Entry, lost []cluster.HostID, leave func(key string) bool) (*register.Document, error) {
	done, err := k.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	switch {
	case k.state == nil:
		return nil, ErrNone
	case base.Doc == nil || base.Doc.Record != k.state.Record:
		return nil, fmt.Errorf("%w: %s", ErrOther, k.state.Record)
	case k.state.Newest().Compare(base) > 0:
		return nil, errors.New("the record was changed meanwhile: run the command again")
	case lookedLongAgo(looked):
		return nil, fmt.Errorf("more than %s passed since the other hosts were asked: run the command again", maxLook)
	}
	doc, err := register.Again(mint(), k.seat(k.state.Seat.Host, mint), base, lost, mint, leave)
	if err != nil {
		return nil, err
	}
	founder, err := register.Founder(doc)
	if err != nil {
		return nil, err
	}
	return doc, k.instead(founder)
}

// lookedLongAgo tells by both clocks: one that stands still while the machine sleeps, and one that may be set.
func lookedLongAgo(at time.Time) bool {
	return time.Since(at) > maxLook || time.Now().Round(0).Sub(at.Round(0)) > maxLook
}

// Follow has this host go over to the record of a document that is known to be chosen there: see [register.Keeper.Follows].
// What it kept is set aside.
func (k *Keeper) Follow(ctx context.Context, mint func() string, shown register.Entry) error {
	done, err := k.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	if k.state == nil {
		return ErrNone
	}
	next, err := k.state.Follow(k.seat(k.state.Seat.Host, mint), shown)
	if err != nil {
		return err
	}
	return k.instead(next)
}

// Begin has this host keep the record of a first document that counts now (see register.Begin). What it kept is set aside. Again it does
// nothing, also where it went over to a record that was made again from that: what it promised since stays, unless the disk may have
// forgotten some of it.
func (k *Keeper) Begin(ctx context.Context, host cluster.HostID, forgot bool, mint func() string, first *register.Document) error {
	done, err := k.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	next := register.Seated(first, host, forgot, func() string { return k.seat(host, mint).Keeper })
	if k.state == nil {
		return k.write(next)
	}
	again := false
	if doc := k.state.Newest().Doc; doc != nil {
		_, again = doc.From(first.Record)
	}
	if (k.state.Record == first.Record || again) && !forgot {
		return nil
	}
	return k.instead(next)
}

// Renew makes this host another keeper of the same record, which promised nothing: what it promised before, its disk may have
// forgotten. What it kept is set aside. Errors: [ErrNone].
func (k *Keeper) Renew(ctx context.Context, mint func() string) error {
	done, err := k.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	if k.state == nil {
		return ErrNone
	}
	next := register.NewKeeper(k.seat(k.state.Seat.Host, mint), k.state.Record)
	next.Chosen = k.state.Chosen // it was chosen, and says whom to ask
	return k.instead(next)
}

// instead has another keeper in the place of the one that is. A copy of that stays beside it.
func (k *Keeper) instead(next register.Keeper) error {
	data, err := encode(*k.state)
	if err == nil {
		err = k.on.Replace(k.path+"."+k.state.Record, data)
	}
	if err != nil {
		return fmt.Errorf("set the part of the record that this host kept aside: %w", err)
	}
	return k.write(next)
}

// Enrol makes this host ready to keep a record that names it afterwards, and gives its seat: a new ID, of which nothing was
// ever promised. One that is ready already keeps its ID. A host of another record is not changed: [ErrOther].
func (k *Keeper) Enrol(ctx context.Context, host cluster.HostID, record string, mint func() string) (register.Seat, error) {
	done, err := k.take(ctx)
	if err != nil {
		return register.Seat{}, err
	}
	defer done()
	switch {
	case k.state != nil && k.state.Record != record:
		return register.Seat{}, fmt.Errorf("%w: %s", ErrOther, k.state.Record)
	case k.state != nil && k.state.Seat.Host == host:
		return k.state.Seat, nil
	case k.state != nil:
		return register.Seat{}, fmt.Errorf("the part of the record on this disk is of host %s, and this is %s", k.state.Seat.Host, host)
	}
	seat := k.seat(host, mint)
	return seat, k.write(register.NewKeeper(seat, record))
}

// Handle answers a message. What the answer says is durable; an error is no answer. It ends with ctx, and a write that the disk
// holds up goes on.
func (k *Keeper) Handle(ctx context.Context, m register.Message) (register.Reply, error) {
	done, err := k.take(ctx)
	if err != nil {
		return register.Reply{}, err
	}
	if k.state == nil {
		done()
		return register.Reply{}, ErrNone
	}
	next, reply := k.state.Handle(m)
	if m.Kind == register.Learn && !ends(*k.state, next) || next == *k.state { // what is known to be chosen may lag on the disk: it goes with the next write
		k.state = &next
		done()
		return reply, nil
	}
	written := make(chan error, 1)
	go func() {
		defer done()
		written <- k.write(next)
	}()
	select {
	case err := <-written:
		if err != nil {
			return register.Reply{}, err
		}
		return reply, nil
	case <-ctx.Done():
		return register.Reply{}, ctx.Err()
	}
}

// Learned takes note of a document that is known to be chosen. Where it names other keepers than the last one on the disk it is
// written, so that this host finds them again after it was away.
func (k *Keeper) Learned(ctx context.Context, e register.Entry) error {
	done, err := k.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	if k.state == nil {
		return ErrNone
	}
	next, _ := k.state.Handle(register.Message{Kind: register.Learn, Record: k.state.Record, To: k.state.Seat, Entry: e})
	if ends(*k.state, next) {
		return k.write(next)
	}
	k.state = &next
	if k.written != nil && next.Chosen.Doc != nil && slices.Equal(k.written.Keepers, next.Chosen.Doc.Keepers) {
		return nil // and not as the state in memory has them, which may be ahead of the file
	}
	return k.write(next)
}

// Last has this host keep a sealed document as the last one of its record, durably: it answers with it and accepts nothing else
// after. Errors: [ErrNone]; [ErrOther].
func (k *Keeper) Last(ctx context.Context, e register.Entry) error {
	done, err := k.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	switch {
	case k.state == nil:
		return ErrNone
	case e.Doc == nil || e.Doc.Moved == nil || e.Doc.Record != k.state.Record:
		return fmt.Errorf("%w: %s", ErrOther, k.state.Record)
	}
	next := k.state.Last(e)
	if next == *k.state {
		return nil
	}
	return k.write(next)
}

// ends tells whether a keeper hears for the first time how its record ends. That is never left to the next write: there may be none.
func ends(was, next register.Keeper) bool {
	last := next.Chosen.Doc
	return last != nil && last.Moved != nil && !last.Same(was.Chosen.Doc)
}

// Objects are those of the document that this host accepted last, for looking at a host whose daemon does not run: whether
// they were chosen, it cannot know.
func (k *Keeper) Objects(ctx context.Context) (map[string]register.Object, error) {
	done, err := k.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if k.state == nil || k.state.Accepted.Doc == nil {
		return nil, ErrNone
	}
	return k.state.Accepted.Doc.Objects, nil
}
