package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// world is a small ideal world for the planner: hosts, one etcd cluster per
// generation, and a backup store. It turns itself into an Observation and
// carries actions out at once and without fail, but as strictly as the real
// ones: a host starts only on evidence, a membership call needs its guard, and
// etcd's own checks refuse what etcd would refuse. Time passes only by
// [world.advance].
type world struct {
	now      time.Time
	spec     *cluster.Spec
	specGap  string            // why the spec cannot be read; empty: it can
	standing *cluster.Standing // what is left of it then
	store    worldStore
	hosts    []*worldHost // sorted by ID
	clusters []*worldCluster
	leader   cluster.HostID
	auth     bool // etcd's authentication is on, and the daemons have root's certificate
	fence    cluster.Fence
	memory   cluster.Memory
	handed   *cluster.Intent // what the leader hands to the hosts, beside what it sees
	minted   int
	queue    worldQueue
	pauses   worldPauses
	wrong    string // two voters may be away by what was done; empty: no
	manual   worldManual
	underWay *decision.Action // decided on, and not carried out yet
	told     cluster.Upkeep
}

type worldStore struct {
	silent        bool
	unconditional bool
	joining       bool
	marker        bool
	intent        *cluster.Intent
	origin        *cluster.Origin
}

// worldHost is a host as it is. The embedded state holds what is durable; the
// flags say what is wrong with it.
type worldHost struct {
	cluster.HostState
	down       bool             // machine off: neither daemon nor member answers
	why        string           // no: it runs, and what its daemon and its member say is not understood (odds), or it is heard and does not answer (heard), or refuses to (refused)
	promised   cluster.Fence    // what it says that it promised, when it refuses
	gap        string           // kind of the gap when the daemon does not answer; the member runs on
	at         cluster.OpKind   // what it carries out, when it is busy
	late       bool             // it should have ended
	unpromised bool             // the daemon answers without a promise
	dead       bool             // the member's process does not run, whatever the daemon does
	stuck      bool             // the member never catches up
	reading    bool             // its log is large, and still being read
	strange    string           // the authority of peers that it has instead of the others'
	damaged    bool             // etcd cannot read its data
	vanished   bool             // the files are gone under the running process
	balks      bool             // it refuses to start a member, and does not say why before
	hung       bool             // the process runs and answers nothing
	deaf       bool             // it has its part in raft, and answers its host nothing
	held       bool             // something holds the data: it cannot be moved
	auth       bool             // etcd asks for a credential that the daemon has not
	behind     int              // looks until it has caught up
	quiet      int              // looks until a member that was just started serves
	db         worldDB          // its member's database
	keys       uint32           // what a hash of its member's keys gives
	keysFrom   int64            // up to that revision or a later one
	slowHash   bool             // a hash is begun and does not end
	ended      cluster.Progress // the end of its log, when the machine went off
	jammed     bool             // what was set aside cannot be removed
	v2         bool             // its log holds requests of version 2 of the API
	plain      bool             // it runs etcd without TLS
	cannotRun  []string         // the releases that end at their start
	balksAt    string           // the option with which its member ends at its start
	before     *[]string        // the options before, until the member served with the new ones
	given      time.Time        // when it got these
	skew       time.Duration
	address    int  // how often it moved
	slowCA     bool // it does not follow a rotation of the authorities for now
	staleCA    bool // it follows, and goes on with the leaves that it has
	keylessCA  bool // it follows, and gets no key of a next authority
}

// peerTLS is whom the member of a host rejects, once any of them has another authority.
func (w *world) peerTLS(h *worldHost) *cluster.PeerTLS {
	t := &cluster.PeerTLS{File: "/pki/etcd-peers-ca.crt", Fingerprint: cmp.Or(h.strange, "AA:AA"), Cert: "/data/me.crt"}
	any := false
	for _, o := range w.hosts {
		any = any || o.strange != ""
		if o.strange != h.strange && o.Local.Member != 0 {
			t.Rejects = append(t.Rejects, cluster.Rejection{Member: o.Local.Member, Authority: true, Why: "x509: certificate signed by unknown authority"})
		}
	}
	if !any && h.plain {
		return nil
	}
	return t
}

