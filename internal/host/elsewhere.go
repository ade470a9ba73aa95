package host

import (
	"context"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/wake"
)

const (
	// askTimeout bounds the wait for what peers remember; they ping every 100 ms
	// after a start, and it costs a lone host that much at each boot.
	askTimeout = 2 * time.Second
	// elsewherePatience is how long a boot waits at once for another daemon of its disk to be gone: one that ended right
	// before is, by then.
	elsewherePatience = 8 * time.Second
	// callsTimeout is how long a host waits for calls of others that it cannot ask: they call a host that has been silent every 5 s, and
	// one call takes a second at most.
	callsTimeout = 6 * time.Second
	// look is how often it looks meanwhile.
	look = 100 * time.Millisecond
	// elsewhereSince is how long after the start of this daemon another one has to be heard to have been there beside it: an
	// earlier word may be a late one of the daemon before.
	elsewhereSince = 4 * time.Second
)

// asking is what a daemon that begins asks the others: what they remember of its disk, and who uses it now
// (docs/adr/037-two-daemons-with-one-disk.md).
type asking struct {
	peers     func(context.Context, []cluster.HostID) []cluster.Ping // nil: there is nobody to ask
	of        []cluster.HostID                                       // who is waited for
	elsewhere func() *cluster.Elsewhere                              // nil: that is not known
	began     time.Time                                              // this daemon
	awaits    func(string)
	memory    *record.Memory // is told what they say
}

// settle asks, and waits for another daemon under this host's ID to be gone, and gives it if it is there still. Of one that was there after
// this daemon began, the disk as this one sees it may lack what that one did.
func (a asking) settle(ctx context.Context, self cluster.HostID, starts bool) (used *cluster.Elsewhere) {
	a.ask(ctx)
	if starts {
		a.calls(ctx, self)
	}
	if a.elsewhere == nil {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, elsewherePatience)
	defer cancel()
	for waited := false; ; waited = true {
		e := a.elsewhere()
		if e == nil && waited {
			a.ask(ctx)
		}
		if e == nil {
			return nil
		}
		if time.Since(a.began)-e.Ago > elsewhereSince {
			a.memory.FallBehind()
		}
		a.awaits("the daemon at " + e.Endpoint + ", which uses this host's disk, to end")
		if !wake.After(waiting, look) {
			return e
		}
	}
}

// ask asks the others once, for askTimeout at most.
func (a asking) ask(ctx context.Context) {
	if a.peers == nil {
		return
	}
	a.awaits("the other daemons' record of its disk")
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	a.memory.Remember(a.peers(ctx, a.of))
}

// calls waits for a call of whoever remembers the disk and has no address here, so that it could not be asked: a voter's host, or, on
// a disk of the first minutes, all others.
func (a asking) calls(ctx context.Context, self cluster.HostID) {
	peers := a.memory.Peers()
	known := func(h cluster.HostID) bool {
		return h == self || slices.ContainsFunc(peers, func(p record.Peer) bool { return p.Host == h && p.Address != "" })
	}
	if a.peers == nil || len(peers) > 0 && !slices.ContainsFunc(a.of, func(h cluster.HostID) bool { return !known(h) }) {
		return
	}
	a.awaits("a call of the other hosts, of which it has no address: within " + callsTimeout.String())
	ctx, cancel := context.WithTimeout(ctx, callsTimeout)
	defer cancel()
	for a.memory.Disk() == record.DiskUnconfirmed && wake.After(ctx, look) {
	}
}
