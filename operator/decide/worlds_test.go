package decide

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"pgregory.net/rapid"
)

// worlds are made up: nothing in them has to go together.
func worlds(t *rapid.T) World {
	sizes := rapid.SampledFrom([]int{1, 3, 5, 7, 9})
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "never") {
			return time.Time{}
		}
		return now.Add(-time.Duration(rapid.IntRange(0, 3000).Draw(t, "minutes")) * time.Minute)
	})
	w := World{Now: now, Want: Want{
		Spec:  cluster.Spec{MemberCount: sizes.Draw(t, "size"), EtcdVersion: version(nil, "")},
		Spare: rapid.IntRange(0, 2).Draw(t, "spare"), ReplaceAfter: 5 * time.Minute,
		Paused: rapid.IntRange(0, 9).Draw(t, "paused") == 0, Hibernate: rapid.IntRange(0, 9).Draw(t, "hibernate") == 0, Backup: rapid.Bool().Draw(t, "backup"),
		Volumes: rapid.SampledFrom([]Volumes{KeepUnproven, KeepVolumes, DeleteVolumes}).Draw(t, "volumes"),
	}, Record: Record{There: rapid.IntRange(0, 9).Draw(t, "record") > 0, Remade: rapid.IntRange(0, 9).Draw(t, "remade") == 0,
		Last: LastBackup{Taken: rapid.Bool().Draw(t, "taken"), Proven: rapid.Bool().Draw(t, "last proven")}}, Budget: rapid.IntRange(0, 5).Draw(t, "budget")}
	some := func(label string) (out []string) {
		for n := 1; n <= 8; n++ {
			if rapid.Bool().Draw(t, fmt.Sprint(label, n)) {
				out = append(out, fmt.Sprintf("main-%d", n))
			}
		}
		return out
	}
	voters := func(label string) (out []cluster.Voter) {
		for i, h := range some(label) {
			out = append(out, cluster.Voter{Host: cluster.HostID(h), Member: cluster.MemberID(i + 1)})
		}
		return out
	}
	if rapid.Bool().Draw(t, "spec") {
		w.Spec = &cluster.Spec{MemberCount: sizes.Draw(t, "count"), EtcdVersion: w.Want.Spec.EtcdVersion}
		for _, h := range some("named") {
			w.Spec.Hosts = append(w.Spec.Hosts, cluster.HostID(h))
		}
	}
	if rapid.Bool().Draw(t, "intent") {
		w.Intent = &cluster.Intent{Generation: 2, State: cluster.IntentFounded, Voters: voters("voter"), Next: voters("next"), History: []cluster.PastGeneration{{Generation: 1, Closed: rapid.Bool().Draw(t, "closed"), Voters: [][]cluster.Voter{voters("past")}}}}
	}
	if rapid.IntRange(0, 3).Draw(t, "adopts") == 0 {
		if w.Record.Adopts = rapid.Bool().Draw(t, "noted"); w.Record.Adopts {
			w.Record.AdoptsID = cluster.ClusterID(rapid.IntRange(0, 2).Draw(t, "noted ID"))
		}
		w.Want.GivenUp = rapid.IntRange(0, 3).Draw(t, "given up") == 0
		if rapid.Bool().Draw(t, "adopt") {
			w.Want.Adopt = &Adopt{Cluster: cluster.ClusterID(rapid.IntRange(0, 2).Draw(t, "cluster"))}
		}
		if rapid.Bool().Draw(t, "joining") {
			w.Joining = &Joining{Cluster: 1, Members: 3, Hosts: rapid.IntRange(0, 3).Draw(t, "joined")}
		}
		w.Want.LetGo = rapid.IntRange(0, 5).Draw(t, "let go") == 0
		if w.Intent != nil && rapid.Bool().Draw(t, "of it") {
			w.Intent.Cluster = cluster.ClusterID(rapid.IntRange(0, 2).Draw(t, "its ID"))
		}
		if rapid.Bool().Draw(t, "theirs") {
			w.Intent = &cluster.Intent{Joins: rapid.Bool().Draw(t, "joins")}
		}
	}
	names := rapid.SampledFrom([]string{"", "b1", "b2"})
	if rapid.IntRange(0, 3).Draw(t, "begins") == 0 {
		w.Want.From = &Origin{Backup: names.Draw(t, "from"), NewestProven: rapid.Bool().Draw(t, "newest")}
		w.Record.Begun = Begun{Backup: names.Draw(t, "begun"), Queued: rapid.Bool().Draw(t, "queued"), Asked: rapid.Bool().Draw(t, "asked")}
	}
	if rapid.Bool().Draw(t, "told") {
		w.Told = &Told{ProvenName: names.Draw(t, "proven name"), BackedName: names.Draw(t, "backed name"), Blockers: rapid.SampledFrom([][]string{nil, {NoQuorum}, {noMembers}, {"no-host"}}).Draw(t, "blockers"), At: moment.Draw(t, "at"), AllUp: rapid.Bool().Draw(t, "up"), Backed: moment.Draw(t, "backed"), Proven: moment.Draw(t, "proven")}
		w.Told.Seen = moment.Draw(t, "seen")
		for _, h := range some("heard") {
			w.Told.Hosts = append(w.Told.Hosts, ToldHost{Name: h, Carries: rapid.Bool().Draw(t, "carries"), Spent: rapid.Bool().Draw(t, "spent")})
		}
		w.Told.Up, w.Told.MayGo = some("member up"), rapid.SampledFrom([][]string{nil, {"p1"}, {"p2"}}).Draw(t, "may go")
		w.Told.After = now.Add(-time.Duration(rapid.IntRange(0, 30).Draw(t, "after")) * time.Second)
	}
	for n := 1; n <= 8; n++ {
		if rapid.Bool().Draw(t, fmt.Sprint("host", n)) {
			h := Host{N: n, Name: fmt.Sprintf("main-%d", n), Set: rapid.Bool().Draw(t, "set"), Leaves: rapid.Bool().Draw(t, "leaves"), Pod: rapid.Bool().Draw(t, "pod"),
				Claim:   rapid.SampledFrom([]Claim{ClaimThere, ClaimNone, ClaimOther, ClaimLeaving, ClaimLost}).Draw(t, "claim"),
				Replace: rapid.IntRange(0, 4).Draw(t, "replace") == 0, SpentSince: moment.Draw(t, "spentSince"), SilentSince: moment.Draw(t, "silent")}
			if h.Adopts = rapid.IntRange(0, 9).Draw(t, "adopts") == 0; h.Adopts {
				h.AdoptsID = cluster.ClusterID(rapid.IntRange(0, 2).Draw(t, "it names"))
			}
			h.Running = h.Set && rapid.Bool().Draw(t, "running")
			h.OldSet, h.OldPod, h.Going, h.Serves = rapid.Bool().Draw(t, "old set"), rapid.Bool().Draw(t, "old pod"), rapid.IntRange(0, 9).Draw(t, "going") == 0, rapid.Bool().Draw(t, "serves")
			h.Stuck = rapid.SampledFrom([]string{"", "", "ErrImagePull"}).Draw(t, "stuck")
			if h.Stuck == "" {
				h.Runs = moment.Draw(t, "runs")
			}
			w.Hosts = append(w.Hosts, h)
		}
	}
	if rapid.Bool().Draw(t, "pause") {
		w.Pause = &Pause{ID: "p1", Host: fmt.Sprintf("main-%d", rapid.IntRange(1, 8).Draw(t, "paused host")), For: PauseFor}
		if rapid.Bool().Draw(t, "own") {
			w.Pause.Asked = now.Add(-time.Duration(rapid.IntRange(0, 600).Draw(t, "asked")) * time.Second)
		}
	}
	if rapid.Bool().Draw(t, "authorities") {
		w.Authorities = authoritiesOf(map[string]string{"phase": rapid.SampledFrom([]string{"trust", "sign", "drop", "done"}).Draw(t, "phase")})
		w.Authorities.There, w.Want.Rotate = rapid.IntRange(0, 9).Draw(t, "keys") > 0, rapid.IntRange(0, 1).Draw(t, "rotate")
		for i := range w.Hosts {
			w.Hosts[i].Outlived = w.Hosts[i].Pod && w.Authorities.Phase == cluster.RotateDrop && rapid.IntRange(0, 5).Draw(t, "outlived") == 0
		}
		times := rapid.SampledFrom([]time.Time{{}, now.Add(-2 * time.Minute), now.Add(-time.Minute), now, now.Add(time.Hour)})
		if rapid.IntRange(0, 2).Draw(t, "some end") == 0 {
			w.Authorities.Ends, w.Authorities.OtherEnds, w.Stamped = times.Draw(t, "ends"), times.Draw(t, "others end"), times.Draw(t, "stamped")
			asleep := rapid.Bool().Draw(t, "asleep")
			for i := range w.Hosts {
				h := &w.Hosts[i]
				h.LeavesEnd, h.Pod, h.Running, h.Outlived = times.Draw(t, "leaves end"), h.Pod && !asleep, h.Running && !asleep, h.Outlived && !asleep
			}
		}
		words := rapid.SampledFrom([]string{"former", "both", "next", ""})
		for i := 0; w.Told != nil && i < len(w.Told.Hosts); i++ {
			if h := &w.Told.Hosts[i]; rapid.IntRange(0, 3).Draw(t, "ready") > 0 {
				h.Trust = &Trust{Daemon: w.Authorities.Trusts, Member: w.Authorities.Member, Signed: w.Authorities.Signs}
			} else {
				h.Trust = &Trust{Daemon: certificatesOf(words.Draw(t, "daemon")), Member: certificatesOf(words.Draw(t, "member")), Signed: certificatesOf(words.Draw(t, "signed"))}
			}
		}
	}
	w.Record.Next = w.lastNumber() + 1 + rapid.IntRange(0, 3).Draw(t, "skipped")
	return w
}

