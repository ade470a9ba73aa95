package plan

import (
	"cmp"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
)

// act carries an action out. An error is what a host, the store or etcd says
// when it refuses; the planner must never ask for such a thing in an
// undisturbed world.
func (w *world) act(a *decision.Action) error {
	switch a.Kind {
	case decision.ActIntent:
		return w.writeIntent(a.Intent)
	case decision.ActCommand:
		return w.endCommand(a.End)
	case decision.ActSpec:
		return w.putCount(a.Count)
	case decision.ActPause:
		return w.writePauses(a.Pauses)
	case decision.ActManual:
		return w.writeManual(a.Manual)
	case decision.ActQueue:
		w.minted++
		c := *a.Queue
		c.Name, c.At = fmt.Sprintf("cmd-%d", w.minted), w.now
		w.queue.commands = append(w.queue.commands, c)
		return nil
	}
	for _, o := range a.Ops {
		if err := w.apply(o); err != nil {
			return fmt.Errorf("%s: %s: %w", o.Host, o.Op, err)
		}
	}
	w.elect()
	return nil
}

func (w *world) writeIntent(ch *decision.IntentChange) error {
	if ch.Keep != nil {
		w.handed = ch.Keep.Clone()
		w.handed.Write++
		w.handed.Unstored = w.fence
		w.observe() // by which the hosts get it
		return nil
	}
	in := cmp.Or(ch.Create, ch.Replace).Clone()
	switch {
	case w.store.silent:
		return fmt.Errorf("the store does not answer")
	case ch.Create != nil && w.store.marker:
		return fmt.Errorf("the marker exists")
	case ch.Replace != nil && !w.store.marker:
		return fmt.Errorf("the marker is gone")
	}
	w.mintRotation(in)
	if in.Nonce == "" {
		w.minted++
		in.Nonce, in.Token, in.Timestamp = fmt.Sprintf("nonce-%d", w.minted), cmp.Or(in.Token, fmt.Sprintf("token-%d", w.minted)), w.clock(w.leader).UnixNano()
		if in.Source.Kind != cluster.SourceAdopted {
			in.Cluster = clusterOfGeneration(in.Generation)
			for i := range in.Founders {
				in.Founders[i].Member = cluster.MemberID(in.Generation*0x100 + uint64(i) + 1)
			}
		}
	}
	if ch.Replace != nil || !in.Unstored.IsZero() {
		in.Write++
	}
	in.Unstored = cluster.Fence{}
	w.store.intent, w.store.marker = in, true
	return nil
}