// worldCluster is etcd: the members of one cluster ID.
type worldCluster struct {
	id         cluster.ClusterID
	generation uint64
	members    []cluster.Member
	leader     cluster.MemberID
	term       uint64
	index      uint64
	minted     int

	alarms    []string
	compacted int64
	rehashed  int // hashes that were made

	agreed      cluster.Version // the line that the members have agreed on
	downgrading cluster.Version // zero: no downgrade is under way
	formats     map[cluster.MemberID]cluster.Version
	sticks      bool // the members do not agree on anything new
}

var worldEpoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newWorld() *world {
	return &world{now: worldEpoch}
}

func (w *world) host(id cluster.HostID) *worldHost {
	for _, h := range w.hosts {
		if h.Host == id {
			return h
		}
	}
	return nil
}

// addHost brings a new machine with an empty disk.
func (w *world) addHost(id cluster.HostID, releases ...cluster.Version) *worldHost {
	w.minted++
	h := &worldHost{HostState: cluster.HostState{
		Host: id, Disk: cluster.DiskID(fmt.Sprintf("disk-%d", w.minted)), Cluster: "test", Releases: releases, PruneAfter: 24 * time.Hour, TakesPauses: true, KeepsBackups: true,
	}}
	h.setURLs()
	w.hosts = append(w.hosts, h)
	slices.SortFunc(w.hosts, func(a, b *worldHost) int { return cmp.Compare(a.Host, b.Host) })
	if w.leader == "" {
		w.lead(id)
	}
	return h
}

func (h *worldHost) setURLs() {
	at := string(h.Host)
	if h.address > 0 {
		at = fmt.Sprintf("%s-%d", h.Host, h.address)
	}
	h.Address = at
	scheme := "https"
	if h.plain {
		scheme = "http"
	}
	h.URLs = cluster.URLs{
		Peer:   []string{fmt.Sprintf("%s://%s:2380", scheme, at)},
		Client: []string{fmt.Sprintf("%s://%s:4001", scheme, at)},
	}
}

// lead lets another host lead: a higher fence, and nothing remembered.
func (w *world) lead(id cluster.HostID) {
	w.leader = id
	w.fence = cluster.Fence{Number: w.fence.Number + 1, Host: id}
	w.memory, w.handed = cluster.Memory{}, nil
	w.pauses.known = false
}

// clock is what time it is by a host's own clock.
func (w *world) clock(id cluster.HostID) time.Time {
	if i := slices.IndexFunc(w.hosts, func(h *worldHost) bool { return h.Host == id }); i >= 0 {
		return w.now.Add(w.hosts[i].skew)
	}
	return w.now
}

// advance lets time pass, with a look at least every ten seconds, as a leader
// would take one.
func (w *world) advance(d time.Duration) {
	for d > 0 {
		step := min(d, 10*time.Second)
		d -= step
		w.now = w.now.Add(step)
		w.elect()
		for _, h := range w.hosts {
			h.giveBack(w.now)
		}
		if d > 0 {
			w.observe()
		}
	}
}

// ends: what the host starts its member with lets it end at once.
func (h *worldHost) ends() bool {
	return len(h.cannotRun) > 0 && slices.Contains(h.cannotRun, h.Local.Version.String()) || h.balksAt != "" && slices.Contains(h.Local.Options, h.balksAt)
}

// giveBack is what a host does by itself with options that its member does not
// start with: it has the former ones again, tells of it, and tries no more.
func (h *worldHost) giveBack(now time.Time) {
	if h.balksAt != "" && h.before != nil && h.ends() && !h.down && now.Sub(h.given) >= 15*time.Second {
		h.FailedOptions, h.Options, h.Local.Options, h.before = h.Local.Options, *h.before, *h.before, nil
	}
}

// runs reports whether the member's process runs on the host.
func (h *worldHost) runs() bool {
	return h.Local.State == cluster.MemberStarted && h.Local.Run && h.Local.HasData && !h.down && !h.dead && !h.ends() && !h.halted()
}

func (w *world) clusterOf(h *worldHost) *worldCluster {
	for _, c := range w.clusters {
		if h.Local.Member != 0 && c.id == h.Local.Cluster {
			return c
		}
	}
	return nil
}

// carrier is the host whose disk is that of the member.
func (w *world) carrier(c *worldCluster, id cluster.MemberID) *worldHost {
	for _, h := range w.hosts {
		if h.Local.Member == id && h.Local.Cluster == c.id && h.Local.HasData {
			return h
		}
	}
	return nil
}

