package plan

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// A generation may start once so many voters of every voter set of each open
// generation before it refuse theirs, or are named lost, that the rest is no
// quorum (SAFETY.md, rule 13).

// open lists the generations before the one that would be next, which are not
// closed.
func (v *view) open(intents bool) []cluster.PastGeneration {
	if v.intent == nil {
		return nil
	}
	past := slices.Clone(v.intent.History)
	if intents {
		past = append(past, v.past())
	}
	return slices.DeleteFunc(past, func(g cluster.PastGeneration) bool { return g.Closed })
}

// voice is the host in sight that can promise for a voter of a set; nil: none.
func (v *view) voice(w cluster.Voter, set []cluster.Voter) *cluster.HostReport {
	return v.obs.Voice(w, set)
}

func lost(w cluster.Voter, named []cluster.HostID) bool {
	return slices.Contains(named, w.Host) && w.Host != "" || slices.Contains(named, cluster.HostID(w.Member.String()))
}

// promisersInSight blocks a command for which not enough hosts could promise.
// They are asked only after the intent was written, so they are counted before.
func (v *view) promisersInSight(c *cluster.Command) *Decision {
	for _, g := range v.open(true) {
		for _, set := range g.Voters {
			can, missing, working := 0, []cluster.HostID(nil), []cluster.HostID(nil)
			for _, w := range set {
				h := v.voice(w, set)
				switch {
				case lost(w, c.Lost), h != nil && h.UnderFence && h.Process.State != cluster.ProcessForeign:
					can++
				case v.presence(w.Host) == cluster.PresenceBusy:
					working = append(working, w.Host)
				default:
					missing = append(missing, nameOf(w))
				}
			}
			if need := cluster.Blocking(len(set)); can < need {
				command, wayOut := v.withLost(c, missing)
				return wait(true, "promises", command,
					"a new generation from %s cannot begin: %d of the %d voters of generation %d have to stop and promise never to run it again, and the hosts of only %d can be asked; out of sight: %s%s",
					commandWords(c), need, len(set), g.Generation, can, awayWords(missing, working), wayOut)
			}
		}
	}
	return nil
}

func idList(ids []cluster.HostID) string {
	var s []string
	for _, id := range ids {
		s = append(s, string(id))
	}
	return strings.Join(s, ", ")
}

func nameOf(w cluster.Voter) cluster.HostID {
	if w.Host != "" {
		return w.Host
	}
	return cluster.HostID(w.Member.String())
}

// collectPromises asks for what is missing, and closes the generations before
// this one once enough have promised.
func (v *view) collectPromises() *Decision {
	in := v.intent
	if d := v.coverHistory(); d != nil {
		return d
	}
	var ask []HostOp
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
				h := v.voice(w, set)
				switch {
				case v.givenUp(w, h) || h != nil && v.promised(h):
					promised++
				case h != nil && h.Process.State == cluster.ProcessForeign: // nothing of ours can stop that
					missing = append(missing, string(nameOf(w)))
				case h != nil && h.UnderFence && h.Floor() >= in.Generation: // it keeps this intent, and is stopping its member
					asking++
					pending = append(pending, fmt.Sprintf("%s: its process is %s", h.Host, processWords(h.Process)))
				case h == nil && v.answersSoon(w.Host): // it answers within the time of its op, and one whose disk hangs may never
					asking++
					pending = append(pending, string(nameOf(w))+v.busyWith(w.Host))
				case h != nil && h.UnderFence:
					asking++
					if !slices.ContainsFunc(ask, func(o HostOp) bool { return o.Host == h.Host }) {
						ask = append(ask, onHost(h, cluster.Guard{}, cluster.Op{Kind: cluster.OpRefuse, Host: h.Host, Generation: in.Generation}))
					}
				default:
					missing = append(missing, string(nameOf(w))+v.busyWith(w.Host))
				}
			}
			if need := cluster.Blocking(len(set)); promised+asking < need {
				return wait(true, "promises", "",
					"generation %d is written, and begins once %d of the %d voters of generation %d have stopped and refuse it; %d have, and out of sight or not to be asked are %s: bring them back, or queue the command again and name those that are gone for good with --lost",
					in.Generation, need, len(set), g.Generation, promised, strings.Join(missing, ", "))
			} else if promised >= need {
				continue
			} else if len(ask) == 0 {
				if v.stalled() { // what goes on by itself is no reason to begin the same once more, but a person has to know
					v.aside("promises", "", "generation %d is written, and begins once %d of the %d voters of generation %d have stopped and refuse it; %d have, and others are about to%s: if one of those never ends, turn its machine off, and queue the command again with --lost for it",
						in.Generation, need, len(set), g.Generation, promised, because(pending))
				}
				return &Decision{Reason: fmt.Sprintf("generation %d supersedes generation %d, whose members are being stopped", in.Generation, g.Generation), Again: soon}
			}
			return &Decision{
				Reason: fmt.Sprintf("generation %d supersedes generation %d: its hosts stop their members and promise never to run them again", in.Generation, g.Generation), Again: soon,
				Action: &Action{Kind: ActHosts, Ops: ask, Projection: &cluster.Projection{Voters: len(set), VotersAfter: len(set)}},
			}
		}
		closed.History[i].Closed = true
	}
	if open == 0 {
		return nil
	}
	if !v.obs.Store.Read {
		return wait(false, "store-silent", "", "enough hosts have given up the generations before %d; waiting for the backup store to write that down", in.Generation)
	}
	return &Decision{
		Reason: fmt.Sprintf("enough voters of every generation before %d have stopped and refuse it: write that down", in.Generation),
		Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: closed}},
	}
}

