package plan

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// halted: while members are stopped for a change, the source is made ready, or
// the intent is written, and nothing else is done.
func (l *laws) halted() {
	if l.in.Halted() == nil || l.d.Action == nil {
		return
	}
	stage := l.d.Action.Kind == decision.ActHosts && len(l.d.Action.Ops) == 1 && l.d.Action.Ops[0].Op.Kind == cluster.OpStage
	l.must(stage || l.d.Action.Kind == decision.ActIntent, "another action while the generation is halted")
}

// halting: all members are stopped only with a person's approval, with every voter
// up and written down, and a store that lets one of two leaders win.
func (l *laws) halting(in *cluster.Intent) {
	h := in.Halted()
	if h == nil || l.in.Halted() != nil {
		return
	}
	l.must(l.spec != nil && l.spec.Consents() != "" && h.Consent == l.spec.Consents() && h.Wanted == l.spec.EtcdVersion, "a halt that nobody consented to")
	l.must(l.o.Store.Conditional && l.o.Store.Read, "a halt that nothing keeps unique")
	said := l.d.Action.Intent.Spec
	l.must(l.o.Unlisted == "" && said != nil && said.Equal(*l.o.Spec), "a halt that does not say on which spec it relies")
	l.must(l.seen && l.roster.Linearizable && len(l.roster.Learners()) == 0 && len(in.Next) == 0, "a halt in the middle of a change of the voters")
	l.must(len(l.roster.Up()) == len(l.roster.Voters()), "a halt while a voter is down")
	var now []cluster.Voter
	for _, s := range l.roster.Voters() {
		now = append(now, cluster.Voter{Member: s.ID})
		l.must(s.Host != nil && s.Host.CanRun(h.To), "a halt for a release that a host lacks")
	}
	l.must(cluster.SameVoters(in.Voters, now), "a halt of other voters than are written down")
	if !h.To.ReadsSnapshot(h.From) {
		l.surveyed(h)
	}
	before := l.in.Halt
	l.must(before == nil || before.ID != h.ID && before.Consent != h.Consent, "a halt on a word that was used")
}

// surveyed: what a change key by key loses was listed, and a person accepted that
// very list.
func (l *laws) surveyed(h *cluster.Halt) {
	found := false
	for i := range l.o.Hosts {
		t := l.o.Hosts[i].Drill
		if t != nil && !t.Running && t.Error == "" && t.Survey != nil && t.Survey.To == h.To && t.Survey.Digest == h.Accept {
			found = true
		}
	}
	l.must(found, "a halt for a change key by key that nobody tried out")
	l.must(h.Accept == "" || h.Accept == l.spec.AcceptedLoss(), "a halt for losses that nobody accepted")
}

// fromHalted: every voter is known to have stopped, to keep this very halt and to
// be no further than the founder.
func (l *laws) fromHalted(in *cluster.Intent, h *cluster.HostReport) {
	if in.Source.Kind != cluster.SourceHalted {
		return
	}
	halt := l.in.Halted()
	if !l.must(halt != nil && in.CommandID == halt.ID && in.Version == halt.To && in.Source.Accept == halt.Accept && in.Quarantined, "a generation of halted members without their halt") || h.Log == nil {
		l.must(h.Log != nil, "a founder whose log is not known")
		return
	}
	for _, set := range l.in.VoterSets() {
		for _, w := range set {
			i := slices.IndexFunc(l.o.Hosts, func(o cluster.HostReport) bool { return o.Local.Member == w.Member })
			if !l.must(i >= 0, "a generation of halted members without voter %s", w.Member) {
				continue
			}
			o := &l.o.Hosts[i]
			kept := o.Intent.Halted()
			l.must(o.UnderFence && o.Process.State == cluster.ProcessStopped && kept != nil && kept.ID == halt.ID && o.Log != nil && o.Local.HasData, "a generation of halted members while voter %s may run", w.Member)
			l.must(o.Log == nil || !h.Log.Before(*o.Log), "a founder behind host %s", o.Host)
		}
	}
}

// ofHalt: the generation needs no command in the queue: it is what a halt is for, or
// takes the place of one that never served anybody.
func (l *laws) ofHalt(in *cluster.Intent) bool {
	if h := l.in.Halted(); h != nil {
		return in.CommandID == h.ID
	}
	return l.in != nil && l.in.State == cluster.IntentFounding && l.in.Source.Kind == cluster.SourceHalted && l.in.Quarantined &&
		l.in.Halt != nil && in.Version == l.in.Halt.From && in.Halt != nil && in.Halt.Ended != "" && in.CommandID == fmt.Sprintf("back-%d", l.in.Generation)
}