// What must never be decided, whatever is seen.
func TestWorlds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := worlds(t)
		d := Next(w)
		taking := 0
		for _, s := range d.Steps {
			if s.Kind.Takes() {
				taking++
			}
			never(t, &w, s)
		}
		if taking > 1 || taking == 1 && len(d.Steps) > 1 {
			t.Fatalf("more than one step beside one that takes away: %v", d.Steps)
		}
		if again := Next(w); !reflect.DeepEqual(again, d) {
			t.Fatalf("the same world gives another decision: %v, %v", d, again)
		}
	})
}

func never(t *rapid.T, w *World, s Step) {
	host := Host{}
	known := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.N == s.N && s.N > 0 })
	if known >= 0 {
		host = w.Hosts[known]
	}
	ends := !w.Want.Deleted.IsZero()
	neverElsewhere(t, w, s)
	switch s.Kind {
	case DropVolume:
		if !ends && w.votes(host.Name) {
			t.Fatalf("the volume of a voter goes: %+v", s)
		}
		if !ends && w.Intent == nil {
			t.Fatalf("a volume goes although nobody knows who votes: %+v", s)
		}
		if !ends && host.Claim != ClaimLeaving && (w.fresh() == nil || !w.Told.Proven.After(host.SpentSince) || host.SpentSince.IsZero()) {
			t.Fatalf("a volume goes without a word of its daemon and a newer proven backup: %+v", s)
		}
	case StopHost:
		if !ends && !w.Want.Hibernate && (w.votes(host.Name) || w.named(host.Name)) {
			t.Fatalf("a host stops that votes, or may: %+v", s)
		}
	case RollHost:
		idles := w.Told != nil && !slices.Contains(w.Told.Up, host.Name) && w.Now.Sub(w.Told.After) <= recent && !host.Serves && w.Now.Sub(host.Runs) > Slow
		stops := host.Pod && host.OldPod && !host.Runs.IsZero() && !idles
		switch p, told := w.Pause, w.fresh(); {
		case !stops || !w.votes(host.Name):
		case p == nil || p.Host != host.Name || p.Asked.IsZero() || w.Now.Sub(p.Asked) >= p.For/2:
			t.Fatalf("a voter's pod goes without a pause: %+v", s)
		case told == nil || !told.AllUp || !slices.Contains(told.MayGo, p.ID) || w.Now.Sub(told.After) > recent:
			t.Fatalf("a voter's pod goes without a word of now: %+v", s)
		}
	case StartHost:
		startsOn(t, w, host)
	case EndPod:
		if !host.Outlived || host.OldLeaves || w.Want.Paused {
			t.Fatalf("a pod ends that has no reason to: %+v", host)
		}
	case Rotate:
		stepsOn(t, w, s)
	case MakeHost:
		if known < 0 && s.N < w.Record.Next {
			t.Fatalf("a number is used again: %+v, the next is %d", s, w.Record.Next)
		}
		if known >= 0 && host.Claim == ClaimNone {
			t.Fatalf("another volume is made under a name that was used: %+v", s)
		}
	case SetBudget, LowerBudget:
		if s.AtLeast < quorumOf(w.largest()) {
			t.Fatalf("the budget is below the quorum: %+v", s)
		}
	case WriteSpec:
		if w.Want.Paused {
			return // what is written stays, but for the hold
		}
		if err := s.Spec.Validate(); err != nil {
			t.Fatalf("a spec is written that is refused: %v", err)
		}
		if s.Begin != "" && w.Intent != nil {
			t.Fatalf("a cluster that is there begins anew: %+v", s)
		}
		if s.Begin == "" && w.Intent == nil && w.Want.From != nil && w.Record.Begun == (Begun{}) {
			t.Fatalf("a cluster may begin empty that is to begin with a backup: %+v", s)
		}
		for _, h := range s.Spec.Hosts {
			if !slices.ContainsFunc(w.Hosts, func(o Host) bool { return o.Name == string(h) }) {
				t.Fatalf("a host is named that is not there: %s", h)
			}
		}
	}
}

