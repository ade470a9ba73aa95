package plan

import (
	"cmp"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// wanted is the spec that is in force by the letter of ADR 009.
func wanted(o *cluster.Observation, in *cluster.Intent) *cluster.Spec {
	if o.Spec == nil || in == nil || in.Count == nil || in.Count.Done || in.Count.Was != o.Spec.MemberCount || in.Count.Version != o.Spec.EtcdVersion {
		return o.Spec
	}
	s := *o.Spec
	s.MemberCount, s.Hold = in.Count.Members, false
	return &s
}

// count: what a command asked for is in the intent with its generation, unless a
// person changed the spec since; and nothing else is.
func (l *laws) count(in *cluster.Intent) {
	if l.ofHalt(in) {
		l.must(in.Count == nil || l.in.Count != nil && *in.Count == *l.in.Count, "a count that nobody asked for")
		return
	}
	i := slices.IndexFunc(l.o.Commands, func(c cluster.Command) bool { return c.Name == in.CommandID })
	if !l.must(i >= 0, "a generation of a command that is not in the queue") || l.o.Spec == nil {
		return
	}
	asked := l.o.Commands[i].Count
	if asked != nil && asked.Was == l.o.Spec.MemberCount && asked.Version == l.o.Spec.EtcdVersion {
		l.must(in.Count != nil && in.Count.Members == asked.Members, "a count that the command asked for is lost")
	}
	if in.Count != nil {
		carried := l.in != nil && l.in.Count != nil && *in.Count == *l.in.Count
		l.must(carried || asked != nil && asked.Members == in.Count.Members, "a count that nobody asked for")
	}
	n := wanted(l.o, in).MemberCount
	l.must(in.Quarantined == (n > 1), "a generation of %d members with quarantine %t", n, in.Quarantined)
}

// putCount: only over the very spec that the command was given for, once its
// generation is there.
func (l *laws) putCount(a *decision.Action) {
	l.must(a.Intent == nil && len(a.Ops) == 0 && a.Count != nil && l.o.Store.Read && l.o.Spec != nil && l.in != nil && l.in.State == cluster.IntentFounded, "a count that is written out of turn")
	n := l.in.Count
	l.must(n != nil && !n.Done && *n == *a.Count && n.Was == l.o.Spec.MemberCount && n.Version == l.o.Spec.EtcdVersion, "a count over a spec that a person changed")
}

// written is the intent that a change writes.
func written(c *decision.IntentChange) *cluster.Intent { return cmp.Or(c.Create, c.Replace) }
