package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/record"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// TestConditionsOfTheRecord: when the intent's record of the voters is changed, and
// when nothing more can come of a change that was written down.
func TestConditionsOfTheRecord(t *testing.T) {
	quiet := then(formedSight, func(o *cluster.Observation) {
		in := o.Intent()
		o.Memory.Quiet = cluster.Quiet{Since: o.At.Add(-step.CallsEnd), Fence: o.Fence, Generation: in.Generation, Write: in.Write}
	})
	begun := then(formedSight, inIntent(func(in *cluster.Intent) { in.Next = in.Voters[:2] }))
	moved := then(formedSight, inIntent(func(in *cluster.Intent) { in.Voters[0].Disk = "x" }))
	settles := func(v *step.View) bool { d := record.Settle(v); return d != nil && d.Action != nil }
	adoptive := then(formedSight, func(o *cluster.Observation) {
		h, _ := o.Host("c")
		h.Local.Member = 77
	})
	pending := then(quiet, inIntent(func(in *cluster.Intent) {
		in.Pending = []cluster.VoterChange{{Voter: cluster.Voter{Member: 9}}}
	}))
	full := then(quiet, inIntent(func(in *cluster.Intent) { // and a rule that wants a further one is before the one that tidies up
		in.Next = in.Voters[:2]
		for i := range cluster.MostPending {
			in.Pending = append(in.Pending, cluster.VoterChange{Voter: cluster.Voter{Member: cluster.MemberID(90 + i)}})
		}
	}))
	struck := func(v *step.View) bool {
		d := step.TooManyPending(v, cluster.Op{}, words.F("one more"))
		return d != nil && d.Action != nil && len(d.Action.Intent.Replace.Pending) == 0 && len(d.Action.Intent.Replace.Next) == 2
	}
	fenced := func(yes bool) func(o *cluster.Observation) {
		return of("c", func(h *cluster.HostReport) { h.UnderFence = yes })
	}
	checkConditions(t, []condition{
		{"too many changes of which nothing came are struck out", full, struck, []otherwise{
			{"they may be on their way", func(o *cluster.Observation) { o.Memory.Quiet.Since = o.At.Add(time.Second - step.CallsEnd) }},
			{"the store is silent", storeSilent},
			{"they are fewer", inIntent(func(in *cluster.Intent) { in.Pending = in.Pending[1:] })},
		}, nil},
		{"they keep nothing up but a voter whose host promised nothing", then(full, fenced(false)), func(v *step.View) bool {
			c := v.VotersNow()[2]
			held := step.TooManyPending(v, cluster.Op{Kind: cluster.OpRemove, Member: c.Member}, words.F("c goes"))
			return held == nil && step.TooManyPending(v, cluster.Op{Kind: cluster.OpRemove, Member: 98}, words.F("another goes")) != nil && step.TooManyPending(v, cluster.Op{Kind: cluster.OpPromote, Member: c.Member}, words.F("c comes")) != nil
		}, []otherwise{
			{"it promised", fenced(true)},
		}, nil},
		{"whose host promised nothing is named", then(full, fenced(false), func(o *cluster.Observation) { o.Memory.Quiet = cluster.Quiet{} }), func(v *step.View) bool {
			d := step.TooManyPending(v, cluster.Op{Kind: cluster.OpRemove, Member: 98}, words.F("another goes"))
			return d != nil && d.Action == nil && strings.Contains(d.Blockers[0].Sentence.String(), "(c)")
		}, []otherwise{
			{"it promised", fenced(true)},
		}, nil},
		{"nobody else can have begun a change", quiet, func(v *step.View) bool { return step.QuietFor(v) >= step.CallsEnd }, []otherwise{
			{"it was so under another fence", func(o *cluster.Observation) { o.Memory.Quiet.Fence.Number++ }},
			{"it was so in another generation", func(o *cluster.Observation) { o.Memory.Quiet.Generation++ }},
			{"it was so before the last write", func(o *cluster.Observation) { o.Memory.Quiet.Write++ }},
			{"it is not known since when", func(o *cluster.Observation) { o.Memory.Quiet.Since = time.Time{} }},
			{"it was so for less", func(o *cluster.Observation) { o.Memory.Quiet.Since = o.At.Add(time.Second - step.CallsEnd) }},
		}, nil},
		{"what nothing came of is struck out", pending, func(v *step.View) bool { return record.Tidy(v) != nil }, []otherwise{
			{"it may be on its way", func(o *cluster.Observation) { o.Memory.Quiet.Since = o.At.Add(time.Second - step.CallsEnd) }},
			{"a voter is down", of("b", unhealthy)},
			{"the store is silent", storeSilent},
			{"nothing is pending", inIntent(func(in *cluster.Intent) { in.Pending = nil })},
		}, nil},
		{"what is not wanted any more is struck out", begun, func(v *step.View) bool { return record.Tidy(v) != nil }, []otherwise{
			{"a voter is down", of("b", unhealthy)},
			{"the store is silent", storeSilent},
		}, nil},
		{"another disk of a voter is written down", moved, settles, []otherwise{
			{"the store is silent", storeSilent},
			{"it is another cluster's", inIntent(func(in *cluster.Intent) { in.Cluster = 9 })},
			{"it is written down", func(o *cluster.Observation) {
				a, _ := o.Host("a")
				inIntent(func(in *cluster.Intent) { in.Voters[0].Disk = a.Disk })(o)
			}},
		}, nil},
		{"another address of a voter is written down", then(formedSight, inIntent(func(in *cluster.Intent) { in.Voters[0].PeerURLs = []string{"https://x:2380"} })), settles, nil, nil},
		{"another host of a voter is written down", then(formedSight, inIntent(func(in *cluster.Intent) { in.Voters[0].Host = "x" })), settles, nil, nil},
		{"another voter is written down", then(formedSight, inIntent(func(in *cluster.Intent) { in.Voters[0].Member = 9 })), settles, nil, nil},
		{"a change by hand is written down", then(formedSight, inIntent(func(in *cluster.Intent) { in.Voters = in.Voters[:2] })), settles, []otherwise{
			{"it is another cluster's", inIntent(func(in *cluster.Intent) { in.Cluster = 9 })},
		}, nil},
		{"a member was removed", adoptive, func(v *step.View) bool { return record.Removed(v, inSight(v, "c")) }, []otherwise{
			{"the list may be old", hearsay},
			{"it is of another generation", of("c", func(h *cluster.HostReport) { h.Local.Generation = 9 })},
			{"it is of another cluster", of("c", func(h *cluster.HostReport) { h.Local.Cluster = 9 })},
			{"it was taken over, and not by us", of("c", func(h *cluster.HostReport) { h.Local.Generation = 0 })},
		}, []otherwise{
			{"its cluster is not known", of("c", func(h *cluster.HostReport) { h.Local.Cluster = 0 })},
			{"it was taken over", of("c", func(h *cluster.HostReport) { h.Local.Generation, h.Local.Adopted = 0, true })},
		}},
	})
}