// neverElsewhere is about a cluster that is to be adopted, or is being adopted.
func neverElsewhere(t *rapid.T, w *World, s Step) {
	ends := !w.Want.Deleted.IsZero()
	switch {
	case w.Adopting() && (s.Kind == WriteSpec || s.Kind == AskBackup && w.Adoption() != Beside || !ends && s.Kind.Takes()):
		t.Fatalf("a cluster that is to be adopted gets a spec, or loses something: %+v", s)
	case w.Adoption() == UnderWay && w.Joining != nil && w.Joining.Hosts > 0 && !w.Want.GivenUp && !w.NamespaceEnds && s.Kind.Takes() && s.Kind != LetGo:
		t.Fatalf("something goes while hosts may vote in a cluster that somebody else runs: %+v", s)
	case w.Adoption() == TakenOver && ends && !w.NamespaceEnds && s.Kind.Takes() && s.Kind != LetGo:
		t.Fatalf("something goes of a cluster that was taken over just now: %+v", s)
	case w.adopted() && ends && !w.NamespaceEnds && (s.Kind.Takes() && s.Kind != LetGo && !w.Want.GivenUp || s.Kind == DropVolume && w.Hosts[slices.IndexFunc(w.Hosts, func(h Host) bool { return h.N == s.N })].Claim != ClaimLeaving):
		t.Fatalf("something goes that may be all there is of a cluster: %+v", s)
	case s.Adopted && (w.Joining == nil && (w.Meant() == 0 || !slices.Contains([]cluster.ClusterID{w.said(), w.Record.AdoptsID}, w.Intent.Cluster)) || w.Joining != nil && w.Joining.Cluster != w.Intent.Cluster):
		t.Fatalf("another cluster than the one that was joined is taken for it: %+v", s)
	case s.Adopted && (w.Intent == nil || w.Intent.Adopted()):
		t.Fatalf("an adoption is over without a record: %+v", s)
	}
}

