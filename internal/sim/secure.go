package sim

import (
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

const (
	// withTLS is the share of the seeds in which TLS is turned on between members.
	withTLS = 0.25
	// secureBegins is where the numbers of a seed for them begin.
	secureBegins = 1 << 38
)

// secure has a person turn TLS on: from some time on daemons are restarted with it,
// one after the other, and now and then one without it again.
func (g *generator) secure() {
	x := &g.secures
	if g.foreign.on && !g.w.adopted() { // its URLs are theirs until then
		return
	}
	if !g.turning {
		if g.turning = x.next().chance(0.3); !g.turning {
			return
		}
		g.w.tracef("", "TLS is being turned on")
	}
	ms := g.up()
	m := ms[x.next().below(len(ms))]
	plain := x.next().chance(0.1)
	kill, pause := x.next().chance(0.3), x.next().within(10*time.Millisecond, 3*time.Second)
	if m.plain.Load() == plain {
		return
	}
	g.w.count(map[bool]string{true: "daemons restarted without TLS", false: "daemons restarted with TLS"}[plain])
	g.w.loops.Go(func() { g.w.restartWith(m, plain, kill, pause) })
}

// peerTLS is the one authority for peers of all daemons with TLS.
func (d *daemon) peerTLS(string) *cluster.PeerTLS {
	if !d.trusts {
		return nil
	}
	return &cluster.PeerTLS{File: "etcd-peers-ca.crt", Fingerprint: "AA"}
}

// restartWith restarts a machine's daemon with TLS or without; its etcd runs on.
func (w *World) restartWith(m *machine, plain, kill bool, pause time.Duration) {
	w.tracef(m.ID(), "the daemon is restarted (plain: %t)", plain)
	if kill {
		w.KillDaemon(m)
	} else {
		w.StopDaemon(m)
	}
	m.plain.Store(plain && !w.secured.Load())
	if w.sleep(w.ctx, pause) {
		w.Start(m)
	}
}

// secureAll is the end of it: all daemons that are not yet are restarted with TLS.
func (g *generator) secureAll() {
	if !g.secures.on || !g.turning {
		return
	}
	g.w.secured.Store(true)
	for _, m := range g.up() {
		if d := m.daemon.Load(); m.plain.Load() || d != nil && !d.trusts {
			g.w.apart()
			g.w.restartWith(m, false, true, time.Second)
		}
	}
}

// insecure says which voter is listed otherwise than its host wants it; empty: none.
func (w *World) insecure(voters []cluster.Member) string {
	for _, v := range voters {
		m := w.carrier(v.ID)
		if m == nil {
			continue
		}
		if slices.ContainsFunc(v.PeerURLs, func(u string) bool { return strings.HasPrefix(u, "http://") != m.plain.Load() }) {
			return "voter " + v.Name + " is listed at " + strings.Join(v.PeerURLs, ",")
		}
		if s, _ := m.state(); s.Launch != nil && !slices.Equal(s.Launch.URLs.Peer, v.PeerURLs) {
			return "voter " + v.Name + " listens at " + strings.Join(s.Launch.URLs.Peer, ",") + " and is listed at " + strings.Join(v.PeerURLs, ",")
		}
	}
	return ""
}