// TestListsDiffer: a member that the newest list lacks keeps its data while another
// list of that moment has it.
func TestListsDiffer(t *testing.T) {
	o := formedSight(t)
	o.Memory.Hosts = nil
	for _, h := range o.Hosts {
		o.Memory.Hosts = append(o.Memory.Hosts, cluster.HostMemory{Host: h.Host, Fence: o.Fence, FenceSince: o.At.Add(-time.Minute)})
	}
	c, _ := o.Host("c")
	lack := func(id cluster.HostID) {
		h, _ := o.Host(id)
		w := *h.View
		w.Members = slices.DeleteFunc(slices.Clone(w.Members), func(m cluster.Member) bool { return m.ID == c.Local.Member })
		h.View = &w
	}
	lack("b")
	b, _ := o.Host("b")
	st := *b.Status
	st.Applied += 9
	b.Status = &st
	v := step.Look(decision.Goal{Kind: decision.Converge}, o)
	if d := record.SetAside(v); d != nil || len(v.Notices) != 1 || v.Notices[0].Code != "lists-differ" {
		t.Errorf("while a lists c: %+v, asides %+v", d, v.Notices)
	}
	lack("a")
	c.View = nil
	if d := record.SetAside(step.Look(decision.Goal{Kind: decision.Converge}, o)); d == nil || d.Action == nil {
		t.Errorf("when nobody lists c: %+v", d)
	}
}

// TestPastGenerationCountsWhoVotes: the promises of voters are asked for that somebody
// made by hand, of this cluster only.
func TestPastGenerationCountsWhoVotes(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(o *cluster.Observation)
		sets   int
	}{
		{"as recorded", func(*cluster.Observation) {}, 1},
		{"changed by hand", inIntent(func(in *cluster.Intent) { in.Voters = in.Voters[:2] }), 2},
		{"of another cluster", inIntent(func(in *cluster.Intent) { in.Voters, in.Cluster = in.Voters[:2], 9 }), 1},
		{"of no cluster yet", inIntent(func(in *cluster.Intent) { in.Voters, in.Cluster = in.Voters[:2], 0 }), 1},
	} {
		o := formedSight(t)
		c.change(o)
		if g := step.Look(decision.Goal{Kind: decision.Converge}, o).Past(); len(g.Voters) != c.sets {
			t.Errorf("%s: %d sets of voters, want %d: %+v", c.name, len(g.Voters), c.sets, g.Voters)
		}
	}
}