func (w *world) apply(o decision.HostOp) error {
	h := w.host(o.Host)
	switch {
	case h == nil || h.down || h.gap != "":
		return fmt.Errorf("not reachable")
	case h.Disk != o.Disk:
		return fmt.Errorf("another disk")
	case h.Promised != w.fence:
		return fmt.Errorf("promised fence %s", h.Promised)
	}
	if err := w.guarded(h, o.Guard); err != nil {
		return err
	}
	if two := w.twoAway(h, o); two != "" {
		w.wrong = two
	}
	if o.Op.Kind.Membership() {
		return w.member(h, o)
	}
	switch o.Op.Kind {
	case cluster.OpPrepare:
		if h.Carries() {
			return fmt.Errorf("holds data")
		}
		h.Local = cluster.LocalMember{State: cluster.MemberPrepared, Generation: o.Op.Generation, Nonce: o.Op.Nonce, Token: o.Op.Token, Cluster: o.Op.Cluster, Known: o.Op.Known}
	case cluster.OpStart:
		return w.start(h, o.Op)
	case cluster.OpPause:
		h.Paused = append(slices.Clone(h.Paused), *o.Op.Pause)
	case cluster.OpRestart:
		if err := w.mayRun(h, o.Op.Version); err != nil {
			return err
		}
		h.tell(o.Op)
		h.Process.PID++
		h.hung, h.Local.Cut = false, o.Op.Cut
		h.v2 = h.v2 && !o.Op.Cut
		if h.v2 && o.Op.Version.AtLeast(3, 7) {
			return fmt.Errorf("panic: unmarshal should never fail")
		}
		h.Local.Previous = cluster.Version{}
		if o.Op.Changes {
			h.Local.Previous = h.Local.Version
		}
		h.Local.Run, h.Local.Quarantined = true, o.Op.Quarantined
		if h.before == nil && !slices.Equal(h.Local.Options, h.Options) {
			had := h.Local.Options
			h.before, h.given = &had, w.now
		}
		was := h.Local.URLs.Peer
		h.Local.Options, h.Local.URLs, h.Local.Version = h.Options, h.URLs, o.Op.Version
		if sight.OnlyTLS(was, h.URLs.Peer) && len(o.Op.PeerURLs) == 0 {
			h.Local.URLs.Peer = was
		}
		h.Process.Differs = nil
		h.readAuthorities()
	case cluster.OpRefuse:
		h.LowestGeneration = max(h.LowestGeneration, o.Op.Generation)
		h.Local.Run = h.Local.Run && h.Local.Generation >= h.LowestGeneration
	case cluster.OpStop:
		h.Local.Run = false
	case cluster.OpStage:
		return w.stage(h, o.Op)
	case cluster.OpDrill:
		return w.drill(h, o.Op)
	case cluster.OpBackup:
		return w.takeBackup(h, o.Op)
	case cluster.OpSetAside:
		return w.setAside(h, o.Op)
	case cluster.OpPrune:
		return w.pruneAside(h, o.Op)
	case cluster.OpHash, cluster.OpDefragment:
		return w.upkeep(h, o.Op)
	default:
		return fmt.Errorf("an op that this world does not know")
	}
	return nil
}

// guarded compares the guard with what the host's own member says.
func (w *world) guarded(h *worldHost, g cluster.Guard) error {
	if g.Cluster == 0 {
		return nil
	}
	c := w.clusterOf(h)
	switch {
	case c == nil || c.id != g.Cluster:
		return fmt.Errorf("guard: another cluster")
	case g.NotLeader && c.leader == h.Local.Member:
		return fmt.Errorf("guard: it leads raft")
	}
	var all, voters []cluster.MemberID
	for _, m := range c.members {
		all = append(all, m.ID)
		if !m.Learner {
			voters = append(voters, m.ID)
		}
	}
	if !slices.Equal(all, g.Members) || !slices.Equal(voters, g.Voters) {
		return fmt.Errorf("guard: members %v, not %v", all, g.Members)
	}
	return nil
}

// start checks the evidence of SAFETY.md, rule 8b.
func (w *world) start(h *worldHost, op cluster.Op) error {
	if h.Carries() {
		return fmt.Errorf("holds data")
	}
	if h.balks {
		return fmt.Errorf("cannot read the intent by itself")
	}
	if op.Generation < h.LowestGeneration {
		return fmt.Errorf("refuses generation %d", op.Generation)
	}
	if len(h.Foreign) > 0 || !h.CanRun(op.Version) {
		return fmt.Errorf("foreign data, or no etcd %s", op.Version)
	}
	at := slices.IndexFunc(op.Members, func(m cluster.Member) bool { return m.ID == op.Member })
	if at < 0 || !slices.Equal(op.Members[at].PeerURLs, h.URLs.Peer) {
		return fmt.Errorf("listed at another address")
	}
	var c *worldCluster
	if op.Founding {
		in := w.store.intent
		if w.store.silent {
			in = h.Intent
		}
		f, named := in.Founder(h.Host, h.Disk)
		if !named || f.Member != op.Member || in.Generation != op.Generation || in.Nonce != op.Nonce {
			return fmt.Errorf("no evidence as a founder")
		}
		if in.Source.FromData() {
			open := slices.ContainsFunc(in.History, func(g cluster.PastGeneration) bool { return !g.Closed })
			if open || in.State != cluster.IntentFounding || h.Staged == nil || h.Staged.Token != in.Token || h.Staged.Source != in.Source {
				return fmt.Errorf("nothing lies ready for generation %d, or one before it is open", in.Generation)
			}
			h.Staged = nil
		}
		c = w.founded(in, op)
	} else {
		l := h.Local
		if l.State != cluster.MemberPrepared || l.Generation != op.Generation || l.Nonce != op.Nonce || slices.Contains(l.Known, op.Member) {
			return fmt.Errorf("no evidence as a joiner")
		}
		c = w.byID(op.Cluster)
	}
	m, listed := c.member(op.Member)
	if !listed {
		return fmt.Errorf("not listed")
	}
	m.Name, m.ClientURLs = string(h.Host), h.URLs.Client
	h.Local = cluster.LocalMember{
		State: cluster.MemberStarted, Generation: op.Generation, Nonce: op.Nonce, Token: op.Token, Cluster: c.id, Member: op.Member,
		Run: true, Version: op.Version, URLs: h.URLs, Options: h.Options, HasData: true, Quarantined: op.Quarantined, Doubt: cluster.DoubtNone,
	}
	h.Process = cluster.Process{State: cluster.ProcessRunning, PID: h.Process.PID + 1}
	h.readAuthorities()
	h.quiet, h.behind, h.dead, h.keys = 1, 2, false, 0
	h.Hash, h.Database = nil, nil
	if op.Founding {
		h.behind = 0
	}
	return nil
}

