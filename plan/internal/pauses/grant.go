package pauses

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// Grant lets a host go that somebody asked for: the first that can go now. Its own daemon
// writes the pause down, and from then on nobody else is taken away, whoever leads
// (docs/adr/039-a-pause-is-a-permission.md). What keeps a host from going is noted by
// [NoteAsked], and the other rules go on: it may wait for their work.
func Grant(v *step.View) *decision.Decision {
	var settles *decision.Decision
	for _, p := range asked(v) {
		s, listed := seatOf(v, p.Host)
		if !listed {
			continue
		}
		h := s.Host
		switch why, soon := stays(v, p, s); {
		case soon != nil && settles == nil:
			settles = &decision.Decision{Reason: words.F("{why}; then host {host} is paused", soon.Why, p.Host), Again: soon.Again}
			continue
		case why != "" || soon != nil:
			continue
		}
		after := v.Projection(0, 0)
		if !s.Learner && s.Up {
			after = v.Projection(0, -1)
		}
		reason := words.F("pause host {host} for {for}: {reason}", p.Host, words.Shortly(p.For), p.Reason)
		if s.RaftLeader && s.Up && after.Voters > 1 && sight.HandsOver(s) {
			return step.HandOver(v, s, reason, nil)
		}
		if !p.Timed(v.Obs.Clock()) {
			return timed(v, p, after, reason)
		}
		return &decision.Decision{
			Reason: words.F("{what}: its daemon writes down that it may go, and no other member is taken away until its end", reason), Again: decision.Soon,
			Action: &decision.Action{Kind: decision.ActHosts, Projection: &after, Command: commandOf(p), Ops: []decision.HostOp{
				decision.OnHost(h, guard(v, s, after), cluster.Op{Kind: cluster.OpPause, Host: h.Host, Pause: &p})}},
		}
	}
	return settles
}

// asked are the pauses that are to be granted, in the order in which they were asked for.
func asked(v *step.View) (out []cluster.Pause) {
	if !v.Obs.Store.Read || v.Obs.PausesUnread != "" || v.Obs.PausesDamaged != "" || v.Obs.PausesLost {
		return nil
	}
	now := v.Obs.Clock()
	for _, p := range v.Obs.Paused {
		if h, there := v.Obs.Host(p.Host); p.Asked(now) && !(there && h.Granted(p.ID)) {
			out = append(out, p)
		}
	}
	return out
}

// seatOf is the member that a host carries.
func seatOf(v *step.View, id cluster.HostID) (cluster.Seat, bool) {
	for _, s := range v.Roster.Seats {
		if s.Host != nil && s.Host.Host == id {
			return s, true
		}
	}
	return cluster.Seat{}, false
}

// stays says why a host may not go now; or what is over in seconds; neither: it may.
func stays(v *step.View, p cluster.Pause, s cluster.Seat) (why string, soon *sight.Hindrance) {
	h := s.Host
	if !h.UnderFence {
		return "it has not accepted this leader's fence", nil
	}
	for i := range v.Obs.Hosts {
		if o := &v.Obs.Hosts[i]; !o.TakesPauses {
			return fmt.Sprintf("the daemon of host %s does not count with the pauses of others: update it", o.Host), nil
		}
	}
	if r := h.PauseRefused; r != nil && r.ID == p.ID {
		return "its daemon could not take it: " + r.Why, nil
	}
	if s.Learner {
		return "", nil
	}
	in := v.Intent
	switch {
	case in == nil || in.State != cluster.IntentFounded || len(in.Next) > 0 || len(in.Pending) > 0 || !cluster.SameVoters(in.Voters, v.VotersNow()) || !v.Roster.Linearizable:
		return "a change of the voters is under way, or was not seen to end", nil
	}
	if after := v.Projection(0, -1); s.Up && after.MarginAfter() < 0 && !p.Outage {
		return fmt.Sprintf("too few voters would be left to serve: %s", after), nil
	}
	switch away := v.MayBeAway(s); {
	case away == nil:
		return "", nil
	case away.Settle:
		return "", away
	default:
		return away.Why.String(), nil
	}
}

