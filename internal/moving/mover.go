package moving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
)

const (
	// keyMove announces a move in the record. Nobody seals a record whose announcement is not its own: a mover that paused finds
	// that of the next one.
	keyMove = control.Prefix + "etcdadm-move.json"
	// settleTimeout bounds the wait for what goes on in the cluster to end, and settleEvery is how often that is looked at.
	settleTimeout, settleEvery = time.Minute, time.Second
	// offersLast is how old an offer may be when the record is sealed, claimLasts the look at the claim: by the mover's clock.
	offersLast, claimLasts = time.Minute, 5 * time.Second
	// offerTimeout bounds an offer to one host, which opens the store and tries it out.
	offerTimeout = 9 * time.Second
	// sealTries bounds how often the seal is tried over a record that changes meanwhile.
	sealTries = 5
	// decideTimeout bounds the question what became of a seal, and finishTimeout the bringing of the record.
	decideTimeout, finishTimeout = 15 * time.Second, time.Minute
)

// Record is a record that hosts keep.
type Record interface {
	blob.Store
	Decide(context.Context) (*register.Document, error)
	Seal(ctx context.Context, seen *register.Document, m register.Moved) (*register.Document, error)
}

// Mover moves the record of a cluster to a store, on the host whose daemon leads.
type Mover struct {
	Cluster string // its name
	// Record is the one that the hosts keep; nil: it is in the store.
	Record Record
	// Store is the one that the record is in.
	Store func() blob.Store
	Mint  func() string // random names
	// Leads is why this daemon does not lead, nil if it does. It waits for nothing.
	Leads func() error
	// Hosts are all hosts that are known, this one too.
	Hosts func() []cluster.HostID
	// Offer makes an offer to a host.
	Offer func(context.Context, cluster.HostID, peer.Offer) (peer.OfferReply, error)
	// Open opens a store, with its variables and no others.
	Open func(context.Context, peer.Offer) (blob.Store, error)
	// Followed notes on this host that the record is there.
	Followed func(name string) error
	// Go runs a move beside its question; it goes with the daemon, which waits for that. Nil: it outlives whoever asks.
	Go func(move func(context.Context))

	mu    sync.Mutex
	last  peer.MoveRequest // guarded by mu
	reply peer.MoveReply   // guarded by mu
}