func (w *world) byID(id cluster.ClusterID) *worldCluster {
	for _, c := range w.clusters {
		if c.id == id {
			return c
		}
	}
	return nil
}

func clusterOfGeneration(g uint64) cluster.ClusterID { return cluster.ClusterID(0xc0 + g) }

// founded is the cluster of a generation; the first founder to start makes it.
func (w *world) founded(in *cluster.Intent, op cluster.Op) *worldCluster {
	id := clusterOfGeneration(in.Generation)
	if c := w.byID(id); c != nil {
		return c
	}
	c := &worldCluster{id: id, generation: in.Generation, term: 1, index: 100}
	for _, m := range op.Members {
		m.Name, m.ClientURLs = "", nil
		c.members = append(c.members, m)
	}
	w.clusters = append(w.clusters, c)
	return c
}

func (w *world) setAside(h *worldHost, op cluster.Op) error {
	if h.Local.Member != op.Member || h.Local.Cluster != op.Cluster {
		return fmt.Errorf("another member")
	}
	if c := w.clusterOf(h); c != nil && op.Reason == "removed" {
		if _, listed := c.member(op.Member); listed {
			return fmt.Errorf("the member is listed")
		}
	}
	if h.held {
		h.Local.State, h.Local.Run = cluster.MemberRemoved, false
		h.Problems = []cluster.Problem{{Code: "data-not-set-aside", Sentence: "the data is held", Unfit: true}}
		return fmt.Errorf("the data is held")
	}
	aside := cluster.SetAside{
		Dir: fmt.Sprintf("/data-trashcan/%s-%s", op.Member, op.Reason), Cluster: op.Cluster, Generation: op.Generation, Member: op.Member, Reason: op.Reason,
		At: w.now.Add(h.skew), Version: h.Local.Version, Doubt: h.Local.Doubt,
	}
	if aside.Reason == cluster.AsideRemoved || aside.Reason == cluster.AsideSuperseded { // of no other does a host put on record how far the log goes
		aside.Log = w.logOf(h)
	}
	h.SetAside = append(h.SetAside, aside)
	if op.Member != 0 && !slices.Contains(h.GaveUp, op.Member) {
		h.GaveUp = append(slices.Clip(h.GaveUp), op.Member)
	}
	h.vanished, h.damaged = false, false
	h.Local, h.Process, h.dead, h.stuck, h.behind, h.quiet = cluster.LocalMember{}, cluster.Process{}, false, false, 0, 0
	return nil
}

