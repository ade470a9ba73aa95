package manager

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/wake"
)

const (
	// memoryLasts is the longest pause between two observations after which
	// what was remembered still counts. A leader that was paused for longer has
	// not seen that something was wrong "since" then.
	memoryLasts = time.Minute
	// memorySkews is how far the wall clock may have been set in between: what
	// is remembered is times of it.
	memorySkews = time.Second
)

// memoryHolds judges the time between two observations by the wall clock and
// by the monotonic one (which on Linux stops while a machine is suspended).
func memoryHolds(wall, monotonic time.Duration) bool {
	return monotonic <= memoryLasts && (wall-monotonic).Abs() <= memorySkews
}

// term is one leadership of this host. Only the goroutine that leads has it.
type term struct {
	m       *Manager
	fence   *fencing
	memory  cluster.Memory
	last    *cluster.Observation // of this term
	looked  time.Time            // when that was made, with the monotonic clock
	intent  *cluster.Intent      // the newest of ours that was seen
	refused []cluster.Refused    // in the observation under way
	pace    pace
	speaker speaker
	request *request  // a person's step under way
	seen    seen      // of a rival
	settled bool      // a look was made under a fence that the record's last writer does not refuse
	claimed time.Time // when a claim failed last
}

// observe looks at the store and at every host at the same time, and gives
// the observation with its memory folded in.
func (t *term) observe(ctx context.Context) (*cluster.Observation, look) {
	m := t.m
	began := time.Now()
	o := &cluster.Observation{At: began.UTC().Round(0), Cluster: m.o.ClusterName, Leader: m.self, Fence: t.fence.mine}
	request := cluster.ObserveRequest{Fence: t.fence.mine, Intent: t.intent, Reach: t.last.Suspects(), Log: m.watch.Recovering() || t.intent.Halted() != nil || t.intent.Recovers(), Versions: t.last.VersionsWanted()}
	request.Spec, request.Standing = m.watch.Known()
	if t.last != nil {
		request.Ended = cluster.EndedPauses(t.last.Paused)
	}
	var l look
	var both sync.WaitGroup
	both.Go(func() { l = m.watch.NowOrLately(ctx) })
	t.observeHosts(ctx, o, request)
	both.Wait()
	o.Store, o.Spec, o.Standing = l.view, m.completed(l.spec), m.completedStanding(l.left)
	o.Store.URL, o.Store.Backups = m.o.StoreURL, m.o.BackupsURL
	o.Upkeep = m.o.Upkeep
	o.Paused, o.PausesUnread, o.PausesDamaged, o.PausesLost = l.paused, l.pausesUnread, l.pausesDamaged, l.pausesLost
	o.Manual, o.ManualUnknown = l.manual, l.manualUnknown
	o.Commands, o.Unlisted, o.Backups, o.Recorded = l.queue.commands, l.queue.unlisted, l.queue.backups, l.queue.recorded
	o.Gaps = append(o.Gaps, l.gaps...)
	if told := request.Spec; l.spec != nil && (told == nil || !told.Equal(*l.spec)) || !request.Standing.Equal(l.left) {
		o.SpecUnheard = true
		wake.Up(m.wake)
	}
	t.keepIntent(o, l)
	t.addUnheard(o)
	o.Incompatible, o.Sights = m.gossip.Neighbours(o), m.gossip.Sights()
	o.Sort()
	if t.last != nil && !memoryHolds(o.At.Sub(t.last.At), began.Sub(t.looked)) {
		t.memory = cluster.Memory{}
	}
	t.memory = cluster.Fold(t.memory, o)
	o.Memory = t.memory
	t.last, t.looked = o, began
	m.watch.Quorumless(!t.memory.QuorumlessSince.IsZero())
	if ctx.Err() == nil {
		m.gossip.Led(t.leadsWell(o), t.voterHosts(o))
	}
	m.gossip.Judge()
	return o, l
}