// Ask begins a move, or says how far the one of this name is. It does not wait for its end.
func (m *Mover) Ask(ctx context.Context, r peer.MoveRequest) peer.MoveReply {
	if r.DryRun {
		if err := m.try(ctx, r); err != nil {
			return peer.MoveReply{Refused: err.Error()}
		}
		return peer.MoveReply{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch under, same := m.under(r); {
	case r.Name == "" || (r.URL == "") != r.Hosts:
		return peer.MoveReply{Refused: "the question is not whole"}
	case r.Name == m.last.Name, same:
		return m.told()
	case under:
		return peer.MoveReply{Refused: "a move to another store is under way here: wait for its end"}
	}
	m.last, m.reply = r, peer.MoveReply{}
	run := func(ctx context.Context) { m.run(ctx, r) }
	if m.Go != nil {
		m.Go(run)
	} else {
		go run(context.WithoutCancel(ctx))
	}
	return m.told()
}

// under tells whether a move is under way, and whether it is the one of a question: who was interrupted asks by another name.
func (m *Mover) under(r peer.MoveRequest) (is, same bool) {
	is = m.last.Name != "" && m.reply.Refused == "" && !m.reply.Done
	return is, is && r.URL == m.last.URL && r.Hosts == m.last.Hosts
}

func (m *Mover) told() peer.MoveReply {
	out := m.reply
	out.Steps = slices.Clone(out.Steps)
	return out
}

func (m *Mover) step(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reply.Steps = append(m.reply.Steps, fmt.Sprintf(format, args...))
}

// ErrMaybe says that the record may be sealed: nothing may be done to the store.
var ErrMaybe = errors.New("whether the record was moved is not known: leave the store as it is, and run the command again once a majority of the hosts answers")

// ErrSealed says that the record was moved, and is not there yet.
var ErrSealed = errors.New("the record is sealed, and every host brings it into the store as soon as it can: leave the store as it is")

func (m *Mover) run(ctx context.Context, r peer.MoveRequest) {
	move := m.Move
	if r.Hosts {
		move = m.Home
	}
	err := move(ctx, r)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.reply.Refused, m.reply.Unknown = err.Error(), errors.Is(err, ErrMaybe) || errors.Is(err, ErrSealed) || errors.Is(err, ErrLeft)
	}
	m.reply.Done, m.last.Variables = err == nil, nil
}

// try is what can be looked at beforehand. Nothing is written.
func (m *Mover) try(ctx context.Context, r peer.MoveRequest) error {
	if err := m.Leads(); err != nil {
		return err
	}
	m.mu.Lock()
	_, same := m.under(r)
	m.mu.Unlock()
	if same { // it goes on
		return nil
	}
	if r.Hosts {
		_, _, _, err := m.stored(ctx, m.Store())
		return err
	}
	doc, err := m.Record.Decide(ctx)
	if err != nil {
		return err
	}
	if _, err := ready(doc); err != nil {
		return err
	}
	store, err := m.Open(ctx, peer.Offer{URL: r.URL, Variables: r.Variables})
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	there, exists, _, err := read(ctx, store)
	switch {
	case err != nil:
		return fmt.Errorf("read the store: %w", err)
	case exists && (there == nil || !there.replaceable(Claim{Cluster: m.Cluster, From: doc.Record}, before(doc))):
		return fmt.Errorf("%w: it has a created marker. Give an empty folder", ErrTaken)
	}
	return Alone(ctx, store)
}

// Move moves the record. What goes wrong before the seal leaves it where it is, and the command is run again.
func (m *Mover) Move(ctx context.Context, r peer.MoveRequest) error {
	var doc *register.Document
	var in *cluster.Intent
	err := m.settle(ctx, func(ctx context.Context) (err error) {
		if doc, err = m.Record.Decide(ctx); err == nil {
			in, err = ready(doc)
		}
		return err
	})
	if err != nil {
		return err
	}
	o := peer.Offer{Name: r.Name, From: doc.Record, URL: r.URL, Variables: r.Variables}
	m.step("open the store")
	opening, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	store, err := m.Open(opening, o)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	if doc, err = m.announce(ctx, o); err != nil {
		return err
	}
	o.At = doc.Version
	m.step("claim the store")
	claim := Claim{Nonce: r.Name, Generation: in.Generation, Cluster: m.Cluster, To: o.Name, From: o.From}
	claiming, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	if err := Make(claiming, store, claim, before(doc)); err != nil {
		return fmt.Errorf("claim the store: %w", err)
	}
	began := time.Now()
	hosts := m.known(doc, in)
	m.step("offer it to %d hosts, each of which opens it by itself", len(hosts))
	kept, err := m.offer(ctx, hosts, o)
	if err != nil {
		return err
	}
	m.step("seal the record that the hosts keep")
	if doc, err = m.seal(ctx, offered{store, o, hosts, kept, began}); err != nil {
		return err
	}
	m.step("bring the record into the store")
	finishing, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	if err := Finish(finishing, doc, m.Cluster, store); err != nil {
		return fmt.Errorf("%w (%w)", ErrSealed, err)
	}
	return m.Followed(o.Name)
}

// known are all hosts that the record, its intent or this host knows of.
func (m *Mover) known(doc *register.Document, in *cluster.Intent) []cluster.HostID {
	out := slices.Clone(m.Hosts())
	for _, s := range doc.Keepers {
		out = append(out, s.Host)
	}
	for _, v := range in.Voters {
		if v.Host != "" {
			out = append(out, v.Host)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// before are the records that this one was made again from.
func before(doc *register.Document) (out []string) {
	for _, o := range doc.Before {
		out = append(out, o.Record)
	}
	return out
}

// announced is what the record says of a move that is under way.
type announced struct {
	To    string `json:"to"`
	Store string `json:"store"`
}

// announce writes into the record that this move is under way, and gives the record with that. From then on no earlier mover seals it.
func (m *Mover) announce(ctx context.Context, o peer.Offer) (*register.Document, error) {
	data, err := json.Marshal(announced{To: o.Name, Store: shown(o.URL)})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(blob.While(ctx, m.Leads), decideTimeout)
	defer cancel()
	if _, err := blob.PutBytes(ctx, m.Record, keyMove, data, blob.Any); err != nil {
		return nil, fmt.Errorf("announce the move in the record: %w", err)
	}
	doc, err := m.Record.Decide(ctx)
	if err != nil {
		return nil, err
	}
	_, err = own(doc, o)
	return doc, err
}

// own tells why a record is not that of this move; nil: it is, and may be moved.
func own(doc *register.Document, o peer.Offer) (*cluster.Intent, error) {
	in, err := ready(doc)
	if err != nil {
		return nil, err
	}
	var a announced
	if err := json.Unmarshal(doc.Objects[keyMove].Data, &a); err != nil || a.To != o.Name || doc.Record != o.From {
		return nil, errors.New("another move began after this one: run the command again")
	}
	return in, nil
}

// offered is a store that all hosts have the offer of.
type offered struct {
	store blob.Store
	to    peer.Offer
	hosts []cluster.HostID
	kept  peer.OfferReply // the newest intent that one of them keeps
	began time.Time       // before the first of them took it
}

// offer has every host take the offer, and gives the newest intent that one of them keeps.
func (m *Mover) offer(ctx context.Context, hosts []cluster.HostID, o peer.Offer) (kept peer.OfferReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	replies := make([]peer.OfferReply, len(hosts))
	var all sync.WaitGroup
	for i, h := range hosts {
		all.Go(func() {
			reply, err := m.Offer(ctx, h, o)
			if err != nil {
				reply.Refused = fmt.Sprintf("host %s cannot take part (%v): bring it back or update its agent; one that is gone for good: if it has a member, etcdadm member replace first; then etcdadm host forget %s", h, err, cluster.ShellWord(string(h)))
			}
			replies[i] = reply
		})
	}
	all.Wait()
	for _, r := range replies {
		switch {
		case r.Refused != "":
			return kept, errors.New(r.Refused)
		case r.Generation > kept.Generation || r.Generation == kept.Generation && r.Write > kept.Write:
			kept = r
		}
	}
	return kept, nil
}

// seal ends the record, while it is that of this move, all known hosts have the offer, and the store the claim.
func (m *Mover) seal(ctx context.Context, at offered) (*register.Document, error) {
	moved := register.Moved{To: at.to.Name, Store: shown(at.to.URL), At: time.Now().UnixNano()}
	for range sealTries {
		doc, err := m.look(ctx, at)
		if err != nil {
			return nil, err
		}
		looked := time.Now()
		sealing, cancel := context.WithTimeout(blob.While(ctx, func() error { return m.maySeal(at, looked) }), decideTimeout)
		sealed, err := m.Record.Seal(sealing, doc, moved)
		cancel()
		switch {
		case err == nil:
			return sealed, nil
		case errors.Is(err, blob.ErrPreconditionFailed): // nothing was sent
			continue
		case errors.Is(err, register.ErrMoved):
			return nil, err
		}
		return m.became(ctx, at.to, err)
	}
	return nil, errors.New("the record changes all the time: run the command again")
}

// shown is a store's URL without its parameters.
func shown(url string) string {
	before, _, _ := strings.Cut(url, "?")
	return before
}

// look is the record to be sealed, and a look at the claim.
func (m *Mover) look(ctx context.Context, at offered) (*register.Document, error) {
	ctx, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	doc, err := m.Record.Decide(ctx)
	if err != nil {
		return nil, err
	}
	in, err := own(doc, at.to)
	switch {
	case err != nil:
		return nil, err
	case in.Generation < at.kept.Generation || in.Generation == at.kept.Generation && in.Write < at.kept.Write:
		return nil, errors.New("a host keeps a newer intent than the record has: wait until the record has it, then run the command again")
	}
	claim, _, _, err := read(ctx, at.store)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the store: %w", err)
	case claim == nil || claim.To != at.to.Name || claim.From != at.to.From || claim.Void:
		return nil, ErrNoClaim
	}
	return doc, Alone(ctx, at.store)
}

// maySeal is asked right before the seal is sent, and asks nobody.
func (m *Mover) maySeal(at offered, looked time.Time) error {
	if err := m.Leads(); err != nil {
		return err
	}
	for _, h := range m.Hosts() {
		if !slices.Contains(at.hosts, h) {
			return fmt.Errorf("host %s came meanwhile: run the command again", h)
		}
	}
	if passed(looked) > claimLasts || passed(at.began) > offersLast {
		return errors.New("it took too long: run the command again")
	}
	return nil
}

// passed is the time since then by both clocks: one stands still while the machine sleeps, and one may be set.
func passed(at time.Time) time.Duration {
	return max(time.Since(at), time.Now().Round(0).Sub(at.Round(0)))
}

// became finds out what became of a seal. A round decides: what that does not give never comes true.
func (m *Mover) became(ctx context.Context, o peer.Offer, cause error) (*register.Document, error) {
	ctx, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	doc, err := m.Record.Decide(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrMaybe, cause)
	case doc.Moved != nil && doc.Moved.To == o.Name:
		return doc, nil
	}
	if doc.Moved != nil {
		return nil, fmt.Errorf("%w (to %s, by another command)", ErrSealed, doc.Moved.Store)
	}
	return nil, fmt.Errorf("the record was not moved: %w", cause)
}
