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

// PromisersInSight blocks a command for which not enough hosts could promise.
// They are asked only after the intent was written, so they are counted before.
func PromisersInSight(v *step.View, c *cluster.Command) *decision.Decision {
	for _, g := range v.Open(true) {
		for _, set := range g.Voters {
			can, missing, working := 0, []cluster.HostID(nil), []cluster.HostID(nil)
			for _, w := range set {
				h := v.Voice(w, set)
				switch {
				case sight.Lost(w, c.Lost), h != nil && h.UnderFence && h.Process.State != cluster.ProcessForeign:
					can++
				case v.Presence(w.Host) == cluster.PresenceBusy:
					working = append(working, w.Host)
				default:
					missing = append(missing, sight.NameOf(w))
				}
			}
			if need := cluster.Blocking(len(set)); can < need {
				command, wayOut := WithLost(v, c, missing)
				return decision.Stuck("promises", command,
					"a new generation from {command} cannot begin: {need} of the {set} voters of generation {generation} have to stop and fence it off for good, and only {can} can be asked; missing: {away}{wayOut}",
					commandWords(c), need, len(set), g.Generation, can, awayWords(missing, working), wayOut)
			}
		}
	}
	return nil
}

// CollectPromises asks for what is missing, and closes the generations before
// this one once enough have promised.
func CollectPromises(v *step.View) *decision.Decision {
	in := v.Intent
	if d := coverHistory(v); d != nil {
		return d
	}
	var ask []decision.HostOp
	closed := in.Clone()
	open := 0
	for i, g := range in.History {
		if g.Closed {
			continue
		}
		open++
		for _, set := range g.Voters {
			promised, asking, missing, pending := 0, 0, []string(nil), []string(nil)
			for _, w := range set {
				h := v.Voice(w, set)
				switch {
				case GivenUp(v, w, h) || h != nil && HasPromised(v, h):
					promised++
				case h != nil && h.Process.State == cluster.ProcessForeign: // nothing of ours can stop that
					missing = append(missing, string(sight.NameOf(w)))
				case h != nil && h.UnderFence && h.Floor() >= in.Generation: // it keeps this intent, and is stopping its member
					asking++
					pending = append(pending, fmt.Sprintf("%s: its process is %s", h.Host, words.ProcessWords(h.Process)))
				case h == nil && v.AnswersSoon(w.Host): // it answers within the time of its op, and one whose disk hangs may never
					asking++
					pending = append(pending, string(sight.NameOf(w))+v.BusyWith(w.Host))
				case h != nil && h.UnderFence:
					asking++
					if !slices.ContainsFunc(ask, func(o decision.HostOp) bool { return o.Host == h.Host }) {
						ask = append(ask, decision.OnHost(h, cluster.Guard{}, cluster.Op{Kind: cluster.OpRefuse, Host: h.Host, Generation: in.Generation}))
					}
				default:
					missing = append(missing, string(sight.NameOf(w))+v.BusyWith(w.Host))
				}
			}
			if need := cluster.Blocking(len(set)); promised+asking < need {
				return decision.Stuck("promises", "",
					"generation {generation} is recorded and starts once {need} of the {set} voters of generation {generation2} have stopped and fenced it off; {promised} have. Unreachable: {missing}. Bring them back, or queue the command again with --lost for those gone for good",
					in.Generation, need, len(set), g.Generation, promised, strings.Join(missing, ", "))
			} else if promised >= need {
				continue
			} else if len(ask) == 0 {
				if v.Stalled() { // what goes on by itself is no reason to begin the same once more, but a person has to know
					v.Notice("promises", "", "generation {generation} is recorded and starts once {need} of the {set} voters of generation {generation2} have stopped and fenced it off; {promised} have, others are about to{because}. If one never does, power its host off and queue the command again with --lost",
						in.Generation, need, len(set), g.Generation, promised, words.Because(pending))
				}
				return &decision.Decision{Reason: words.F("generation {generation} replaces generation {generation2}, whose members are stopping", in.Generation, g.Generation), Again: decision.Soon}
			}
			return &decision.Decision{
				Reason: words.F("generation {generation} replaces generation {generation2}: its hosts stop their members and fence them off for good", in.Generation, g.Generation), Again: decision.Soon,
				Action: &decision.Action{Kind: decision.ActHosts, Ops: ask, Projection: &cluster.Projection{Voters: len(set), VotersAfter: len(set)}},
			}
		}
		closed.History[i].Closed = true
	}
	if open == 0 {
		return nil
	}
	if !v.Obs.Store.Read {
		return decision.Wait(false, "store-silent", "", "enough hosts have given up the generations before {generation}; waiting for the backup store to write that down", in.Generation)
	}
	return &decision.Decision{
		Reason: words.F("enough voters of every generation before {generation} have stopped and fenced it off: record that", in.Generation),
		Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: closed}},
	}
}

// coverHistory adds voter sets to the history that were written down without
// the store, by a leader that did not see this generation being written. The
// hosts that keep them do not keep this intent before that is done.
func coverHistory(v *step.View) *decision.Decision {
	in, news := v.Intent.Clone(), false
	for i := range v.Obs.Hosts {
		news = in.Cover(v.Obs.Hosts[i].Intent) || news
	}
	switch {
	case !news:
		return nil
	case !v.Obs.Store.Read:
		return decision.Wait(false, "store-silent", "", "hosts keep a change of the voters of a generation before {generation} that was made without the store; waiting for the backup store to write it down", in.Generation)
	}
	return &decision.Decision{
		Reason: words.F("hosts remember a change of voters before generation {generation} that was made without the store: record it, so that those voters are asked too", in.Generation),
		Action: &decision.Action{Kind: decision.ActIntent, Intent: &decision.IntentChange{Replace: in}},
	}
}

// GivenUp reports whether a person named the voter as lost, and its host is not there after
// all. One
// that is there is asked like any other, as long as a founding has: its member may run,
// and whoever names it cannot know that it came back since. One that refuses this leader
// follows another, and is not this one's to give up.
func GivenUp(v *step.View, w cluster.Voter, h *cluster.HostReport) bool {
	there := h != nil && h.UnderFence && h.Process.State != cluster.ProcessForeign || v.AnswersSoon(w.Host) || v.Presence(w.Host).Elsewhere()
	return sight.Lost(w, v.Intent.Lost) && v.Presence(w.Host) != cluster.PresenceRefusing && (!there || v.Stalled())
}

// HasPromised reports whether the host runs no member below this generation, and never will.
func HasPromised(v *step.View, h *cluster.HostReport) bool {
	stopped := h.Process.State == cluster.ProcessStopped || h.Local.Generation >= v.Intent.Generation
	return h.UnderFence && stopped && h.Floor() >= v.Intent.Generation
}
