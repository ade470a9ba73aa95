package upkeep

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// NotPruned is the problem of a host that could not remove a directory.
const NotPruned = "aside-not-pruned"

// Prune has one directory removed that was set aside of a member that a quorum
// removed, once nothing can need it any more: that very cluster serves from
// beyond the end of its log with every voter up, and so does a proven backup of
// it (SAFETY.md, rule 22). Everything else that is set aside is left to a person.
func Prune(v *step.View) *decision.Decision {
	held := pruneHeld(v)
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		for _, a := range h.SetAside {
			if byHand(v, h, a) != "" {
				continue
			}
			if waits, _ := pruneWaits(v, h, a, held); waits != "" {
				continue
			}
			b, _ := provenAbove(v, h, a)
			p := v.Projection(0, 0)
			var g cluster.Guard // what the host can compare with its own member
			if h.Local.State == cluster.MemberStarted {
				g = v.Roster.Guard()
			}
			return v.Unasked(&decision.Decision{
				Reason: words.F("delete what host {host} set aside of member {member}, removed by a quorum {ageOf} ago: every voter and proven backup {backup} are past its log",
					h.Host, a.Member, ageOf(v, h, a).Round(time.Second), b.Name),
				Again: decision.Soon,
				Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Command: pruneCommand(h, a), Ops: []decision.HostOp{decision.OnHost(h, g, cluster.Op{
					Kind: cluster.OpPrune, Host: h.Host, Member: a.Member, Cluster: a.Cluster, Generation: a.Generation, Dir: a.Name(), Backup: b.Name,
				})}},
			})
		}
	}
	return nil
}

func pruneCommand(h *cluster.HostReport, a cluster.SetAside) string {
	return fmt.Sprintf("etcdadm host prune %s --dir %s", h.Host, a.Name())
}

// byHand says why only a person's command removes a directory, and no waiting
// does; empty: it may go by itself.
func byHand(v *step.View, h *cluster.HostReport, a cluster.SetAside) string {
	_, listed := v.Roster.Seat(a.Member)
	switch {
	case a.Reason != cluster.AsideRemoved:
		return "no quorum removed its member"
	case a.Foreign:
		return "host " + string(h.Host) + " does not know of having given its member up"
	case a.Doubt == cluster.DoubtFound:
		return "its keys were doubted, and what it holds may be right"
	case a.Doubt != cluster.DoubtNone:
		return "it is not recorded whether its keys were doubted"
	case !a.Prunable():
		return "it is not recorded how far its member had come"
	case h.PruneAfter <= 0:
		return "host " + string(h.Host) + " prunes nothing by itself"
	case v.Intent == nil || v.Intent.State == cluster.IntentFounded && (v.Intent.Cluster != a.Cluster || v.Intent.Generation != a.Generation):
		return "it is of another generation than the one that serves"
	case v.Seen && listed || h.Local.Member == a.Member:
		return "its member is there again"
	}
	return ""
}

// pruneHeld says why nothing is pruned at all for now; empty: the cluster is
// whole, at rest, and about to stay what it is.
func pruneHeld(v *step.View) string {
	in := v.Intent
	asked := slices.ContainsFunc(v.Obs.Commands, func(c cluster.Command) bool { return c.Kind != cluster.CommandBackup })
	switch {
	case in == nil || in.State != cluster.IntentFounded || in.Quarantined:
		return "a generation is being made"
	case !v.Obs.Store.Read:
		return v.UnreadWords()
	case asked:
		return "a command in the queue comes first"
	case !v.Seen || !v.Roster.Linearizable || v.Roster.Cluster != in.Cluster || !v.Roster.HasQuorum() || len(v.DownVoters()) > 0:
		return "not every voter is up"
	case len(v.Roster.Learners()) > 0 || len(in.Next) > 0 || len(in.Pending) > 0:
		return "the membership is being changed"
	}
	for _, s := range v.Roster.Voters() {
		if len(s.Host.Status.Alarms) > 0 || len(s.Host.Status.Errors) > 0 {
			return fmt.Sprintf("the member of host %s reports an alarm or an error", s.HostID)
		}
	}
	return ""
}

// pruneWaits says what a directory that goes by itself still waits for, beside
// what holds up all of them; empty: nothing. The time is when it is old enough, by the leader's clock; zero: it is.
func pruneWaits(v *step.View, h *cluster.HostReport, a cluster.SetAside, held string) (why string, at time.Time) {
	if age := ageOf(v, h, a); age < h.PruneAfter {
		return "it is kept for " + h.PruneAfter.String(), v.Obs.At.Add(h.PruneAfter - age)
	}
	if held != "" {
		return held, at
	}
	if slices.ContainsFunc(h.Problems, func(p cluster.Problem) bool { return p.Code == NotPruned }) {
		return "its host could not remove it, and tries again", at
	}
	if s := h.Staged; !h.UnderFence || s != nil && s.Source.Kind == cluster.SourceSetAside && s.Source.Dir == a.Name() {
		return "its host is busy", at
	}
	for _, s := range v.Roster.Voters() {
		if s.Host == nil || s.Host.Status == nil || !beyond(s.Host.Status.Term, s.Host.Status.Applied, a) {
			return fmt.Sprintf("the voter of host %s has not gone beyond its log", s.HostID), at
		}
	}
	if _, ok := provenAbove(v, h, a); !ok {
		return "a newer backup has to be proven (etcdadm backup verify NAME)", at
	}
	return "", at
}