// coverHistory adds voter sets to the history that were written down without
// the store, by a leader that did not see this generation being written. The
// hosts that keep them do not keep this intent before that is done.
func (v *view) coverHistory() *Decision {
	in, news := v.intent.Clone(), false
	for i := range v.obs.Hosts {
		news = in.Cover(v.obs.Hosts[i].Intent) || news
	}
	switch {
	case !news:
		return nil
	case !v.obs.Store.Read:
		return wait(false, "store-silent", "", "hosts keep a change of the voters of a generation before %d that was made without the store; waiting for the backup store to write it down", in.Generation)
	}
	return &Decision{
		Reason: fmt.Sprintf("hosts keep a change of the voters of a generation before %d that was made without the store: write it down, so that those voters are asked as well", in.Generation),
		Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}},
	}
}

// union is a with what of b it lacks, in their order.
func union(a, b []cluster.HostID) []cluster.HostID {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// busyWith says what a host is busy with, to put behind its name.
func (v *view) busyWith(id cluster.HostID) string {
	if g, ok := v.obs.HostGap(id); ok && v.presence(id).Occupied() {
		return " (busy: " + g.Detail + ")"
	}
	return ""
}

// presence is how the host stands to this leader.
func (v *view) presence(id cluster.HostID) cluster.Presence {
	p, _ := v.obs.Presence(id)
	return p
}

// anyOf: one of the hosts stands so.
func (v *view) anyOf(hosts []cluster.HostID, p cluster.Presence) bool {
	return slices.ContainsFunc(hosts, func(id cluster.HostID) bool { return v.presence(id) == p })
}

// answersSoon: the host carries out an op, or it has begun with one of the looks that it
// begins by itself, which end soon; by the time that a founding has, they did not.
func (v *view) answersSoon(id cluster.HostID) bool {
	p := v.presence(id)
	return p == cluster.PresenceBusy || p == cluster.PresenceStarting && !v.stalled()
}

// givenUp: a person named the voter as lost, and its host is not there after all. One
// that is there is asked like any other, as long as a founding has: its member may run,
// and whoever names it cannot know that it came back since. One that refuses this leader
// follows another, and is not this one's to give up.
func (v *view) givenUp(w cluster.Voter, h *cluster.HostReport) bool {
	there := h != nil && h.UnderFence && h.Process.State != cluster.ProcessForeign || v.answersSoon(w.Host) || v.presence(w.Host).Elsewhere()
	return lost(w, v.intent.Lost) && v.presence(w.Host) != cluster.PresenceRefusing && (!there || v.stalled())
}

// following are the voters whose hosts answer, and follow another leader until they
// hear of this one's next fence. Nothing shows that their members are down.
func (v *view) following() (hosts, leaders []cluster.HostID) {
	add := func(id cluster.HostID) {
		g, ok := v.obs.HostGap(id)
		if !ok || v.presence(id) != cluster.PresenceRefusing || g.Promised.OutOfReach() {
			return
		}
		hosts = append(hosts, id)
		if !slices.Contains(leaders, g.Promised.Host) {
			leaders = append(leaders, g.Promised.Host)
		}
	}
	if v.seen {
		for _, s := range v.roster.Voters() {
			if !s.Up {
				add(s.HostID)
			}
		}
		return hosts, leaders
	}
	for _, vo := range v.intent.Voters {
		add(vo.Host)
	}
	return hosts, leaders
}

// newLead says that voters which may well serve have to obey this leader first;
// nil: what is missing is missing for another reason too.
func (v *view) newLead(enough int) *Decision {
	hosts, leaders := v.following()
	if len(hosts) == 0 || len(v.roster.Up())+len(hosts) < enough {
		return nil
	}
	follow := "still follows"
	if len(hosts) > 1 {
		follow = "still follow"
	}
	return waitLater("settling", "", "the lead has changed: %s %s the former leader %s; nothing is changed until that ends, which it does by itself", idList(hosts), follow, idList(leaders))
}

// promised: the host runs no member below this generation, and never will.
func (v *view) promised(h *cluster.HostReport) bool {
	stopped := h.Process.State == cluster.ProcessStopped || h.Local.Generation >= v.intent.Generation
	return h.UnderFence && stopped && h.Floor() >= v.intent.Generation
}
