package moving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/hosts"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
)

// HostsURL is the URL in an offer of the hosts as the place: each keeps its part below its own data directory.
const HostsURL = "hosts:"

// leaving is what the created marker of a store shows that a record leaves: frozen while its objects are read, and then sealed. An earlier
// release takes neither for an intent, nor for etcd-manager's marker.
type leaving struct {
	Nonce      string `json:"nonce"`      // of this freeze
	Generation uint64 `json:"generation"` // the intent's
	Cluster    string `json:"name"`
	// Moving is the name of the record that the hosts are to keep.
	Moving string `json:"moving"`
	// Moved seals the store: it is its last marker.
	Moved bool `json:"moved,omitempty"`
	// Intent is the marker from before.
	Intent json.RawMessage `json:"intent"`
}

// readLeaving gives the marker of a store that a record leaves; nil: it is something else, or absent.
func readLeaving(ctx context.Context, store blob.Store) (*leaving, blob.ETag, error) {
	data, tag, err := blob.ReadAll(ctx, store, control.KeyIntent, maxObject)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var l leaving
	if d.Decode(&l) != nil || l.Moving == "" || l.Nonce == "" || l.Generation == 0 || len(l.Intent) == 0 {
		return nil, tag, nil
	}
	return &l, tag, nil
}

func (l leaving) put(ctx context.Context, store blob.Store, tag blob.ETag) (blob.ETag, error) {
	data, err := json.Marshal(l)
	if err != nil {
		return "", err
	}
	return blob.PutBytes(ctx, store, control.KeyIntent, data, blob.IfMatch(tag))
}

// thaw ends a freeze: the intent is the marker again, counted once more, so that no write of before fits it. ErrPreconditionFailed: the
// marker is another one by now.
func (l leaving) thaw(ctx context.Context, store blob.Store, tag blob.ETag) error {
	in, err := l.next()
	if err != nil {
		return err
	}
	_, err = blob.PutBytes(ctx, store, control.KeyIntent, in, blob.IfMatch(tag))
	return err
}

// next is the intent of before, counted once more.
func (l leaving) next() ([]byte, error) {
	var in cluster.Intent
	if err := json.Unmarshal(l.Intent, &in); err != nil {
		return nil, fmt.Errorf("read the intent of the frozen store: %w", err)
	}
	in.Write++
	return json.MarshalIndent(in, "", "  ")
}

// Thaw ends the freeze of a mover that is gone. It does nothing to a store that is not frozen, or is sealed. The nonce is that of the
// freeze, empty for none.
func Thaw(ctx context.Context, store blob.Store, nonce string) (frozen string, err error) {
	l, tag, err := readLeaving(ctx, store)
	switch {
	case err != nil || l == nil || l.Moved:
		return "", err
	case l.Nonce != nonce:
		return l.Nonce, nil
	}
	return nonce, l.thaw(ctx, store, tag)
}

// Home moves the record from the store to the hosts. What goes wrong before the seal leaves it in the store.
func (m *Mover) Home(ctx context.Context, _ peer.MoveRequest) error {
	store := m.Store()
	var in *cluster.Intent
	var l leaving
	var tag blob.ETag
	err := m.settle(ctx, func(ctx context.Context) (err error) {
		in, l, tag, err = m.freeze(ctx, store)
		return err
	})
	if err != nil {
		return err
	}
	sealed, err := m.home(ctx, store, l, tag, in)
	if err != nil && !sealed {
		thawing, cancel := context.WithTimeout(context.WithoutCancel(ctx), decideTimeout)
		defer cancel()
		if failed := l.thaw(thawing, store, tag); failed != nil && !errors.Is(failed, blob.ErrPreconditionFailed) {
			return fmt.Errorf("%w; the store is frozen until the leading daemon has thawed it (%w)", err, failed)
		}
	}
	return err
}

// freeze has nobody write the record from here on. Whoever wrote it since the look came first, and it is looked at again.
func (m *Mover) freeze(ctx context.Context, store blob.Store) (*cluster.Intent, leaving, blob.ETag, error) {
	in, data, tag, err := m.stored(ctx, store)
	if err == nil {
		err = Able(ctx, store)
	}
	if err != nil {
		return nil, leaving{}, "", err
	}
	m.step("freeze the store while its objects are read")
	l := leaving{Nonce: m.Mint(), Generation: in.Generation, Cluster: m.Cluster, Moving: m.Mint(), Intent: data} // of two freezes each has a record of its own
	ctx, cancel := context.WithTimeout(blob.While(ctx, m.Leads), decideTimeout)
	defer cancel()
	switch tag, err = l.put(ctx, store, tag); {
	case errors.Is(err, blob.ErrPreconditionFailed):
		return nil, leaving{}, "", &NotReadyError{"the record was written just now"}
	case err != nil: // one that arrives late is thawed by whoever leads
		return nil, leaving{}, "", fmt.Errorf("freeze the store: %w", err)
	}
	return in, l, tag, nil
}

