package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/open"
	"etcdadm.io/internal/discovery"
	"etcdadm.io/internal/keeping"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/moving"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/register"
)

// partMoves is the part of a daemon that goes where the record is moved to.
const partMoves = "moves"

// partMover is a move that is under way: what it writes is this daemon's, and no later one's.
const partMover = "a move of the record"

// moves is this daemon's part in moves of the record between its hosts and a store. The zero value has none.
type moves struct {
	host     func() cluster.HostID
	seeds    discovery.Seeds
	insecure bool   // the daemons talk without TLS
	store    string // the record's URL, as people may see it
	follower *moving.Follower
	mover    *moving.Mover
	// left is the part in keeping a record that was moved: its last value is told to whoever comes late. Nil: there is none.
	left *keeping.Part
	part *keeping.Part // the part in keeping the record, where the hosts keep it
	// asks is a part that asks the others, on a host of a shared store.
	asks func(context.Context) *keeping.Part
}

// placed is where the record was moved to, whatever the daemon was started with: that cannot know it. The variables of the place are used
// as one set; where the settings name the very place, they are a person's, and go before.
func placed(n moving.Notes, dataDir, started string) (url string, elsewhere bool) {
	switch {
	case n.Place == nil || n.Place.URL == started:
		return started, false
	case n.Place.AtHosts():
		return kept.URL(dataDir), kept.URL(dataDir) != started
	}
	reachedBy(n.Place.Variables)
	return n.Place.URL, true
}

// environment is held while a store is opened with other variables than those of this process.
var environment sync.Mutex

// renewals numbers the openings with other credentials.
var renewals atomic.Uint64

// proxy tells whether a variable is how this host reaches anything: that is never another host's.
func proxy(name string) bool { return strings.HasSuffix(name, "_PROXY") }

// shared is the environment by which a joiner reaches the store, and not that of an offer which is being looked at.
func shared() map[string]string {
	environment.Lock()
	defer environment.Unlock()
	return open.Environment(os.Environ())
}

// reachedBy has this process reach a store by these variables and no others, and gives back how it was. A proxy is this host's own.
func reachedBy(variables map[string]string) (undo func()) {
	was := map[string]string{}
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); open.Variable(name) && !proxy(name) {
			was[name] = value
			_ = os.Unsetenv(name)
		}
	}
	for name, value := range variables {
		if !proxy(name) {
			_ = os.Setenv(name, value) // no system refuses such a name
		}
	}
	return func() {
		for name := range variables {
			if !proxy(name) {
				_ = os.Unsetenv(name)
			}
		}
		for name, value := range was {
			_ = os.Setenv(name, value)
		}
	}
}

// openOffered opens a store by an offer.
func openOffered(ctx context.Context, o peer.Offer) (blob.Store, error) {
	environment.Lock()
	defer environment.Unlock()
	defer reachedBy(o.Variables)()
	return open.Open(ctx, o.URL, open.Options{Anew: renewals.Add(1)})
}

// answer answers what is asked of moves, and nothing else.
func (m *moves) answer(ctx context.Context, c peer.Caller, r peer.KeepRequest) (peer.KeepReply, error) {
	person := c.Identity.Role != pki.RoleHost
	switch {
	case r.Move != nil && !person, r.Offer != nil && person:
		return peer.KeepReply{}, fmt.Errorf("%w: a person asks for a move, and a host offers it", peer.ErrRole)
	case r.Move != nil:
		reply := m.move(ctx, *r.Move)
		return peer.KeepReply{Move: &reply}, nil
	}
	reply := m.follower.Take(ctx, *r.Offer)
	return peer.KeepReply{Offer: &reply}, nil
}

// move begins a move, or says how far it is.
func (m *moves) move(ctx context.Context, r peer.MoveRequest) peer.MoveReply {
	if r.Reclaim {
		return m.reclaim(ctx, r)
	}
	if p := m.follower.File.Notes().Place; !r.Hosts && p != nil && p.URL == r.URL {
		return peer.MoveReply{Done: p.InForce}
	}
	switch byHosts := m.follower.Home == nil; {
	case byHosts && r.Hosts:
		return peer.MoveReply{Done: true}
	case !byHosts && !r.Hosts:
		return peer.MoveReply{Refused: "the record is in the shared store " + m.store + ": move it to the hosts first, by etcdadm store set --none"}
	case open.InKubernetes(r.URL):
		return peer.MoveReply{Refused: "ConfigMaps hold a record and no backups, and a move takes both to one place: give another store"}
	case SecretIn(r.URL):
		return peer.MoveReply{Refused: "the URL seems to have a credential in it: set the variables of the store instead"}
	case m.insecure && len(r.Variables) > 0:
		return peer.MoveReply{Refused: "the daemons talk without TLS, so that no credentials are given to them: unset the variables of the store here, and see that each host reaches it by itself"}
	}
	return m.mover.Ask(ctx, r)
}

