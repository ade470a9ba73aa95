package generation

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// founders picks the hosts of a founding: all that are wanted, or after some
// patience a majority of them. With a store that cannot write on a condition
// the majority is of the hosts that the spec names.
func founders(v *step.View, n int) ([]*cluster.HostReport, *decision.Decision) {
	free, why := v.CandidatesBeside(cluster.Roster{}) // members of a founding that is superseded are no reason
	var ready []*cluster.HostReport
	fetch := "" // the command that is missing on a host
	for _, h := range free {
		switch {
		case !h.CanRun(v.Spec.EtcdVersion):
			why = append(why, fmt.Sprintf("%s has no etcd %s, only %s", h.Host, v.Spec.EtcdVersion, words.Versions(h.Releases)))
			fetch = "etcdadm download " + v.Spec.EtcdVersion.String()
		case slices.ContainsFunc(ready, func(o *cluster.HostReport) bool { return sharesURL(o, h) }):
			why = append(why, fmt.Sprintf("%s has a peer URL of another host", h.Host))
		default:
			ready = append(ready, h)
		}
	}
	need := cluster.Quorum(n)
	if !v.Obs.Store.Conditional {
		need = max(need, cluster.Quorum(len(v.Spec.Hosts)))
	}
	if len(ready) >= max(n, need) {
		return untriedFirst(v, ready)[:n], nil
	}
	if len(ready) < need {
		return nil, decision.Wait(false, "waiting-for-hosts", fetch, "{ready} of {wanted} hosts ready{named}; the cluster is founded once {need} are{because}",
			len(ready), n, words.Named(ready), need, words.Because(why))
	}
	left := foundingPatience
	if s := v.Obs.Memory.EnoughSince; !s.IsZero() {
		left -= v.Obs.At.Sub(s)
	}
	if left > 0 {
		d := decision.Wait(false, "waiting-for-hosts", fetch, "{ready} of {number} wanted hosts are ready{named}; founding without the others after {foundingPatience}{because}", len(ready), n, words.Named(ready), foundingPatience, words.Because(why))
		d.Again = left
		return nil, d
	}
	return ready, nil
}