// startsOn: no first pod of a cluster starts with what has ended, or may have.
func startsOn(t *rapid.T, w *World, h Host) {
	a := w.Authorities
	past := func(end time.Time) bool {
		return !end.IsZero() && w.Now.After(end) && (w.Stamped.IsZero() || w.Stamped.After(end))
	}
	switch {
	case a == nil || a.Unmade || !w.Rests():
	case a.There && past(a.Ends):
		t.Fatalf("%s starts with authorities that ended at %s: %+v", h.Name, a.Ends, a)
	case w.Keyless() && past(h.LeavesEnd):
		t.Fatalf("%s starts with certificates that ended at %s, and nobody can sign others: %+v", h.Name, h.LeavesEnd, a)
	}
}

// cuts: authorities are replaced at once where nobody takes what they sign: by a person's word, or where no pod runs and two clocks say so.
func cuts(t *rapid.T, w *World, s Step) bool {
	a, asked := w.Authorities, w.Want.Rotate > w.Authorities.Rotate
	past := func(end time.Time) bool { return !end.IsZero() && w.Now.After(end) }
	switch {
	case s.Phase != cluster.RotateDrop || s.Next && a.Phase != cluster.RotateTrust:
		return false
	case a.There && past(a.Ends):
		if !asked && !(w.Rests() && w.Stamped.After(a.Ends)) {
			t.Fatalf("authorities end by the operator's clock alone, or under pods that run: %+v", s)
		}
		return true
	case w.Keyless() && w.Rests() && (asked || a.There):
		if !slices.ContainsFunc(w.Hosts, func(h Host) bool { return !h.Leaves || past(h.LeavesEnd) }) {
			t.Fatalf("authorities are replaced at once, and all hosts have certificates that last: %+v", s)
		}
		return true
	}
	return false
}

