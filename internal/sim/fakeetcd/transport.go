package fakeetcd

import (
	"slices"
	"strings"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"etcdadm.io/cluster"
)

// conn is what one process knows of its connection to a peer. Source: the
// peerStatus of rafthttp.
type conn struct {
	active bool
	since  time.Time // of activity; valid while active
	heard  time.Time // when both ways were last open
	stale  bool      // see Misjudge
}

// Misjudge has the process on a host count those that it is connected to now as
// away, until it ends: an old connection failed after the new one was made.
// Nothing sets that right (peerStatus in etcd's rafthttp).
func (n *Net) Misjudge(h cluster.HostID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.running(h); p != nil {
		p.connect()
		for _, c := range p.conns {
			c.active, c.stale = false, true
		}
	}
}

// peerURLs says where a process believes a member to be.
func (p *Proc) peerURLs(id cluster.MemberID) []string {
	if m := p.st.members[id]; m != nil {
		return m.PeerURLs
	}
	return p.learned[id]
}

// peer returns the process that answers for a member, if it is that member of this
// cluster; URLs of others refuse the handshake. One that cannot be dialled
// for the sake of TLS is reached all the same over the streams that it has dialled itself: raft's messages
// go both ways as long as one of the two finds the other. Source: rafthttp, whose
// writers wait for the other's stream, and post what has none.
func (p *Proc) peer(id cluster.MemberID) *Proc {
	if o := p.dials(id); o != nil {
		return o
	}
	for _, u := range p.peerURLs(id) {
		if o := p.net.atPort(u); o != nil && o.member == id && o.cluster == p.cluster && o.dials(p.member) == p {
			return o
		}
	}
	return nil
}

// dials returns the process that a connection to the member's peer URLs comes to.
func (p *Proc) dials(id cluster.MemberID) *Proc {
	for _, u := range p.peerURLs(id) {
		if o := p.net.at(u); o != nil && o.member == id && o.cluster == p.cluster && (p.trusts || !secure(u)) {
			return o
		}
	}
	return nil
}

func secure(url string) bool { return strings.HasPrefix(url, "https://") }

// address is a URL without its scheme.
func address(url string) string {
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	return rest
}

// send puts a raft message on its way.
func (p *Proc) send(m *raftpb.Message) {
	to := p.peer(cluster.MemberID(m.GetTo()))
	if to == nil || to.paused {
		p.unreached(m)
		return
	}
	delay, ok := p.net.link(p.host, to.host)
	if !ok {
		p.unreached(m)
		return
	}
	from := p.member
	urls := p.launch.URLs.Peer
	p.net.after(delay, func() {
		if to.exit != "" || to.paused {
			return
		}
		if to.st.removed[from] {
			p.gone(to)
			return
		}
		if to.peerURLs(from) == nil {
			to.learned[from] = urls
		}
		to.receive(m)
	})
}

// unreached tells raft that a peer is not there, as etcd's transport does.
func (p *Proc) unreached(m *raftpb.Message) {
	if m.GetType() != raftpb.MsgApp {
		return
	}
	id := m.GetTo()
	p.later(0, func() { p.guard(func() { p.rn.ReportUnreachable(id) }) })
}

// gone ends a process whose peer told it that it was removed. Source: rafthttp
// answers 410 Gone, and the server stops with errMemberRemoved.
func (p *Proc) gone(by *Proc) {
	if _, ok := p.net.link(by.host, p.host); !ok || p.leaving {
		return
	}
	p.leaving = true
	p.later(p.net.opt.Tick, func() { p.end("the member has been permanently removed from the cluster") })
}

// connect brings the health of the connections up to date. etcd redials every
// 100 ms; a closed connection is noticed at once, one whose packets are lost
// very late, and one to a paused process, whose kernel answers, never.
func (p *Proc) connect() {
	now := time.Now()
	known := p.st.list()
	if len(known) == 0 {
		for _, id := range sortedIDs(p.learned) {
			known = append(known, cluster.Member{ID: id})
		}
	}
	for _, m := range known {
		if m.ID == p.member {
			continue
		}
		c := p.conns[m.ID]
		if c == nil {
			c = &conn{}
			p.conns[m.ID] = c
		}
		o := p.peer(m.ID)
		if o != nil && o.st.removed[p.member] && p.net.linked(p.host, o.host) && !o.paused {
			p.gone(o)
		}
		switch {
		case o != nil && !o.paused && p.net.linked(p.host, o.host):
			c.heard = now
			if !c.active && !c.stale {
				c.active, c.since = true, now
			}
		case o != nil && o.paused && p.net.linked(p.host, o.host):
			c.heard = now
		case c.active && now.Sub(c.heard) > silentTimeout:
			c.active = false
		}
	}
	for id := range p.conns {
		if p.st.removed[id] {
			delete(p.conns, id)
		}
	}
}

// disconnected is the end of a peer's process, seen as a closed connection.
func (p *Proc) disconnected(id cluster.MemberID) {
	if c := p.conns[id]; c != nil {
		c.active = false
	}
}

func (p *Proc) connectedPeers() int {
	p.connect()
	n := 0
	for _, c := range p.conns {
		if c.active {
			n++
		}
	}
	return n
}

// connectedSince counts the given members that have been connected for the
// health interval, itself included. Source: numConnectedSince.
func (p *Proc) connectedSince(members []cluster.Member) int {
	p.connect()
	since := time.Now().Add(-healthInterval)
	n := 0
	for _, m := range members {
		c := p.conns[m.ID]
		if m.ID == p.member || (c != nil && c.active && c.since.Before(since)) {
			n++
		}
	}
	return n
}

// longestConnected is where leadership goes at a graceful stop; zero: nowhere.
func (p *Proc) longestConnected() cluster.MemberID {
	var best cluster.MemberID
	var oldest time.Time
	for _, m := range p.st.voters() {
		c := p.conns[m.ID]
		if m.ID == p.member || c == nil || !c.active {
			continue
		}
		if best == 0 || c.since.Before(oldest) {
			best, oldest = m.ID, c.since
		}
	}
	return best
}

func sortedIDs[V any](m map[cluster.MemberID]V) []cluster.MemberID {
	ids := make([]cluster.MemberID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