// beyond reports whether a place in raft's order is behind the end of a log.
// The term of a place is at least that of every entry before it.
func beyond(term, index uint64, a cluster.SetAside) bool {
	return index > a.Log.Index && term >= a.Log.Term
}

// ageOf is how long ago a directory was set aside, by its host's own clock.
func ageOf(v *step.View, h *cluster.HostReport, a cluster.SetAside) time.Duration {
	return v.Obs.At.Sub(v.LeadersTime(h, a.At))
}

// backupsListed is how old a list of the backups may be: it is made anew more
// often, and one that was made longer ago could not be.
const backupsListed = 15 * time.Minute

// provenAbove is a backup that was proven, and holds all that the directory can
// hold that was ever acknowledged: it is of the same cluster, further in raft's
// order, and younger by more than clocks may be apart.
func provenAbove(v *step.View, h *cluster.HostReport, a cluster.SetAside) (cluster.Backup, bool) {
	known := v.Obs.Backups
	if since := v.Obs.At.Sub(known.At); known.At.IsZero() || since < -sight.MaxSkew || since > backupsListed {
		return cluster.Backup{}, false
	}
	all := slices.Clone(known.Newest)
	if known.Proven != nil {
		all = append(all, *known.Proven)
	}
	for _, b := range all {
		age := v.Obs.At.Sub(b.At)
		if b.Proven && b.Cluster == a.Cluster && beyond(b.Term, b.Index, a) && age >= -sight.MaxSkew && age < ageOf(v, h, a)-sight.MaxSkew {
			return b, true
		}
	}
	return cluster.Backup{}, false
}

// Aside is what becomes of a directory that a host set aside.
type Aside struct {
	Host cluster.HostID `json:"host"`
	cluster.SetAside
	// Age is how old it is, by its host's clock, in nanoseconds; zero: unknown.
	Age time.Duration `json:"age,omitempty"`
	// ByHand says why only a person's command removes it; empty: it goes by
	// itself, when Waits is over.
	ByHand string `json:"byHand,omitempty"`
	Waits  string `json:"waits,omitempty"` // empty: nothing but its turn
	// After is when it is old enough to go by itself; zero: it is.
	After time.Time `json:"after,omitzero"`
	// Undo goes back to it, where that can be done as things are; empty: it cannot, or
	// other data of the same cluster goes further.
	Undo string `json:"undo,omitempty"`
	// OnlyWay: no other data in sight goes as far back to where the cluster was.
	OnlyWay bool `json:"onlyWay,omitempty"`
	// Command removes it now, and refuses where it is the only way back.
	Command string `json:"command"`
}

// WayBack is the command that makes a generation of what was set aside when one was
// superseded, and whether nothing else would do. A member that a quorum removed is no
// way back, as its cluster went on without it. What nothing is known of may be one.
func WayBack(v *step.View, h *cluster.HostReport, a cluster.SetAside) (undo string, only bool) {
	if a.Reason == cluster.AsideRemoved || v.Intent != nil && a.Cluster != 0 && a.Cluster == v.Intent.Cluster {
		return "", false
	}
	further := false
	only = true
	for i := range v.Obs.Hosts {
		for _, b := range v.Obs.Hosts[i].SetAside {
			if b.Cluster != a.Cluster || a.Cluster == 0 || b.Foreign || v.Obs.Hosts[i].Host == h.Host && b.Dir == a.Dir {
				continue
			}
			further = further || a.Log.Before(b.Log)
			only = only && (a.Log == (cluster.Progress{}) || b.Log.Before(a.Log))
		}
	}
	c := cluster.Command{Kind: cluster.CommandUndo, Host: h.Host, Dir: a.Name()}
	_, why := generation.GenerationVersion(v, &c, generation.Wrote(v, &c, h), h)
	if a.Cluster == 0 || a.Foreign || further || why != "" || generation.CannotBegin(v, h) != "" || v.Intent == nil {
		return "", only
	}
	return generation.GenerationCommand(v, &c), only
}

// Asides says what becomes of everything that is set aside, by host and name.
func Asides(o *cluster.Observation) []Aside {
	v := step.Look(decision.Goal{Kind: decision.Converge}, o)
	held := pruneHeld(v)
	var out []Aside
	for i := range o.Hosts {
		h := &o.Hosts[i]
		for _, a := range h.SetAside {
			x := Aside{Host: h.Host, SetAside: a, Command: pruneCommand(h, a), ByHand: byHand(v, h, a)}
			x.Undo, x.OnlyWay = WayBack(v, h, a)
			if !a.At.IsZero() {
				x.Age = max(ageOf(v, h, a), 0)
			}
			if x.ByHand == "" {
				x.Waits, x.After = pruneWaits(v, h, a, held)
			}
			out = append(out, x)
		}
	}
	return out
}