// reclaim has the claim of the sealed record in its next place again, unless a host keeps a record that was made again from it.
func (m *moves) reclaim(ctx context.Context, r peer.MoveRequest) peer.MoveReply {
	part := cmp.Or(m.left, m.part)
	if part == nil {
		return peer.MoveReply{Refused: "this host keeps nothing of a record that was moved: run the command on one that says record-moved"}
	}
	if why := part.MadeAgain(ctx, r.Lost); why != "" {
		return peer.MoveReply{Refused: why}
	}
	wait, err := m.follower.Reclaim(ctx, r.URL, r.Name, r.DryRun)
	switch {
	case err != nil:
		return peer.MoveReply{Refused: err.Error()}
	case wait:
		return peer.MoveReply{Steps: []string{"look whether a recovery goes on there: 10 s"}}
	}
	return peer.MoveReply{Done: true}
}

// whatIsLeft answers for the record that this host kept before it was moved.
func (m *moves) whatIsLeft(ctx context.Context, c peer.Caller, r peer.KeepRequest) (peer.KeepReply, error) {
	if m.left == nil || r.Again != nil || r.Enrol != "" {
		return peer.KeepReply{}, errors.New("this cluster has a shared store, and its hosts keep nothing of it")
	}
	if p := m.follower.File.Notes().Place; p != nil && c.Record == p.Name { // it followed as this one did, and asks of the time before
		c.Record = m.left.Record()
	}
	if !r.Where {
		if last := m.left.Newest(ctx); r.Message != nil && (last == nil || last.Moved == nil) { // the store was in force: what it kept is over
			return peer.KeepReply{}, register.ErrMoved
		}
		return m.left.Answer(ctx, c, r)
	}
	reply, err := m.left.Answer(ctx, c, r)
	if err != nil {
		return reply, err
	}
	if reply.Newest == nil || reply.Newest.Doc.Moved == nil {
		reply.Newest, reply.Chosen, reply.Keepers, reply.Seat = nil, nil, nil, nil
	}
	reply.Place = m.follower.File.Notes().Place.Name
	reply.Intent, err = m.follower.Intent(ctx)
	return reply, err
}

// mayStart is asked after a boot, before the member is started.
func (m *moves) mayStart(ctx context.Context, part *keeping.Part) (*cluster.Intent, error) {
	if m.follower == nil || m.follower.Home == nil {
		return part.MayStart(ctx)
	}
	to := m.follower.LeftTo(ctx)
	if m.left == nil && to == "" {
		return nil, nil
	}
	return m.asks(ctx).Beyond(ctx, to), nil
}

// forgets is told that this disk went back: it keeps no record by what it promised before.
func (m *moves) forgets(ctx context.Context, part *keeping.Part) error {
	if err := part.Forget(ctx); err != nil || m.follower == nil {
		return err
	}
	return m.follower.File.Forget()
}

// goesHome tells whether this host has an open offer of the hosts' record: while the store is silent that may count already.
func (m *moves) goesHome() bool { return m.follower != nil && m.follower.File.Notes().Offer.AtHosts() }

// given are the endpoints that this host was given.
func (m *moves) given(ctx context.Context) []string {
	if m.seeds == nil {
		return nil
	}
	found, _ := m.seeds.Seeds(ctx) // with an error they are good too, and silence is consent
	var out []string
	for _, s := range found {
		out = append(out, s.Endpoint)
	}
	return out
}

// record names the place that this host is at in its calls, "" for none.
func (m *moves) record(part *keeping.Part) func() string {
	if part != nil {
		return part.Record
	}
	return func() string {
		if m.follower == nil {
			return ""
		}
		return cmp.Or(m.follower.Home.Left(), m.follower.Name())
	}
}

// called is what this host names as its record in calls: one that is in a store has a name only once it was moved there.
func (m *moves) called(part *keeping.Part) func() string {
	name, none := m.record(part), peer.InStore
	if part != nil {
		none = "" // it joins
	}
	return func() string { return cmp.Or(name(), none) }
}

// heard is told which record another host names.
func (m *moves) heard(record string) {
	if record != peer.InStore && m.follower != nil && m.follower.Home != nil && record != m.record(nil)() {
		m.follower.Home.Heard(record)
	}
}

// arrived is the folder's store: until the record was seen where it was moved to, nothing there is a record, or its absence.
func (m *moves) arrived(store blob.Store) blob.Store {
	if m.follower == nil || m.follower.Arrived() {
		return store
	}
	return moving.Gate(store, m.follower.Arrived)
}
