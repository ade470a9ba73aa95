package plan

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// notPruned is the problem of a host that could not remove a directory.
const notPruned = "aside-not-pruned"

// prune has one directory removed that was set aside of a member that a quorum
// removed, once nothing can need it any more: that very cluster serves from
// beyond the end of its log with every voter up, and so does a proven backup of
// it (SAFETY.md, rule 22). Everything else that is set aside is left to a person.
func prune(v *view) *Decision {
	held := v.pruneHeld()
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		for _, a := range h.SetAside {
			if v.byHand(h, a) != "" {
				continue
			}
			if waits, _ := v.pruneWaits(h, a, held); waits != "" {
				continue
			}
			b, _ := v.provenAbove(h, a)
			p := v.projection(0, 0)
			var g cluster.Guard // what the host can compare with its own member
			if h.Local.State == cluster.MemberStarted {
				g = v.roster.Guard()
			}
			return &Decision{
				Reason: fmt.Sprintf("remove what host %s set aside of member %s, which a quorum removed %s ago: every voter has gone beyond its log, and so has backup %s, which is proven",
					h.Host, a.Member, v.ageOf(h, a).Round(time.Second), b.Name),
				Again: soon,
				Action: &Action{Kind: ActHosts, Projection: &p, Command: pruneCommand(h, a), Ops: []HostOp{onHost(h, g, cluster.Op{
					Kind: cluster.OpPrune, Host: h.Host, Member: a.Member, Cluster: a.Cluster, Generation: a.Generation, Dir: a.Name(), Backup: b.Name,
				})}},
			}
		}
	}
	return nil
}

func pruneCommand(h *cluster.HostReport, a cluster.SetAside) string {
	return fmt.Sprintf("etcdadm host prune %s --dir %s", h.Host, a.Name())
}

// byHand says why only a person's command removes a directory, and no waiting
// does; empty: it may go by itself.
func (v *view) byHand(h *cluster.HostReport, a cluster.SetAside) string {
	_, listed := v.roster.Seat(a.Member)
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
	case v.intent == nil || v.intent.State == cluster.IntentFounded && (v.intent.Cluster != a.Cluster || v.intent.Generation != a.Generation):
		return "it is of another generation than the one that serves"
	case v.seen && listed || h.Local.Member == a.Member:
		return "its member is there again"
	}
	return ""
}

// pruneHeld says why nothing is pruned at all for now; empty: the cluster is
// whole, at rest, and about to stay what it is.
func (v *view) pruneHeld() string {
	in := v.intent
	asked := slices.ContainsFunc(v.obs.Commands, func(c cluster.Command) bool { return c.Kind != cluster.CommandBackup })
	switch {
	case in == nil || in.State != cluster.IntentFounded || in.Quarantined:
		return "a generation is being made"
	case !v.obs.Store.Read:
		return v.unreadWords()
	case asked:
		return "a command in the queue comes first"
	case !v.seen || !v.roster.Linearizable || v.roster.Cluster != in.Cluster || !v.roster.HasQuorum() || len(v.downVoters()) > 0:
		return "not every voter is up"
	case len(v.roster.Learners()) > 0 || len(in.Next) > 0 || len(in.Pending) > 0:
		return "the membership is being changed"
	}
	for _, s := range v.roster.Voters() {
		if len(s.Host.Status.Alarms) > 0 || len(s.Host.Status.Errors) > 0 {
			return fmt.Sprintf("the member of host %s reports an alarm or an error", s.HostID)
		}
	}
	return ""
}

