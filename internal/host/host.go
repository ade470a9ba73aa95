package host

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"log/slog"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/host/evidence"
	"etcdadm.io/internal/host/first"
	"etcdadm.io/internal/host/inventory"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/host/settings"
	"etcdadm.io/internal/host/takeover"
	"etcdadm.io/internal/host/work"
	"etcdadm.io/internal/wake"
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

	// Variables are those that the daemon's environment has for etcd, as NAME=VALUE.
	Variables []string

	Disk    Disk
	Process Process
	// Member reaches a member launched like this.
	Member  func(record.Launch) (member.Member, error)
	Intents first.Intents
	Reacher Reacher
	// Sources makes sources of generations ready and takes backups; nil: this
	// host does neither.
	Sources bulk.Sources
	// AuthorityKeys reports whether this host holds the keys of the authorities; nil: not known.
	AuthorityKeys func() *bool
	// Decrypts reports whether this host has a secret key for encrypted backups
	// now; nil: it has none.
	Decrypts func() bool
	// Problems are what the daemon knows of this host beside its member, for people; it never
	// waits. Nil: nothing.
	Problems func() []cluster.Problem
	// PeerTLS is how the member of a token and the others take each other's certificates;
	// it never waits. Nil, or nil from it: that is not known, or they speak without.
	PeerTLS func(token string) *cluster.PeerTLS
	// Authorities are whom this host trusts; it never waits, and its value is not changed any more. Nil, or nil from
	// it: there is no TLS.
	Authorities func() *cluster.HostAuthorities
	// Trusts grows with each change of whom this host trusts: the own member is connected to anew. Nil: it never changes.
	Trusts func() uint64
	// PruneAfter is how long what was set aside of a removed member is kept at
	// least, before a leader may have it pruned (SAFETY.md, rule 22); zero: for ever.
	PruneAfter time.Duration
	// Settings are the daemon's choices that ought to be those of every host.
	Settings []cluster.HostSetting
	// AskPeers asks the other hosts what they remember of this one, and
	// returns the answers that came by the end of the context, or sooner when
	// no more are to be expected: those are waited for in any case. Nil: there is nobody to ask.
	AskPeers func(ctx context.Context, those []cluster.HostID) []cluster.Ping

	// Elsewhere is another daemon under this host's ID, as those that AskPeers asks hear it at this moment; nil: none. It
	// never waits. Nil: that is not known.
	Elsewhere func() *cluster.Elsewhere

	// MayStart is asked before the member is started for the first time after a boot, when none was found running: an error says
	// why it must not be started yet, and is asked again every 10 s. An intent that is given is kept first: it may supersede
	// the member. It answers by the end of the context. Nil: nobody is asked.
	MayStart func(context.Context) (*cluster.Intent, error)

	// Forgets is asked before a host whose disk went back goes on as a new disk: what else on it rests on promises is to forget
	// them for good. After an error the host does not go on, and asks again later. Nil: nothing else does.
	Forgets func(context.Context) error

	// Promoted reads from the store whether a member that joined a cluster which
	// something else runs was, or is about to be, made a voter; nil: it cannot be told.
	Promoted func(context.Context, cluster.MemberID) (bool, error)

	// Files keep what this host was granted of pauses; nil: it takes none.
	Files record.Files

	Mint func() string // random and never the same; nil: 128 bits from crypto/rand
	Log  *slog.Logger  // nil: slog.Default
}

// obstacle is why the host starts nothing at its boot, and what is done about it. The zero value is none.
type obstacle struct{ why, hint string }

// Host is this machine. Make one with New, run it with Run; every method may
// be called at any time and from any goroutine.
type Host struct {
	*sinceStart
	*record.Memory // of other hosts, the spec, and how far the member got
	keeper         *record.Keeper
	notes          *record.Notes
	work           *work.Supervisor
	member         *member.Client
	upkeep         *member.Upkeep
	inventory      *inventory.Inventory
	staging        *bulk.Staging
	backups        *bulk.Backups
	logs           *bulk.Logs
	takeover       *takeover.TakeOver
	settings       *settings.Settings
	evidence       *evidence.Evidence
	fences         *Fences
	pauses         *record.Pauses

	o       Options
	looking chan struct{} // held to look at the data directory for an observation
	changes chan struct{}

	mu       sync.Mutex // guards what follows; never held across a call to a port
	changeNo uint64
	blocked  obstacle // why nothing is started beside what was found at the start
	answered int      // PID of the process whose member answered with its ID
	// answeredRestarts is how often it had been restarted then.
	answeredRestarts int
}

// Own is the own member as it was launched last, and whether it is in quarantine; an error: there is none.
func (h *Host) Own() (m member.Member, quarantined bool, err error) { return h.member.Own() }

// Alarms are those that the own member tells of, by itself; false: it does not answer.
func (h *Host) Alarms(ctx context.Context) ([]string, bool) { return h.member.Alarms(ctx) }

// Listed is the members that raft's own list has, by the own member; false: it is not known.
func (h *Host) Listed(ctx context.Context) ([]cluster.Member, bool) { return h.member.Listed(ctx) }

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
	wake.Up(h.changes) // one that was not yet read tells of this change as well
}

// Identity never waits, not even for the disk.
func (h *Host) Identity() record.Identity {
	s := h.keeper.Now()
	h.mu.Lock()
	changes := h.changeNo
	h.mu.Unlock()
	id := record.Identity{
		Host: h.o.ID, Disk: s.Disk, Epoch: h.Told(s), Promised: s.Promised, Changes: changes,
		Generation: s.Newest(), Asks: !h.Asked(), Unsure: !h.Sure(),
	}
	if broken := h.keeper.Broken(); broken != nil {
		id.Unfit = broken.Sentence
	}
	return id
}

// PruneAside removes a directory that was set aside, by its name, when a person asks for it, and
// says what it was (see [inventory.Inventory.PruneAsked]).
func (h *Host) PruneAside(ctx context.Context, name string) (cluster.SetAside, error) {
	return h.inventory.PruneAsked(ctx, name)
}