// member makes a membership call through the host's own member, with etcd's
// own checks (ETCD.md, "Membership").
func (w *world) member(h *worldHost, o decision.HostOp) error {
	c := w.clusterOf(h)
	if c == nil || !w.alive(c, h.Local.Member) || !w.hasQuorum(c) {
		return fmt.Errorf("its member serves no quorum")
	}
	n, alive := w.voters(c)
	if o.Op.Kind == cluster.OpCompact || o.Op.Kind == cluster.OpDisarm {
		return w.databaseCall(h, c, o.Op)
	}
	target, listed := c.member(o.Op.Member)
	if !listed && o.Op.Member != 0 {
		return fmt.Errorf("etcd: member not found")
	}
	c.index += 10
	switch o.Op.Kind {
	case cluster.OpDowngrade:
		return w.downgrade(c, o.Op.Version)
	case cluster.OpCancelDowngrade:
		c.downgrading = cluster.Version{}
		return nil
	case cluster.OpAddLearner:
		return w.addLearner(c, h.Local.Version, n, alive, o.Op)
	case cluster.OpAddVoter:
		return w.addVoter(c, n, alive, o.Op)
	case cluster.OpPromote:
		at := w.carrier(c, target.ID)
		if !target.Learner || at == nil || !w.alive(c, target.ID) || at.behind > 0 || at.stuck {
			return fmt.Errorf("etcd: can only promote a learner member which is in sync with leader")
		}
		target.Learner = false
	case cluster.OpRemove:
		if !target.Learner && w.alive(c, target.ID) && alive-1 < cluster.Quorum(n-1) {
			return fmt.Errorf("etcd: unhealthy cluster")
		}
		c.members = slices.DeleteFunc(c.members, func(m cluster.Member) bool { return m.ID == o.Op.Member })
	case cluster.OpUpdateURL:
		if target.Learner {
			return fmt.Errorf("a learner's URL was updated")
		}
		if c.urlTaken(o.Op.PeerURLs, target.ID) {
			return fmt.Errorf("etcd: peer URLs exists")
		}
		if cluster.TurnsTLSOn(target.PeerURLs, o.Op.PeerURLs) && slices.ContainsFunc(w.hosts, func(h *worldHost) bool { return h.runs() && slices.Contains(h.Process.Differs, sight.PeerAuthority) }) {
			return fmt.Errorf("tls: a member without certificates no longer reaches the others")
		}
		target.PeerURLs = slices.Clone(o.Op.PeerURLs)
	case cluster.OpMoveLeader:
		if c.leader != h.Local.Member || target.Learner || !w.alive(c, target.ID) {
			return fmt.Errorf("etcd: bad leader transferee")
		}
		c.leader = target.ID
		c.term++
	}
	return nil
}

func (c *worldCluster) urlTaken(urls []string, except cluster.MemberID) bool {
	return slices.ContainsFunc(c.members, func(m cluster.Member) bool {
		return m.ID != except && slices.ContainsFunc(m.PeerURLs, func(u string) bool { return slices.Contains(urls, u) })
	})
}

func (w *world) addLearner(c *worldCluster, v cluster.Version, voters, alive int, op cluster.Op) error {
	learners := len(c.members) - voters
	switch {
	case voters > 1 && alive < cluster.Quorum(voters+1):
		return fmt.Errorf("etcd: unhealthy cluster")
	case learners >= v.MaxLearners():
		return fmt.Errorf("etcd: too many learner members in cluster")
	case c.urlTaken(op.PeerURLs, 0):
		return fmt.Errorf("etcd: peer URLs exists")
	}
	c.list(op.PeerURLs, true)
	return nil
}

func (c *worldCluster) list(urls []string, learner bool) {
	c.minted++
	id := cluster.MemberID(uint64(c.id)*0x100 + uint64(c.minted))
	c.members = append(c.members, cluster.Member{ID: id, PeerURLs: urls, Learner: learner})
	slices.SortFunc(c.members, func(a, b cluster.Member) int { return cmp.Compare(a.ID, b.ID) })
}

// addVoter is what releases without learners do. Source: isReadyToAddNewMember
// of 3.2 and 3.3.
func (w *world) addVoter(c *worldCluster, voters, alive int, op cluster.Op) error {
	switch {
	case voters > 1 && alive < cluster.Quorum(voters+1):
		return fmt.Errorf("etcd: re-configuration failed due to not enough started members")
	case c.urlTaken(op.PeerURLs, 0):
		return fmt.Errorf("etcd: peer URLs exists")
	}
	c.list(op.PeerURLs, false)
	return nil
}
