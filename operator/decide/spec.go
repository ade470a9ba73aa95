package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// spec writes what the daemons go by, once the hosts that it names are there. Of a spec that is written it amends the
// operator's own keys.
func (w *World) spec(d *Decision) {
	if w.gone() {
		return // what it was is not known, and the hosts go by what they remember
	}
	now := cluster.Spec{}
	if w.Spec != nil {
		now = *w.Spec
	}
	want := w.Want.Spec
	now.MemberCount, now.EtcdVersion, now.DeadAfter, now.AutoRecoverAfter = want.MemberCount, want.EtcdVersion, want.DeadAfter, want.AutoRecoverAfter
	now.PauseBeforeLast, now.AcceptLoss, now.Options = want.PauseBeforeLast, want.AcceptLoss, want.Options
	accepts, _ := cluster.ParseVersion(want.AcceptOutage)                     // what is none is no consent
	if v, _, _ := strings.Cut(now.AcceptOutage, " "); v != accepts.String() { // a word that was given is not given again
		now.AcceptOutage = ""
		if !accepts.IsZero() {
			now.AcceptOutage = cluster.Consent(accepts, w.Now)
		}
	}
	if w.Record.Held {
		now.Hold = false
	}
	now.Hosts = w.names()
	if len(now.Hosts) < now.MemberCount {
		return // hosts are missing, which are being made
	}
	taken := w.Adoption() == TakenOver
	if taken {
		if other := w.unlike(w.Intent.Cluster); other != "" {
			d.wait(SpecRefused, other)
			return
		}
	}
	begin, waits := w.begin(d)
	switch {
	case waits:
	case begin != "":
		d.do(Step{Kind: WriteSpec, Spec: &now, Begin: begin, Why: "the cluster begins with backup " + begin})
	case w.Spec == nil || !w.Spec.Equal(now) || w.Record.Held || taken:
		d.do(Step{Kind: WriteSpec, Spec: &now, Adopted: taken, Why: w.differs(now)})
	}
}

// differs says in a word why the spec is written.
func (w *World) differs(now cluster.Spec) string {
	switch was := w.Spec; {
	case was == nil:
		return "the hosts are there"
	case w.Adoption() == TakenOver:
		return "the cluster is adopted"
	case was.MemberCount != now.MemberCount:
		return fmt.Sprintf("%s in place of %d", count(now.MemberCount, "member", "members"), was.MemberCount)
	case was.EtcdVersion != now.EtcdVersion:
		return fmt.Sprintf("etcd %s in place of %s", now.EtcdVersion, was.EtcdVersion)
	case !slices.Equal(was.Hosts, now.Hosts):
		return "other hosts may carry members"
	}
	return "other settings are wanted"
}

// names are the hosts that may carry members: as many of those that stay as are wanted, those with members first, beside
// those that are silent for too long and vote still; and of those that have to make way as many as there are others too few
// that the daemons hear. So each host that comes takes one voter over.
func (w *World) names() []cluster.HostID {
	var stay, leave []Host
	heard := 0
	for _, h := range w.Hosts {
		_, hears, _ := w.Hears(h.Name)
		switch {
		case w.retired(h):
		case h.stays():
			if stay = append(stay, h); hears && !w.lost(h) {
				heard++
			}
		case w.votes(h.Name) && w.named(h.Name):
			leave = append(leave, h)
		}
	}
	carries := func(h Host) bool { // a learner is a voter to be
		told, _, _ := w.Hears(h.Name)
		return w.votes(h.Name) || told.Carries
	}
	rank := func(h Host) int {
		_, hears, _ := w.Hears(h.Name)
		switch {
		case carries(h):
			return 0
		case hears:
			return 1
		case !w.lost(h):
			return 2
		}
		return 3
	}
	slices.SortStableFunc(stay, func(a, b Host) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.N, b.N)) })
	wanted := w.Want.Spec.MemberCount + w.Want.Spare
	if w.noHost() {
		wanted++
	}
	for ; len(stay) > 0; stay = stay[:len(stay)-1] { // a voter that is silent may be taken out yet
		last, others := stay[len(stay)-1], 0
		for _, h := range stay[:len(stay)-1] {
			if !w.lost(h) && (h.SilentSince.IsZero() || !w.votes(h.Name)) {
				others++
			}
		}
		if carries(last) || others < wanted {
			break
		}
	}
	slices.SortStableFunc(leave, func(a, b Host) int { // who is not heard makes way first
		_, first, _ := w.Hears(a.Name)
		_, second, _ := w.Hears(b.Name)
		switch {
		case first == second:
			return 0
		case first:
			return -1
		}
		return 1
	})
	stay = append(stay, leave[:min(len(leave), max(0, w.Want.Spec.MemberCount-heard))]...)
	slices.SortFunc(stay, func(a, b Host) int { return cmp.Compare(a.N, b.N) })
	var names []cluster.HostID
	for _, h := range stay {
		names = append(names, cluster.HostID(h.Name))
	}
	return names
}