func (w *world) alive(c *worldCluster, id cluster.MemberID) bool {
	h := w.carrier(c, id)
	return h != nil && h.runs() && h.quiet == 0 && !h.hung
}

func (c *worldCluster) member(id cluster.MemberID) (*cluster.Member, bool) {
	for i := range c.members {
		if c.members[i].ID == id {
			return &c.members[i], true
		}
	}
	return nil, false
}

func (w *world) voters(c *worldCluster) (n, alive int) {
	for _, m := range c.members {
		if m.Learner {
			continue
		}
		n++
		if w.alive(c, m.ID) {
			alive++
		}
	}
	return n, alive
}

func (w *world) hasQuorum(c *worldCluster) bool {
	n, alive := w.voters(c)
	return n > 0 && alive >= cluster.Quorum(n)
}

// elect gives every cluster with a quorum a raft leader that is alive.
func (w *world) elect() {
	for _, c := range w.clusters {
		if !w.hasQuorum(c) {
			c.leader = 0
			continue
		}
		if m, ok := c.member(c.leader); ok && !m.Learner && w.alive(c, c.leader) {
			continue
		}
		for _, m := range c.members {
			if !m.Learner && w.alive(c, m.ID) {
				c.leader = m.ID
				c.term++
				break
			}
		}
	}
}

// observe looks at the world as the leader does, and folds its memory.
func (w *world) observe() *cluster.Observation {
	w.elect()
	for _, c := range w.clusters {
		w.agree(c)
	}
	o := &cluster.Observation{At: w.clock(w.leader), Cluster: "test", Leader: w.leader, Fence: w.fence, Spec: w.spec}
	o.Store = cluster.StoreView{Read: !w.store.silent, Conditional: !w.store.unconditional, Specified: w.spec != nil}
	if w.store.silent {
		o.Gaps = append(o.Gaps, cluster.Gap{Kind: cluster.GapStore, Detail: "connection refused"})
	} else {
		if w.store.intent == nil {
			o.Store.Origin = w.store.origin
		}
		o.Store.Intent, o.Store.Marker, o.Store.Joining = w.store.intent, w.store.marker, w.store.joining
	}
	if w.specGap != "" {
		o.Spec, o.Standing = nil, w.standing
		o.Gaps = append(o.Gaps, cluster.Gap{Kind: cluster.GapSpec, Detail: w.specGap})
	}
	o.Hosts = make([]cluster.HostReport, 0, len(w.hosts))
	stamp := "@" + strconv.FormatInt(w.now.Unix(), 10)
	for _, h := range w.hosts {
		if h.down || h.gap != "" {
			g := cluster.Gap{Kind: cluster.GapKind(h.gap), Host: h.Host, Detail: "no answer within 2s", Promised: h.promised}
			if h.down {
				g.Kind, g.Incompatible, g.Heard = cluster.GapUnreachable, h.why == "odds", h.why == "heard" || h.why == "refused"
				if h.why == "refused" {
					g.Kind = cluster.GapRefused
					if g.Promised == (cluster.Fence{}) {
						g.Promised = cluster.Fence{Number: w.fence.Number + 1, Host: "former"}
					}
				}
			}
			if g.Kind == cluster.GapBusy {
				g.Op, g.Late = h.at, h.late
			}
			o.Gaps = append(o.Gaps, g)
			continue
		}
		o.Hosts = append(o.Hosts, cluster.HostReport{})
		r := &o.Hosts[len(o.Hosts)-1]
		w.hearPauses(h)
		w.report(h, o, r)
		r.Stamp = string(h.Host) + stamp
	}
	w.see(o)
	w.seePauses(o)
	w.seeManual(o)
	o.Sort()
	w.reach(o)
	o.Upkeep = w.told
	o.Memory = cluster.Fold(w.memory, o)
	w.memory = o.Memory
	if in := o.Intent(); in.Order(w.handed) > 0 {
		w.handed = in
	}
	return o
}

