package plan

import (
	"slices"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/members"
	"etcdadm.io/plan/internal/step"
)

// condition is a question that the planner asks itself, and a sight in which the
// answer is yes. Without any of what it needs the answer must be no; and what has
// nothing to do with it must not change it. So no part of a compound condition is
// there for nothing, and none is missing where the next one looks like it.
type condition struct {
	name     string
	sight    func(t *testing.T) *cluster.Observation
	holds    func(v *step.View) bool
	needs    []otherwise
	whatever []otherwise
}

// otherwise is one thing that is otherwise.
type otherwise struct {
	name string
	make func(o *cluster.Observation)
}

func (c condition) check(t *testing.T) {
	look := func(w otherwise) bool {
		o := c.sight(t)
		if w.make != nil {
			w.make(o)
			o.Sort()
		}
		return c.holds(step.Look(decision.Goal{Kind: decision.Converge}, o))
	}
	if !look(otherwise{}) {
		t.Fatal("it does not hold at all")
	}
	for _, w := range c.needs {
		if look(w) {
			t.Errorf("it holds although %s", w.name)
		}
	}
	for _, w := range c.whatever {
		if !look(w) {
			t.Errorf("it does not hold any more because %s", w.name)
		}
	}
}

func checkConditions(t *testing.T, all []condition) {
	for _, c := range all {
		t.Run(c.name, c.check)
	}
}

// of changes what a host reports.
func of(id cluster.HostID, change func(h *cluster.HostReport)) func(o *cluster.Observation) {
	return func(o *cluster.Observation) {
		if h, ok := o.Host(id); ok {
			change(h)
		}
	}
}

// inIntent changes the newest intent, which then only the store has.
func inIntent(change func(in *cluster.Intent)) func(o *cluster.Observation) {
	return func(o *cluster.Observation) {
		in := o.Intent().Clone()
		change(in)
		o.Store.Intent, o.Store.Marker = in, true
		forgetKept(o)
	}
}

// ofMember changes what is remembered of the member that a host carries.
func ofMember(id cluster.HostID, change func(m *cluster.MemberMemory)) func(o *cluster.Observation) {
	return func(o *cluster.Observation) {
		h, _ := o.Host(id)
		o.Memory.Members = slices.Clone(o.Memory.Members)
		for i := range o.Memory.Members {
			if o.Memory.Members[i].Member == h.Local.Member {
				change(&o.Memory.Members[i])
				return
			}
		}
		m := cluster.MemberMemory{Member: h.Local.Member}
		change(&m)
		o.Memory.Members = append(o.Memory.Members, m)
	}
}

// unhealthy is a member that serves no quorum reads.
func unhealthy(h *cluster.HostReport) { h.Status.Healthy = false }

// away takes a host out of sight.
func away(id cluster.HostID, kind cluster.GapKind) func(o *cluster.Observation) {
	return func(o *cluster.Observation) {
		o.Hosts = slices.DeleteFunc(o.Hosts, func(h cluster.HostReport) bool { return h.Host == id })
		o.Gaps = append(o.Gaps, cluster.Gap{Kind: kind, Host: id, Detail: "no answer"})
	}
}

// atWork is a host that is busy with an op.
func atWork(id cluster.HostID, op cluster.OpKind) func(o *cluster.Observation) {
	return func(o *cluster.Observation) {
		o.Gaps = slices.DeleteFunc(o.Gaps, func(g cluster.Gap) bool { return g.Host == id })
		away(id, cluster.GapBusy)(o)
		ofGap(id, func(g *cluster.Gap) { g.Op = op })(o)
	}
}

// ofGap changes what is known of a host that could not be seen.
func ofGap(id cluster.HostID, change func(g *cluster.Gap)) func(o *cluster.Observation) {
	return func(o *cluster.Observation) {
		for i := range o.Gaps {
			if o.Gaps[i].Host == id {
				change(&o.Gaps[i])
			}
		}
	}
}

func storeSilent(o *cluster.Observation) { o.Store.Read = false }

func noSpec(o *cluster.Observation) { o.Spec = nil }

// then is what is seen after some changes of what is seen otherwise.
func then(sight func(t *testing.T) *cluster.Observation, changes ...func(o *cluster.Observation)) func(t *testing.T) *cluster.Observation {
	return func(t *testing.T) *cluster.Observation {
		o := sight(t)
		for _, c := range changes {
			c(o)
		}
		o.Sort()
		return o
	}
}

// formedSight is a, b and c that serve, with d to spare.
func formedSight(t *testing.T) *cluster.Observation {
	w := formed(t)
	w.advance(10 * time.Minute)
	return w.observe()
}

// ledBy has every member name the one of a host as raft's leader.
func ledBy(id cluster.HostID) func(o *cluster.Observation) {
	return func(o *cluster.Observation) {
		h, _ := o.Host(id)
		for i := range o.Hosts {
			if st := o.Hosts[i].Status; st != nil {
				st.Leader = h.Local.Member
			}
		}
	}
}

func seatOf(v *step.View, id cluster.HostID) cluster.Seat {
	for _, s := range v.Roster.Seats {
		if s.HostID == id {
			return s
		}
	}
	return cluster.Seat{}
}

// needs: the remedy is due.
func needs(v *step.View, s cluster.Seat, r members.Remedy) bool {
	due, _ := members.Needs(v, s, r)
	return due
}

// awayLearner is the learner in sight, as if no host in sight were its own.
func awayLearner(v *step.View) cluster.Seat {
	s := v.Roster.Learners()[0]
	s.Owner, s.Condition = nil, cluster.ConditionAway
	return s
}

func inSight(v *step.View, id cluster.HostID) *cluster.HostReport {
	h, _ := v.Obs.Host(id)
	return h
}

func version(s string) cluster.Version { return cluster.MustVersion(s) }

// dies is a process that ends at each start.
func dies(h *cluster.HostReport) {
	h.Status, h.View = nil, nil
	h.Process = cluster.Process{State: cluster.ProcessBackoff, LastExit: "exit status 1"}
}

// stopped is a member that was stopped, with the end of its log in sight.
func stopped(term, index uint64) func(h *cluster.HostReport) {
	return func(h *cluster.HostReport) {
		h.Status, h.View, h.Process = nil, nil, cluster.Process{}
		h.Local.Run = false
		h.Log = &cluster.Progress{Term: term, Index: index}
	}
}

// first is the decision of the first of the rules that has one.
func first(v *step.View, rules ...func(*step.View) *decision.Decision) *decision.Decision {
	for _, r := range rules {
		if d := r(v); d != nil {
			return d
		}
	}
	return nil
}