// leadsWell reports whether enough hosts obey this leader.
func (t *term) leadsWell(o *cluster.Observation) bool {
	roster, listed := o.Roster()
	if !listed { // nothing is founded, or nothing answers
		return len(o.Hosts) > 1 && t.memory.QuorumlessSince.IsZero() && len(t.refused) == 0
	}
	return roster.HasQuorum()
}

// Known is the spec of the last look at the store, or what is left of it.
func (w *Watcher) Known() (*cluster.Spec, *cluster.Standing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.spec, w.last.left
}

// Recovering reports whether the ends of the hosts' logs are asked for.
func (w *Watcher) Recovering() bool {
	if w.mayRecover() {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.queue.recovering()
}

// completed is the spec with what this daemon was told for what it leaves open.
func (m *Manager) completed(s *cluster.Spec) *cluster.Spec {
	if s == nil {
		return nil
	}
	c := *s
	if c.DeadAfter <= 0 {
		c.DeadAfter = m.o.DeadAfter
	}
	if c.AutoRecoverAfter <= 0 {
		c.AutoRecoverAfter = m.o.AutoRecoverAfter
	}
	return &c
}

// completedStanding likewise: of it only the time counts.
func (m *Manager) completedStanding(s *cluster.Standing) *cluster.Standing {
	if s == nil || s.DeadAfter > 0 {
		return s
	}
	c := *s
	c.DeadAfter = m.o.DeadAfter
	return &c
}

// observeHosts asks all hosts at once. One that gossip has not heard from
// lately is not waited for: it is a gap until it is heard again; but where this daemon
// did not listen, it asks each itself.
func (t *term) observeHosts(ctx context.Context, o *cluster.Observation, request cluster.ObserveRequest) {
	m := t.m
	ctx, cancel := context.WithTimeout(ctx, m.o.Intervals.ObserveTimeout)
	defer cancel()
	peers, deaf := m.gossip.Known(), m.gossip.Deaf()
	answers := make([]answer, len(peers)+1)
	var asked sync.WaitGroup
	asked.Go(func() {
		a := answer{host: m.self, reply: m.o.Local.Observe(ctx, request)}
		if b := a.reply.Busy; b != nil && b.Op.Kind == cluster.OpPromise && ctx.Err() != nil { // another host's would have come too late
			a.err, a.heard = fmt.Errorf("no answer within %s: %s", m.o.Intervals.ObserveTimeout, b.Why), true
		}
		answers[0] = a
	})
	for i, p := range peers {
		a := &answers[i+1]
		a.host = p.contact.Host
		if p.other != "" {
			a.err = fmt.Errorf("two daemons say that they are this host, at %s and at %s; give each host an ID and a data directory of its own", p.contact.Endpoint, p.other)
			a.heard = true
			continue
		}
		if !p.live && !deaf {
			a.err = fmt.Errorf("no sign of its daemon since %s", p.heard.UTC().Format(time.RFC3339))
			if why := m.gossip.RefusalBy(p.contact.Host, p.contact.Endpoint); why != "" {
				a.err, a.odds = fmt.Errorf("%w; %s", a.err, why), true
			}
			continue
		}
		asked.Go(func() {
			a.reply, a.err = m.o.Network.Observe(ctx, p.contact, request)
			a.heard, a.odds = a.err != nil && p.live, refusalOf(a.err).hint != ""
		})
	}
	asked.Wait()
	t.refused = nil
	for _, a := range answers {
		t.take(o, request, a)
	}
}

// addUnheard makes gaps of the hosts that the intent counts on and that this
// daemon never heard of: they are no absence either.
func (t *term) addUnheard(o *cluster.Observation) {
	for _, id := range t.named() {
		_, gap := o.HostGap(id)
		if gap || slices.ContainsFunc(o.Hosts, func(h cluster.HostReport) bool { return h.Host == id }) {
			continue
		}
		detail := "its daemon was not heard since this one started"
		why := t.m.gossip.RefusalBy(id, "")
		if why != "" {
			detail += "; " + why
		}
		if word := t.m.o.LastWord(id); word != "" {
			detail += "; " + word
		}
		o.Gaps = append(o.Gaps, cluster.Gap{Kind: cluster.GapUnreachable, Host: id, Detail: detail, Incompatible: why != ""})
	}
}

// named lists the hosts that the intent counts on, sorted.
func (t *term) named() []cluster.HostID {
	if t.intent == nil {
		return nil
	}
	var out []cluster.HostID
	for _, v := range slices.Concat(t.intent.Voters, t.intent.Next) {
		out = append(out, v.Host)
	}
	for _, f := range t.intent.Founders {
		if t.intent.State == cluster.IntentFounding {
			out = append(out, f.Host)
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(h cluster.HostID) bool { return h == "" })
}

// answer is one host's answer, or why there is none.
type answer struct {
	host  cluster.HostID
	reply cluster.ObserveReply
	err   error
	odds  bool // it is there, and does not talk with this daemon
	heard bool // it tells of itself, and does not answer
}

// take adds a host's answer to the observation: facts, or a gap.
func (t *term) take(o *cluster.Observation, request cluster.ObserveRequest, a answer) {
	gap := func(kind cluster.GapKind, detail string) { // by a daemon that is heard, or it were not asked
		o.Gaps = append(o.Gaps, cluster.Gap{Kind: kind, Host: a.host, Detail: detail, Heard: true})
	}
	switch r := a.reply; {
	case a.err != nil:
		detail := a.err.Error()
		if word := t.m.o.LastWord(a.host); word != "" {
			detail += "; " + word
		}
		o.Gaps = append(o.Gaps, cluster.Gap{Kind: cluster.GapUnreachable, Host: a.host, Detail: detail, Incompatible: a.odds, Heard: a.heard})
	case r.Refused != nil:
		t.refused = append(t.refused, *r.Refused)
		o.Gaps = append(o.Gaps, cluster.Gap{
			Kind: cluster.GapRefused, Host: a.host, Detail: fmt.Sprintf("it promised fence %s", r.Refused.Promised), Promised: r.Refused.Promised, Heard: true,
		})
	case r.Busy != nil:
		detail := fmt.Sprintf("it carries out %s", r.Busy.Op)
		if word := r.Busy.Word(); word != "" {
			detail += ": " + word
		}
		o.Gaps = append(o.Gaps, cluster.Gap{Kind: cluster.GapBusy, Host: a.host, Detail: detail, Op: r.Busy.Op.Kind, Late: r.Busy.Why != ""})
	case r.State == nil:
		gap(cluster.GapUnreachable, "its answer is empty")
	case r.State.Host != a.host || r.State.Cluster != o.Cluster:
		gap(cluster.GapUnreachable, fmt.Sprintf("host %q of cluster %q answered", r.State.Host, r.State.Cluster))
	default:
		o.Hosts = append(o.Hosts, cluster.HostReport{
			HostState: *r.State, Stamp: r.Stamp,
			UnderFence: r.Stamp != "" && r.State.Promised == request.Fence,
		})
	}
}

// keepIntent remembers the newest intent of ours that is followed, to be handed to the
// hosts with the next look: by then it is known what was so after it was written. One of
// two foundings is handed to nobody: a host that a person has begin anew, to be rid of it,
// must not have it again from the leader.
func (t *term) keepIntent(o *cluster.Observation, l look) {
	if l.foreign {
		return
	}
	if o.DoubtOf(t.intent) != "" { // it was followed once, and hosts that come back now may have served since
		t.intent = nil
	}
	if o.Disputed(t.intent) {
		t.intent = nil
	}
	if in := o.Followed(); in != nil && !in.Adopted() && in.Name == o.Cluster && in.Order(t.intent) > 0 && !o.Disputed(in) {
		t.intent = in
	}
}

// voterHosts are the hosts of the voters as of a look.
func (t *term) voterHosts(o *cluster.Observation) []cluster.HostID {
	roster, listed := o.Roster()
	if !listed {
		return t.intent.VoterHosts()
	}
	var out []cluster.HostID
	for _, s := range roster.Voters() {
		out = append(out, s.HostID)
	}
	return out
}