// report is what a host that is reached says.
func (w *world) report(h *worldHost, o *cluster.Observation, r *cluster.HostReport) {
	if !h.unpromised {
		h.Promised = w.fence
		for _, in := range []*cluster.Intent{o.Intent(), w.handed} {
			h.keep(in)
		}
	}
	h.keep(o.Store.Intent)
	h.follow()
	h.supersede()
	r.HostState, r.UnderFence = h.HostState, !h.unpromised
	r.PeerTLS = w.peerTLS(h)
	r.Clock = w.clock(h.Host)
	c := w.clusterOf(h)
	switch {
	case h.Local.State == cluster.MemberStarting:
		r.Process = cluster.Process{State: cluster.ProcessBackoff, LastExit: "exit status 1"}
		return
	case h.Local.State != cluster.MemberStarted:
		return
	case !h.Local.Run || h.halted():
		r.Process = cluster.Process{}
		w.readLog(h, r)
		return
	case h.dead, h.ends():
		r.Process = cluster.Process{State: cluster.ProcessBackoff, PID: h.Process.PID, LastExit: "exit status 1"}
		if h.damaged {
			r.Process.LastExit, r.Process.Damaged = "exit status 1: walpb: crc mismatch", "walpb: crc mismatch"
		}
		w.readLog(h, r)
		return
	case !h.Local.HasData || c == nil:
		r.Process = cluster.Process{}
		return
	}
	m, listed := c.member(h.Local.Member)
	if !listed && w.hasQuorum(c) {
		r.Process = cluster.Process{LastExit: "the member has been permanently removed from the cluster"}
		return
	}
	r.Process.State = cluster.ProcessRunning
	w.readLog(h, r)
	r.Local.HasData = !h.vanished
	if h.hung {
		r.Process.State = cluster.ProcessSilent
		return
	}
	if h.deaf {
		return
	}
	if h.quiet > 0 {
		h.quiet--
		return
	}
	r.Status = w.status(h, c, m)
	h.before = nil
	v2 := h.v2 && !h.Local.Cut
	r.V2InLog = &v2
	if h.auth {
		return
	}
	r.View = &cluster.MemberView{Cluster: c.id, Members: slices.Clone(c.members), Linearizable: w.hasQuorum(c) && !r.Status.Learner}
}

// keep is what a host does with an intent that it is shown.
func (h *worldHost) keep(in *cluster.Intent) {
	if in.Order(h.Intent) > 0 && in.Covers(h.Intent) {
		h.Intent = in // nobody changes one in place
	}
}

func (w *world) status(h *worldHost, c *worldCluster, m *cluster.Member) *cluster.MemberStatus {
	st := &cluster.MemberStatus{
		Member: h.Local.Member, Cluster: c.id, Version: h.Local.Version, Term: c.term,
		Index: c.index, Applied: c.index, Revision: int64(c.index), Learner: m != nil && m.Learner,
	}
	if h.auth {
		return &cluster.MemberStatus{Member: st.Member, Cluster: st.Cluster, Auth: true}
	}
	st.ClusterVersion, st.Downgrade = c.agreed, !c.downgrading.IsZero()
	if !st.Version.AtLeast(3, 5) {
		on := w.auth
		st.AuthOn = &on
	}
	if st.Version.Has(cluster.StorageVersion) {
		st.StorageVersion, st.Downgrading = c.formats[st.Member], c.downgrading
	}
	if w.hasQuorum(c) {
		st.Leader, st.Healthy = c.leader, true
	}
	if st.Healthy && !st.Learner && !slices.Contains(h.Voted, st.Member) {
		h.Voted = append(slices.Clip(h.Voted), st.Member)
	}
	st.Alarms = slices.Clone(c.alarms)
	w.sizes(h, st)
	if h.behind > 0 || h.stuck {
		st.Index, st.Applied = c.index/2, c.index/2
		if !h.stuck {
			h.behind--
		}
	}
	return st
}

// reach lets every host that answers try the peer URLs of the suspects.
func (w *world) reach(o *cluster.Observation) {
	for _, m := range o.Suspects() {
		answers := false
		for _, h := range w.hosts {
			answers = answers || h.runs() && slices.ContainsFunc(h.Local.URLs.Peer, func(u string) bool { return slices.Contains(m.PeerURLs, u) })
		}
		for i := range o.Hosts {
			o.Hosts[i].Reaches = append(o.Hosts[i].Reaches, cluster.Reach{Member: m.ID, Answers: answers})
		}
	}
}
