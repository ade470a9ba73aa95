// Package keeper is one host's part of a record that the hosts of a cluster keep: its file, which is replaced and synced as a
// whole before anything of it is answered. What to answer, package register says.
package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
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
	// turnTimeout bounds the wait for the change before, which may wait for a disk.
	turnTimeout = 2 * time.Second
)

var (
	// ErrNone says that this host keeps no record, and never did as far as its disk tells.
	ErrNone = errors.New("this host keeps no record")
	// ErrOther says that this host keeps another record.
	ErrOther = errors.New("this host keeps another record")
)

// file is what lies on the disk.
type file struct {
	Format int             `json:"format"`
	Keeper register.Keeper `json:"keeper"`
}

// Keeper is this host's part. One process has it: the lock of the data directory is held. Its methods may be called from
// several goroutines; they wait for each other, and for the disk.
type Keeper struct {
	path string
	disk durable.Disk
	turn chan struct{} // held by who reads or changes what follows
	// state is what the file holds. Nil: there is none.
	state *register.Keeper
	// doubt says that a write failed: what the file holds is read and written again before anything is answered.
	doubt bool
}

// Open reads the file of a state directory. One that is missing is a host without a record; one that cannot be read is an
// error, and never taken for a missing one.
func Open(dir string, disk durable.Disk) (*Keeper, error) {
	k := &Keeper{path: filepath.Join(dir, FileName), disk: disk, turn: make(chan struct{}, 1)}
	return k, k.read()
}

func (k *Keeper) read() error {
	data, err := regular.Read(k.path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		k.state, k.doubt = nil, false
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the part of the record that this host keeps: %w", err)
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("the part of the record that this host keeps, %s, cannot be understood: %w", k.path, err)
	}
	if f.Format != format {
		return fmt.Errorf("the part of the record that this host keeps, %s, is of format %d, and this release reads %d", k.path, f.Format, format)
	}
	k.state, k.doubt = &f.Keeper, false
	return nil
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

// write makes a state durable, and has it. It ends when the disk does.
func (k *Keeper) write(next register.Keeper) error {
	data, err := json.Marshal(file{Format: format, Keeper: next})
	if err != nil {
		return err
	}
	if err := k.disk.Replace(k.path, data, mode); err != nil {
		k.doubt = true // the new content may be there, or the old one
		return fmt.Errorf("write the part of the record that this host keeps: %w", err)
	}
	k.state, k.doubt = &next, false
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
	doc, err := register.Found(mint(), register.Seat{Host: host, Keeper: mint()}, objects)
	if err != nil {
		return nil, err
	}
	founder, err := register.Founder(doc)
	if err != nil {
		return nil, err
	}
	return doc, k.write(founder)
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
	seat := register.Seat{Host: host, Keeper: mint()}
	return seat, k.write(register.NewKeeper(seat, record))
}

// Handle answers a message. What the answer says is durable; an error is no answer.
func (k *Keeper) Handle(ctx context.Context, m register.Message) (register.Reply, error) {
	done, err := k.take(ctx)
	if err != nil {
		return register.Reply{}, err
	}
	defer done()
	if k.state == nil {
		return register.Reply{}, ErrNone
	}
	next, reply := k.state.Handle(m)
	if next == *k.state {
		return reply, nil
	}
	if err := k.write(next); err != nil {
		return register.Reply{}, err
	}
	return reply, nil
}

// Learned keeps a document that is known to be chosen, so that this host finds the keepers again after it was away.
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
	if next == *k.state {
		return nil
	}
	return k.write(next)
}

// Known names the record, and its keepers by the newest document that this host has. Without one it is [ErrNone].
func (k *Keeper) Known(ctx context.Context) (record string, keepers []register.Seat, err error) {
	done, err := k.take(ctx)
	if err != nil {
		return "", nil, err
	}
	defer done()
	if k.state == nil {
		return "", nil, ErrNone
	}
	newest := k.state.Chosen
	if a := k.state.Accepted; a.Doc != nil && (newest.Doc == nil || a.Doc.Version > newest.Doc.Version) {
		newest = a // whom to ask is no secret of what was chosen
	}
	if newest.Doc == nil {
		return k.state.Record, nil, nil
	}
	return k.state.Record, newest.Doc.Keepers, nil
}
