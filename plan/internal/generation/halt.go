package generation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
	"etcdadm.io/plan/path"
)

// A change of version that members cannot be rolled to is a new generation made
// from all that the old one has (docs/adr/017-any-version.md): its members are
// halted, all at once and by a record in the intent; the next generation is made
// ready from the data of the furthest; and then it is written down, over that very
// record. Until then the halt can be taken back, and the members go on as they were.

const (
	// haltPatience is how long a member may take to stop, and a host to come back
	// once it was seen last, before the halt is taken back. Reading a log may take
	// longer, as long as it goes on.
	haltPatience = 30 * time.Second
)

// whileHalted brings a change of version on from the halt to the write of the
// next generation, or takes the halt back.
func whileHalted(v *step.View, halt *cluster.Halt) *decision.Decision {
	since := haltedFor(v, halt)
	if why := haltUnwanted(v, halt); why != "" {
		return takeBack(v, halt, why)
	}
	hosts, missing := haltedHosts(v, halt)
	if len(missing) > 0 {
		away := time.Duration(0)
		if seen := v.Obs.Memory.MissingSince(halt); !seen.IsZero() {
			away = v.Obs.At.Sub(seen)
		}
		switch {
		case since > path.MostOutage:
			return takeBack(v, halt, fmt.Sprintf("it was not ready after %s (%s)", since.Round(time.Second), strings.Join(missing, "; ")))
		case away > haltPatience:
			return takeBack(v, halt, fmt.Sprintf("for %s not every member was known to have stopped with its log in sight (%s)", away.Round(time.Second), strings.Join(missing, "; ")))
		}
		return decision.Wait(true, "halted", "", "the members are being stopped, to go on with etcd {release} ({missing})", halt.To, strings.Join(missing, "; "))
	}
	best := hosts[0]
	for _, h := range hosts[1:] {
		if best.Log.Before(*h.Log) {
			best = h
		}
	}
	c := &cluster.Command{Name: halt.ID, At: halt.At, Kind: cluster.CommandChange, Host: best.Host, Version: halt.To}
	h, d := stage(v, c)
	switch {
	case since > path.MostOutage:
		return takeBack(v, halt, fmt.Sprintf("it was not ready after %s", since.Round(time.Second)))
	case d == nil && !v.Obs.Store.Read:
		return decision.Wait(true, "store-silent", "", "{command} lies ready on host {host}; waiting for the backup store to write generation {generation} down", commandWords(c), h.Host, v.NextGeneration())
	case d == nil:
		return WriteGeneration(v, c, h)
	case len(d.Blockers) > 0:
		return takeBack(v, halt, d.Reason.String())
	}
	return d
}

// haltedFor is how long the members have been stopped. The halt's time is by the
// clock of the leader that began it: one that takes over first watches it for a
// while, because its own clock may be ahead, and then counts at least what it has
// watched, because it may be behind.
func haltedFor(v *step.View, halt *cluster.Halt) time.Duration {
	age := v.Obs.At.Sub(halt.At)
	seen := v.Obs.Memory.HaltedSince(halt)
	if seen.IsZero() {
		return age
	}
	watched := v.Obs.At.Sub(seen)
	inTime := func(h cluster.HostReport) bool { return !h.Clock.IsZero() && h.Clock.Sub(halt.At) <= path.MostOutage }
	// Where every clock says that the time is over it is, however short the terms of
	// leaders are, or how seldom they look.
	if watched < haltPatience && slices.ContainsFunc(v.Obs.Hosts, inTime) {
		return watched
	}
	return max(age, watched)
}

// haltUnwanted says why nobody wants what the halt is for any more; empty:
// somebody does.
func haltUnwanted(v *step.View, halt *cluster.Halt) string {
	switch {
	case v.Spec == nil:
		return "there is no spec that can be followed"
	case v.Spec.EtcdVersion != halt.Wanted:
		return fmt.Sprintf("the spec asks for etcd %s now", v.Spec.EtcdVersion)
	case v.Spec.Consents() == "":
		return "the word for the outage was taken back"
	}
	return ""
}

// haltedHosts are the hosts of all voters, once each is known to keep the halt,
// to run nothing, and to have its log; or what is missing. Nothing was
// acknowledged without the logs of a quorum, and nothing will be: so the furthest of
// them has all that ever was.
func haltedHosts(v *step.View, halt *cluster.Halt) (hosts []*cluster.HostReport, missing []string) {
	for _, set := range v.Intent.VoterSets() {
		for _, w := range set {
			h, why := v.Obs.HaltedHost(w, halt)
			switch {
			case why != "":
				missing = append(missing, why)
			case !slices.Contains(hosts, h):
				hosts = append(hosts, h)
			}
		}
	}
	slices.Sort(missing)
	return hosts, slices.Compact(missing)
}

// takeBack lets the members go on as they were.
func takeBack(v *step.View, halt *cluster.Halt, why string) *decision.Decision {
	if !v.Obs.Store.Read {
		return decision.Wait(true, "store-silent", "", "the members are stopped for a change of version that is to be taken back ({why}); waiting for the backup store to write that down", why)
	}
	in, ended := v.Intent.Clone(), *halt
	ended.Ended = why
	in.Halt = &ended
	n := len(in.Voters)
	return &decision.Decision{
		Reason: words.F("the change to etcd {release} is taken back, and the members go on with {from}: {why}", halt.To, halt.From, why), Again: decision.Soon,
		Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in}, Projection: &cluster.Projection{Voters: n, VotersAfter: n, UpAfter: n}},
	}
}

// GoBack makes a generation of the release before from the data before, where
// the first member of one that was made by a halt cannot be started: nothing of it
// served anybody, because its quarantine was never lifted. nil: it need not.
func GoBack(v *step.View) *decision.Decision {
	in, halt := v.Intent, v.Intent.Halt
	if in.Source.Kind != cluster.SourceHalted || halt == nil || !in.Quarantined || len(in.Founders) != 1 || !v.Stalled() {
		return nil
	}
	f := in.Founders[0]
	h, ok := v.Obs.Host(f.Host)
	if !ok || !h.UnderFence {
		return nil
	}
	dies := h.Local.Generation == in.Generation && h.Process.State == cluster.ProcessBackoff
	forgot := h.Local.Generation != in.Generation && (h.Staged == nil || h.Staged.Token != in.Token)
	if !dies && !forgot {
		return nil
	}
	c := &cluster.Command{Name: fmt.Sprintf("back-%d", in.Generation), Version: halt.From, Host: h.Host, NoBackup: true}
	was := in.History[len(in.History)-1]
	i := slices.IndexFunc(h.SetAside, func(a cluster.SetAside) bool { return a.Cluster == was.Cluster && a.Cluster != 0 })
	switch {
	case i >= 0:
		c.Kind, c.Dir = cluster.CommandUndo, h.SetAside[i].Name()
	case h.Local.Generation == was.Generation && h.Local.HasData:
		c.Kind = cluster.CommandRecover
	default:
		return nil
	}
	return beginGeneration(v, c)
}