// untriedFirst puts the hosts of a founding that came to nothing last, so that
// one of them which cannot start, and does not say so, is not chosen again and
// again while others are there.
func untriedFirst(v *step.View, hosts []*cluster.HostReport) []*cluster.HostReport {
	if v.Intent == nil || v.Intent.State != cluster.IntentFounding {
		return hosts
	}
	tried := func(h *cluster.HostReport) int {
		if _, was := v.Intent.Founder(h.Host, h.Disk); was {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(hosts, func(a, b *cluster.HostReport) int { return tried(a) - tried(b) })
	return hosts
}

// UnstartedFounders are start ops for founders in sight that never started.
// Once a member list is in sight it must still list them: listed.
func UnstartedFounders(v *step.View, listed []cluster.Member) (ops []decision.HostOp, waiting []string) {
	if v.Intent.Source.FromData() {
		return nil, nil // its one founder was started before it was called founded, or never
	}
	all := sight.FounderMembers(v.Intent)
	for _, f := range v.Intent.Founders {
		h, ok := v.Obs.Host(f.Host)
		switch {
		case !ok:
			waiting = append(waiting, fmt.Sprintf("host %s is unreachable", f.Host))
		case h.Disk != f.Disk:
			waiting = append(waiting, fmt.Sprintf("host %s has another disk than the one that was to found", f.Host))
		case !h.UnderFence:
			waiting = append(waiting, fmt.Sprintf("host %s has not accepted this leader's fence", f.Host))
		case h.LowestGeneration > v.Intent.Generation:
			waiting = append(waiting, fmt.Sprintf("host %s refuses generation %d", f.Host, v.Intent.Generation))
		case h.Local.State == cluster.MemberNone || h.Local.State == cluster.MemberPrepared:
			if listed != nil && !slices.ContainsFunc(listed, func(m cluster.Member) bool { return m.ID == f.Member }) {
				continue
			}
			if why := CannotFound(v, f, h); why != "" {
				waiting = append(waiting, fmt.Sprintf("host %s %s", f.Host, why))
				continue
			}
			members := all
			if listed != nil {
				members = listed
			}
			ops = append(ops, decision.OnHost(h, cluster.Guard{}, cluster.Op{
				Kind: cluster.OpStart, Host: f.Host, Founding: true, Generation: v.Intent.Generation, Nonce: v.Intent.Nonce,
				Token: v.Intent.Token, Cluster: v.Intent.Cluster, Member: f.Member, Members: members, Version: v.Intent.Version,
			}))
		case h.Status == nil || !h.Status.Healthy:
			waiting = append(waiting, fmt.Sprintf("the member of host %s does not serve yet: its process is %s", f.Host, words.ProcessWords(h.Process)))
		}
	}
	return ops, waiting
}

// CannotFound says why the host would refuse to start as the founder that it
// is; empty: it would start. What it refuses is not asked of it again and again:
// in a cluster that runs already, its place is taken by another one.
func CannotFound(v *step.View, f cluster.Founder, h *cluster.HostReport) string {
	switch p := sight.Problem(h); {
	case p != "":
		return p
	case len(h.Foreign) > 0:
		return sight.HoldsForeign(h)
	case !slices.Equal(sight.Sorted(f.URLs.Peer), sight.Sorted(h.URLs.Peer)):
		return fmt.Sprintf("is now at %s, and was to found at %s", strings.Join(h.URLs.Peer, ", "), strings.Join(f.URLs.Peer, ", "))
	case !v.Intent.Version.IsZero() && !h.CanRun(v.Intent.Version):
		return fmt.Sprintf("has no etcd %s, only %s", v.Intent.Version, words.Versions(h.Releases))
	}
	return ""
}

func sharesURL(a, b *cluster.HostReport) bool {
	return slices.ContainsFunc(a.URLs.Peer, func(u string) bool { return slices.Contains(b.URLs.Peer, u) })
}

// refound supersedes a founding that cannot come to a quorum: so many of its
// founders promise never to start it that the rest are no quorum (SAFETY.md,
// rule 13). No write can have been acknowledged by it.
func refound(v *step.View) *decision.Decision {
	if !v.Stalled() || v.Spec == nil || !v.Obs.Store.Read {
		return nil
	}
	next := v.Intent.Generation + 1
	var ops []decision.HostOp
	promised := 0
	for _, f := range v.Intent.Founders {
		h := Promiser(v, f)
		switch {
		case h == nil:
		case h.LowestGeneration >= next:
			promised++
		default:
			ops = append(ops, decision.OnHost(h, cluster.Guard{}, cluster.Op{Kind: cluster.OpRefuse, Host: h.Host, Generation: next}))
		}
	}
	n := len(v.Intent.Founders)
	if promised+len(ops) < cluster.Blocking(n) {
		return nil
	}
	fresh, d := founders(v, v.Spec.MemberCount)
	if d != nil {
		return d
	}
	if promised < cluster.Blocking(n) {
		return &decision.Decision{
			Reason: words.F("generation {generation} never served and cannot: have its reachable founders fence it off", v.Intent.Generation),
			Again:  decision.Soon,
			Action: &decision.Action{Kind: decision.ActHosts, Ops: ops, Projection: &cluster.Projection{Voters: n, VotersAfter: n}},
		}
	}
	in := &cluster.Intent{
		Name: v.Obs.Cluster, Generation: next, Version: v.Spec.EtcdVersion,
		Source: cluster.Source{Kind: cluster.SourceNothing}, State: cluster.IntentFounding, Founders: sight.AsFounders(fresh),
		History: append(slices.Clone(v.Intent.History), cluster.PastGeneration{
			Generation: v.Intent.Generation, Cluster: v.Intent.Cluster, Voters: [][]cluster.Voter{sight.FounderVoters(v.Intent)}, Closed: true,
		}),
		Rotation: v.Intent.Rotation,
	}
	return &decision.Decision{
		Reason: words.F("generation {generation} never served, and {promised} of its {number} founders fenced it off: found generation {generation2} on {fresh}", v.Intent.Generation, promised, n, next, words.HostNames(fresh)),
		Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in}, Command: step.SeedCommand(v)},
	}
}

// Promiser is the founder's host if its very disk never started the founding.
// A wiped founder is no promiser: it cannot know whether it served before, so
// that case is left to a person.
func Promiser(v *step.View, f cluster.Founder) *cluster.HostReport {
	h, ok := v.Obs.Host(f.Host)
	if !ok || h.Disk != f.Disk || !h.UnderFence || h.Carries() || len(h.Foreign) > 0 || h.Process.State != cluster.ProcessStopped {
		return nil
	}
	return h
}

// writeFounded writes down that the members of a founding serve.
func writeFounded(v *step.View) *decision.Decision {
	if !v.Obs.Store.Read {
		return decision.Wait(false, "store-silent", "", "the cluster serves; waiting for the backup store to write that down")
	}
	in := v.Intent.Clone()
	in.State, in.Cluster, in.Voters = cluster.IntentFounded, v.Roster.Cluster, v.VotersNow()
	return &decision.Decision{
		Reason: words.F("the founded cluster serves with {up} of {founders} members: record that it exists", len(v.Roster.Up()), len(v.Intent.Founders)),
		Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in}},
	}
}