// guard is that of a restart: what a member that is not up would say does not matter, since
// nothing depends on it.
func guard(v *step.View, s cluster.Seat, after cluster.Projection) cluster.Guard {
	if s.Learner || !s.Up {
		return cluster.Guard{}
	}
	g := v.Roster.Guard()
	g.NotLeader = after.Voters > 1 && !(s.RaftLeader && !sight.HandsOver(s))
	return g
}

// timed writes down until when the host may be off, right before its daemon is asked: from
// then on its silence does not count.
func timed(v *step.View, p cluster.Pause, after cluster.Projection, reason words.Text) *decision.Decision {
	now := slices.Clone(v.Obs.Paused)
	for i := range now {
		if now[i].ID == p.ID {
			now[i].From = v.Obs.Clock().UTC()
			now[i].Until = now[i].From.Add(p.For)
		}
	}
	return writePauses(v, now, after, commandOf(p), words.F("{what}; first its time is written down", reason))
}

func commandOf(p cluster.Pause) string {
	return fmt.Sprintf("etcdadm host pause %s --for %s --reason %s", cluster.ShellWord(string(p.Host)), words.Shortly(p.For), cluster.ShellWord(p.Reason))
}

// NoteAsked tells of pauses that were asked for and not granted, and why not.
func NoteAsked(v *step.View) {
	for _, p := range asked(v) {
		s, listed := seatOf(v, p.Host)
		if !listed {
			continue // nothing is taken away with the host, or it is off already
		}
		why, soon := stays(v, p, s)
		if soon != nil {
			why = soon.Why.String()
		}
		if why != "" {
			v.Notice("host-paused", "etcdadm host resume "+cluster.ShellWord(string(p.Host)), "host {host} is to be paused ({reason}), and has to stay yet: {why}", p.Host, p.Reason, why)
		}
	}
}

// kept are the pauses on record that a write of them keeps: all that are not over, and of
// those that were ended the ones that a host may not have heard of.
func kept(v *step.View) (out []cluster.Pause) {
	now := v.Obs.Clock()
	for _, p := range v.Obs.Paused {
		h, there := v.Obs.Host(p.Host)
		if p.Over(now) && !(there && h.Granted(p.ID)) || p.Ended && there && !h.Granted(p.ID) {
			continue
		}
		out = append(out, p)
	}
	return out
}

// ended marks those of a list that fit as ended. One that nobody was granted is dropped.
func ended(v *step.View, all []cluster.Pause, fits func(cluster.Pause) bool) (out []cluster.Pause) {
	for _, p := range all {
		switch {
		case !fits(p) || p.Ended:
			out = append(out, p)
		case p.ID != "" && !p.Until.IsZero():
			p.Ended, p.Until, p.For = true, v.Obs.Clock().UTC(), min(p.For, cluster.MaxPause)
			if p.Until.Sub(p.From) > cluster.MaxPause { // nobody granted that
				p.From = p.Until
			}
			p.Reason = cmp.Or(p.Reason, "no reason was given")
			out = append(out, p)
		}
	}
	return out
}

// heldBy are pauses that a host says it was granted, and that are not on record, as they are
// written down in order to end them: what the host says of its times may be nothing, where it
// cannot read its file.
func heldBy(v *step.View, id cluster.HostID) (out []cluster.Pause) {
	h, there := v.Obs.Host(id)
	if !there {
		return nil
	}
	for _, p := range h.Paused {
		if !slices.ContainsFunc(v.Obs.Paused, func(o cluster.Pause) bool { return o.ID == p.ID }) {
			now := v.Obs.Clock().UTC()
			out = append(out, cluster.Pause{
				ID: p.ID, Host: id, By: p.By, For: p.For, From: now, Until: now, Reason: p.Reason,
			})
		}
	}
	return out
}

// whose names who asked for pauses, each once.
func whose(all []cluster.Pause) string {
	var names []string
	for _, p := range all {
		if p.By != "" && !slices.Contains(names, p.By) {
			names = append(names, p.By)
		}
	}
	return strings.Join(names, ", ")
}
