package host

import (
	"context"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/wake"
)

const (
	// askTimeout bounds the wait for what peers remember; they ping every 100 ms
	// after a start, and it costs a lone host that much at each boot.
	askTimeout = 2 * time.Second
	// elsewherePatience is how long a boot waits at once for another daemon of its disk to be gone: one that ended right
	// before is, by then.
	elsewherePatience = 8 * time.Second
	// elsewhereLook is how often it looks meanwhile.
	elsewhereLook = 100 * time.Millisecond
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
	// beside is told that another daemon was there after this one began: what that one did since this one read the disk, the
	// disk as this one sees it may lack.
	beside func()
}

// settle waits for another daemon under this host's ID to be gone, and gives it if it is there still.
func (a asking) settle(ctx context.Context) (told []cluster.Ping, used *cluster.Elsewhere) {
	told = a.ask(ctx)
	if a.elsewhere == nil {
		return told, nil
	}
	waiting, cancel := context.WithTimeout(ctx, elsewherePatience)
	defer cancel()
	for waited := false; ; waited = true {
		e := a.elsewhere()
		if e == nil && waited {
			return a.ask(ctx), nil
		}
		if e == nil {
			return told, nil
		}
		if time.Since(a.began)-e.Ago > elsewhereSince {
			a.beside()
		}
		a.awaits("the daemon at " + e.Endpoint + ", which uses this host's disk, to end")
		if !wake.After(waiting, elsewhereLook) {
			return told, e
		}
	}
}

// ask asks the others once, for askTimeout at most.
func (a asking) ask(ctx context.Context) []cluster.Ping {
	if a.peers == nil {
		return nil
	}
	a.awaits("the other daemons' record of its disk")
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return a.peers(ctx, a.of)
}