// stepsOn: the authorities go on only where each host that votes or runs was told of as the present phase has it.
func stepsOn(t *rapid.T, w *World, s Step) {
	a, told := w.Authorities, w.fresh()
	if cuts(t, w, s) || s.Phase == cluster.RotateTrust && a.Phase == cluster.RotateTrust && a.worn(w.Now) {
		return
	}
	if !a.There || a.Phase == cluster.RotateDone {
		if s.Phase != cluster.RotateTrust {
			t.Fatalf("a rotation begins with %+v", s)
		}
		return
	}
	next := map[cluster.RotationPhase]cluster.RotationPhase{cluster.RotateTrust: cluster.RotateSign, cluster.RotateSign: cluster.RotateDrop, cluster.RotateDrop: cluster.RotateDone}
	if s.Phase != next[a.Phase] || told == nil {
		t.Fatalf("%s follows on %s by %+v", s.Phase, a.Phase, told)
	}
	for _, h := range w.Hosts {
		if !h.Running && !w.votes(h.Name) {
			continue
		}
		i := slices.IndexFunc(told.Hosts, func(o ToldHost) bool { return o.Name == h.Name })
		if i < 0 || h.OldLeaves || !slices.Equal(told.Hosts[i].Trust.Daemon, a.Trusts) || w.votes(h.Name) && !slices.Equal(told.Hosts[i].Trust.Member, a.Member) {
			t.Fatalf("%s follows on %s while %s is not as it has it: %+v", s.Phase, a.Phase, h.Name, told)
		}
		if a.Phase != cluster.RotateTrust && !slices.Equal(told.Hosts[i].Trust.Signed, a.Signs) {
			t.Fatalf("%s shows certificates of the former authorities", h.Name)
		}
	}
}

// A person is shown nothing that gives up a host which the daemons hear, and no backup while a voter's volume is there.
func TestWaysOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := worlds(t)
		way := w.WayOut()
		if way == nil {
			return
		}
		for _, name := range way.Lost {
			if _, heard, known := w.Hears(name); heard || !known || !w.votes(name) {
				t.Fatalf("%s is given up: %+v", name, w.Told)
			}
		}
		for _, h := range w.Hosts {
			if way.Survivor == "" && len(way.GiveUp) == 0 && !slices.Contains(w.Told.Blockers, noMembers) && slices.Contains(w.votersHosts(), h.Name) && !h.volumeGone() && h.Claim != ClaimLeaving {
				t.Fatalf("a backup is offered, and %s has its volume, which nobody gave up", h.Name)
			}
			if slices.Contains(way.GiveUp, h.Name) && (!w.lost(h) || !w.votes(h.Name)) {
				t.Fatalf("%s is to be given up, and is silent since %s", h.Name, h.SilentSince)
			}
		}
	})
}

// A budget is raised no later than the spec asks for more.
func TestBudgetComesFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := worlds(t)
		budget := w.Budget
		for _, s := range Next(w).Steps {
			switch s.Kind {
			case SetBudget:
				budget = s.AtLeast
			case WriteSpec:
				votes := max(w.voters(), s.Spec.MemberCount)
				if w.Spec != nil && w.Intent != nil && slices.ContainsFunc(w.Intent.Voters, func(v cluster.Voter) bool { return !slices.Contains(s.Spec.Hosts, v.Host) }) {
					votes = max(votes, len(w.Intent.Voters)+1) // one comes before the other goes
				}
				if least := quorumOf(votes); budget < least && !w.Want.Paused {
					t.Fatalf("the spec asks for %d members under a budget of %d", s.Spec.MemberCount, budget)
				}
			}
		}
	})
}
