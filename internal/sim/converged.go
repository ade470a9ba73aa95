package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/sim/fakeetcd"
)

// unconverged says what is not as it should be with so many voters, when the
// spec wants that many or more; empty: all is well.
func (w *World) unconverged(count, wanted int) string {
	w.step()
	var why []string
	voters, learners := w.voters()
	seen := w.etcd.Look()
	if len(voters) != count {
		why = append(why, "there are "+itoa(len(voters))+" voters, "+itoa(count)+" are wanted")
	}
	if len(learners) > 0 {
		why = append(why, itoa(len(learners))+" learners are left")
	}
	for _, v := range voters {
		if !slices.ContainsFunc(seen, func(s fakeetcd.Seen) bool { return s.Member == v.ID && s.Serving && s.Leader != 0 }) {
			why = append(why, "voter "+v.Name+" "+v.ID.String()+" does not serve")
		}
	}
	why = append(why, w.ungenerated(seen)...)
	if lost := w.uncounted(); lost != "" {
		why = append(why, lost)
	}
	why = append(why, w.otherReleases(voters, seen, count < wanted)...)
	mixed := slices.ContainsFunc(seen, func(s fakeetcd.Seen) bool { return s.Version != seen[0].Version })
	for _, said := range []string{w.full(), w.odd(voters, mixed), w.insecure(voters), w.foreignLeft(seen)} {
		if said != "" {
			why = append(why, said)
		}
	}
	in := w.recorded()
	if in == nil || in.State != cluster.IntentFounded || in.Next != nil || len(in.Voters) != len(voters) {
		why = append(why, "the intent is not settled")
	}
	led := false
	for _, m := range w.hosts() {
		d := m.daemon.Load()
		switch s, _ := m.state(); {
		case m.gone.Load() || m.elsewhere:
			continue
		case d == nil:
			why = append(why, "the daemon of "+m.name+" is down")
			continue
		case s.Local.State != cluster.MemberNone && !slices.ContainsFunc(voters, func(v cluster.Member) bool { return v.ID == s.Local.Member }) && s.Local.State != cluster.MemberPrepared:
			why = append(why, m.name+" carries member "+s.Local.Member.String()+", which is not listed")
		}
		d.mu.Lock()
		p, at := d.decision, d.decided
		d.mu.Unlock()
		if d.manager.Status().Leading && time.Since(at) < time.Minute {
			led = true
			// With fewer hosts than members are wanted there is nothing left to do.
			if !p.Done && !(count < wanted && p.Action == nil) && !waitsForVersion(p) {
				why = append(why, m.name+" leads and says: "+p.Rule+": "+p.Reason.String())
				for _, b := range p.Blockers {
					why = append(why, "blocked by "+b.Code+": "+b.Sentence.String())
				}
			}
		}
	}
	if !led {
		why = append(why, "no daemon leads")
	}
	return strings.Join(why, "; ")
}

func itoa(n int) string { return strconv.Itoa(n) }