// pruneWaits says what a directory that goes by itself still waits for, beside
// what holds up all of them; empty: nothing. The time is when it is old enough, by the leader's clock; zero: it is.
func (v *view) pruneWaits(h *cluster.HostReport, a cluster.SetAside, held string) (why string, at time.Time) {
	if age := v.ageOf(h, a); age < h.PruneAfter {
		return "it is kept for " + h.PruneAfter.String(), v.obs.At.Add(h.PruneAfter - age)
	}
	if held != "" {
		return held, at
	}
	if slices.ContainsFunc(h.Problems, func(p cluster.Problem) bool { return p.Code == notPruned }) {
		return "its host could not remove it, and tries again", at
	}
	if s := h.Staged; !h.UnderFence || s != nil && s.Source.Kind == cluster.SourceSetAside && s.Source.Dir == a.Name() {
		return "its host is busy", at
	}
	for _, s := range v.roster.Voters() {
		if s.Host == nil || s.Host.Status == nil || !beyond(s.Host.Status.Term, s.Host.Status.Applied, a) {
			return fmt.Sprintf("the voter of host %s has not gone beyond its log", s.HostID), at
		}
	}
	if _, ok := v.provenAbove(h, a); !ok {
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
func (v *view) ageOf(h *cluster.HostReport, a cluster.SetAside) time.Duration {
	return v.obs.At.Sub(v.leadersTime(h, a.At))
}

// backupsListed is how old a list of the backups may be: it is made anew more
// often, and one that was made longer ago could not be.
const backupsListed = 15 * time.Minute

// provenAbove is a backup that was proven, and holds all that the directory can
// hold that was ever acknowledged: it is of the same cluster, further in raft's
// order, and younger by more than clocks may be apart.
func (v *view) provenAbove(h *cluster.HostReport, a cluster.SetAside) (cluster.Backup, bool) {
	known := v.obs.Backups
	if since := v.obs.At.Sub(known.At); known.At.IsZero() || since < -maxSkew || since > backupsListed {
		return cluster.Backup{}, false
	}
	all := slices.Clone(known.Newest)
	if known.Proven != nil {
		all = append(all, *known.Proven)
	}
	for _, b := range all {
		age := v.obs.At.Sub(b.At)
		if b.Proven && b.Cluster == a.Cluster && beyond(b.Term, b.Index, a) && age >= -maxSkew && age < v.ageOf(h, a)-maxSkew {
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

// wayBack is the command that makes a generation of what was set aside when one was
// superseded, and whether nothing else would do. A member that a quorum removed is no
// way back, as its cluster went on without it. What nothing is known of may be one.
func (v *view) wayBack(h *cluster.HostReport, a cluster.SetAside) (undo string, only bool) {
	if a.Reason == cluster.AsideRemoved || v.intent != nil && a.Cluster != 0 && a.Cluster == v.intent.Cluster {
		return "", false
	}
	further := false
	only = true
	for i := range v.obs.Hosts {
		for _, b := range v.obs.Hosts[i].SetAside {
			if b.Cluster != a.Cluster || a.Cluster == 0 || b.Foreign || v.obs.Hosts[i].Host == h.Host && b.Dir == a.Dir {
				continue
			}
			further = further || a.Log.Before(b.Log)
			only = only && (a.Log == (cluster.Progress{}) || b.Log.Before(a.Log))
		}
	}
	c := cluster.Command{Kind: cluster.CommandUndo, Host: h.Host, Dir: a.Name()}
	_, why := v.generationVersion(&c, v.wrote(&c, h), h)
	if a.Cluster == 0 || a.Foreign || further || why != "" || v.cannotBegin(h) != "" || v.intent == nil {
		return "", only
	}
	return v.generationCommand(&c), only
}

// Asides says what becomes of everything that is set aside, by host and name.
func Asides(o *cluster.Observation) []Aside {
	v := newView(Goal{Kind: Converge}, o)
	held := v.pruneHeld()
	var out []Aside
	for i := range o.Hosts {
		h := &o.Hosts[i]
		for _, a := range h.SetAside {
			x := Aside{Host: h.Host, SetAside: a, Command: pruneCommand(h, a), ByHand: v.byHand(h, a)}
			x.Undo, x.OnlyWay = v.wayBack(h, a)
			if !a.At.IsZero() {
				x.Age = max(v.ageOf(h, a), 0)
			}
			if x.ByHand == "" {
				x.Waits, x.After = v.pruneWaits(h, a, held)
			}
			out = append(out, x)
		}
	}
	return out
}