// TestConditionsOfQuarantine: when ordinary clients are let in.
func TestConditionsOfQuarantine(t *testing.T) {
	shut := then(formedSight, inIntent(func(in *cluster.Intent) { in.Quarantined = true }))
	lifted := then(formedSight, of("b", func(h *cluster.HostReport) { h.Local.Quarantined = true }))
	joins := func(v *step.View) bool { return step.JoinsQuarantined(v, v.Roster.Learners()[0].ID) }
	fromOne := then(func(t *testing.T) *cluster.Observation { return learnerAdded(t).observe() }, inIntent(func(in *cluster.Intent) { in.Quarantined = true }), func(o *cluster.Observation) {
		s := *o.Spec
		s.MemberCount = 9 // of which four are no majority
		o.Spec = &s
	})
	checkConditions(t, []condition{
		{"a learner joins in quarantine", fromOne, joins, []otherwise{
			{"it is lifted", inIntent(func(in *cluster.Intent) { in.Quarantined = false })},
			{"it completes the majority", func(o *cluster.Observation) { s := *o.Spec; s.MemberCount = 7; o.Spec = &s }},
		}, []otherwise{
			{"there is no spec", noSpec},
		}},
		{"the quarantine is lifted", shut, func(v *step.View) bool { d := generation.Lift(v); return d != nil && d.Action != nil }, []otherwise{
			{"the store is silent", storeSilent},
			{"there is no spec", noSpec},
			{"it is lifted already", inIntent(func(in *cluster.Intent) { in.Quarantined = false })},
			{"too few are up", func(o *cluster.Observation) { of("b", unhealthy)(o); of("c", unhealthy)(o) }},
			{"more are wanted", func(o *cluster.Observation) { s := *o.Spec; s.MemberCount = 7; o.Spec = &s }},
		}, []otherwise{
			{"one is down", of("b", unhealthy)},
			{"more are wanted, and the spec is on hold", func(o *cluster.Observation) {
				s := *o.Spec
				s.MemberCount, s.Hold = 7, true
				o.Spec = &s
			}},
		}},
		{"members are let out", lifted, func(v *step.View) bool { d := generation.OpenUp(v); return d != nil && d.Action != nil }, []otherwise{
			{"the quarantine is not lifted", inIntent(func(in *cluster.Intent) { in.Quarantined = true })},
			{"its host has not promised", of("b", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"it is not up", of("b", unhealthy)},
			{"another one is down", of("c", unhealthy)},
			{"it is out", of("b", func(h *cluster.HostReport) { h.Local.Quarantined = false })},
		}, nil},
	})
}

// TestConditionsOfKeepers: while the store is silent, the hosts have to have written
// the new voters down before anything is changed.
func TestConditionsOfKeepers(t *testing.T) {
	older := func(h *cluster.HostReport) {
		in := h.Intent.Clone()
		in.Write--
		h.Intent = in
	}
	kept := then(formedSight, func(o *cluster.Observation) {
		in := o.Intent().Clone()
		in.Write += 2
		for i := range o.Hosts {
			o.Hosts[i].Intent = in
		}
	})
	checkConditions(t, []condition{
		{"the hosts keep it", kept, func(v *step.View) bool { return step.AwaitKeepers(v, words.F("x")) == nil }, []otherwise{
			{"one in sight keeps an older one", of("b", older)},
			{"one in sight keeps none", of("b", func(h *cluster.HostReport) { h.Intent = nil })},
			{"a quorum is out of sight", func(o *cluster.Observation) {
				of("b", func(h *cluster.HostReport) { h.UnderFence = false })(o)
				of("c", func(h *cluster.HostReport) { h.UnderFence = false })(o)
			}},
		}, []otherwise{
			{"a voter's host promised another leader", of("b", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"a host without a voter keeps an older one", of("d", older)},
		}},
	})
}

// TestChangesThatPendKeepNoOtherVoter: while as many changes as are borne were begun, a
// dead voter whose host promised is not taken out; one behind it, whose host promises
// nothing, is, since nothing is seen to end before.
func TestChangesThatPendKeepNoOtherVoter(t *testing.T) {
	for _, gone := range []cluster.HostID{"d", "e"} {
		w := newWorld()
		for _, id := range []cluster.HostID{"a", "b", "c", "d", "e"} {
			w.addHost(id, cluster.MustVersion("3.6.16"))
		}
		w.lead("a")
		w.spec = &cluster.Spec{MemberCount: 5, EtcdVersion: cluster.MustVersion("3.6.16")}
		run := func() {
			if _, err := w.run(decision.Goal{Kind: decision.Converge}, 40, false, func(*cluster.Observation, decision.Decision, error) {}); err != nil {
				t.Fatal(err)
			}
		}
		run()
		in := w.store.intent.Clone()
		for i := range cluster.MostPending {
			in.Pending = append(in.Pending, cluster.VoterChange{Voter: cluster.Voter{Host: "x", Disk: "x", Member: cluster.MemberID(0x900 + i)}})
		}
		in.Write++
		w.store.intent = in
		w.addHost("f", cluster.MustVersion("3.6.16"))
		for _, id := range []cluster.HostID{"d", "e"} {
			w.host(id).dead = id != gone
			w.host(id).down = id == gone
		}
		run() // the silence begins to be remembered
		w.advance(3 * time.Minute)
		run()
		r, _ := w.observe().Roster()
		if r.Seated(gone) {
			t.Errorf("%s, whose host is gone, is still listed: %s", gone, w.show())
		}
	}
}