// stored is the intent in the store, if it may be moved now.
func (m *Mover) stored(ctx context.Context, store blob.Store) (*cluster.Intent, []byte, blob.ETag, error) {
	switch l, _, err := readLeaving(ctx, store); {
	case err != nil:
		return nil, nil, "", fmt.Errorf("read the record: %w", err)
	case l != nil && l.Moved:
		return nil, nil, "", fmt.Errorf("%w: etcdadm store status", ErrLeft)
	case l != nil:
		return nil, nil, "", &NotReadyError{"the store is frozen for a move that began before, and is thawed within a minute if that has ended"}
	}
	data, tag, err := blob.ReadAll(ctx, store, control.KeyIntent, maxObject)
	if err != nil {
		return nil, nil, "", fmt.Errorf("read the record: %w", err)
	}
	folder := control.New(store, m.Cluster)
	if _, _, _, err := folder.ReadIntent(ctx); err != nil {
		return nil, nil, "", err
	}
	if spec, err := folder.ReadSpec(ctx); err == nil && spec.Spec != nil && spec.Spec.AutoRecoverAfter > 0 {
		return nil, nil, "", errors.New("the settings beside the spec have autoRecoverAfter, which needs a shared store: take it out of control/etcd-cluster-spec-etcdadm.json first")
	}
	in, err := movable(data)
	if err == nil {
		err = emptyQueue(ctx, store)
	}
	return in, data, tag, err
}

// emptyQueue tells whether no command is queued: commands are waited for, never copied.
func emptyQueue(ctx context.Context, store blob.Store) error {
	infos, err := store.List(blob.Whole(ctx), control.Prefix)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(infos, func(i blob.Info) bool { return control.IsCommand(i.Key) }) {
		return &NotReadyError{"a command is in the queue"}
	}
	return nil
}

// home is what is done while the store is frozen. Sealed: it is over, or may be.
func (m *Mover) home(ctx context.Context, store blob.Store, l leaving, tag blob.ETag, in *cluster.Intent) (sealed bool, err error) {
	reading, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	if err := emptyQueue(reading, store); err != nil {
		return false, err
	}
	first, err := m.first(reading, store, l, in)
	if err != nil {
		return false, err
	}
	o := peer.Offer{Name: l.Moving, From: l.Nonce, At: in.Write + 1, URL: HostsURL, First: first}
	at := offered{store: store, to: o, hosts: m.known(first, in), began: time.Now()}
	m.step("offer the record to %d hosts", len(at.hosts))
	kept, err := m.offer(ctx, at.hosts, o)
	switch {
	case err != nil:
		return false, err
	case kept.Generation > in.Generation || kept.Generation == in.Generation && kept.Write > in.Write:
		return false, errors.New("a host keeps a newer intent than the store has: wait until the store has it, then run the command again")
	}
	m.step("seal the record in the store")
	l.Moved = true
	looked := time.Now()
	sealing, cancel := context.WithTimeout(blob.While(ctx, func() error { return m.maySeal(at, looked) }), decideTimeout)
	defer cancel()
	if _, err := l.put(sealing, store, tag); err != nil {
		if err := m.leftAs(ctx, store, l, tag, err); err != nil {
			return errors.Is(err, ErrMaybe) || errors.Is(err, ErrLeft), err
		}
	}
	if err := m.Followed(l.Moving); err != nil {
		return true, fmt.Errorf("%w (%w)", ErrLeft, err)
	}
	return true, nil
}

// ErrLeft says that the store is sealed, and that this daemon has not followed the record to the hosts.
var ErrLeft = errors.New("the record was moved to the hosts, and each follows as soon as it can: leave the store as it is")

// leftAs finds out what became of a seal, nil if it is there. What is frozen still is thawed, so that a seal which comes late fits nothing.
func (m *Mover) leftAs(ctx context.Context, store blob.Store, l leaving, tag blob.ETag, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	for {
		there, now, err := readLeaving(ctx, store)
		switch {
		case err != nil:
			return fmt.Errorf("%w (%w)", ErrMaybe, cause)
		case there != nil && there.Moved && there.Moving == l.Moving:
			return nil
		case there != nil && there.Moved:
			return fmt.Errorf("%w (by another command)", ErrLeft)
		case there == nil || there.Nonce != l.Nonce || now != tag:
			return fmt.Errorf("the record was not moved: %w", cause)
		}
		switch err := there.thaw(ctx, store, now); {
		case err == nil:
			return fmt.Errorf("the record was not moved: %w", cause)
		case !errors.Is(err, blob.ErrPreconditionFailed):
			return fmt.Errorf("%w (%w)", ErrMaybe, cause)
		}
	}
}

// first is the first document of the record that the hosts are to keep: with all that the frozen store has, kept by the voters' hosts.
func (m *Mover) first(ctx context.Context, store blob.Store, l leaving, in *cluster.Intent) (*register.Document, error) {
	intent, err := l.next()
	if err != nil {
		return nil, err
	}
	now := time.Now().UnixNano()
	objects := map[string]register.Object{control.KeyIntent: {Tag: m.Mint(), Data: intent, Modified: now}}
	for _, key := range control.Fixed {
		data, _, err := blob.ReadAll(ctx, store, key, maxObject)
		switch {
		case errors.Is(err, blob.ErrNotFound):
		case err != nil:
			return nil, err
		case len(data) > hosts.MaxObject: // it could not be written again there
			return nil, fmt.Errorf("%s has %d bytes, and hosts keep objects of %d at most", key, len(data), hosts.MaxObject)
		default:
			objects[key] = register.Object{Tag: m.Mint(), Data: data, Modified: now}
		}
	}
	var seats []register.Seat
	for _, v := range in.Voters {
		if v.Host != "" && len(seats) < register.MaxKeepers && !slices.ContainsFunc(seats, func(s register.Seat) bool { return s.Host == v.Host }) {
			seats = append(seats, register.Seat{Host: v.Host, Keeper: m.Mint()})
		}
	}
	return register.Begin(l.Moving, seats, objects)
}
