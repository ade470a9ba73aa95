package show

import (
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// acted is a cluster of three whose daemons told that nothing is left to be done for the spec that is written.
func acted() Seen {
	s := seen(3, time.Hour)
	s.World.Spec = &cluster.Spec{MemberCount: 3, EtcdVersion: s.Told.Version, Options: map[string]string{"quota-backend-bytes": "1"}}
	spec, settled := *s.World.Spec, true
	s.Told.Spec, s.Told.Settled, s.Told.Rule, s.Told.Reason = &spec, &settled, "steady", "3 of 3 voters are up, as the spec asks"
	s.World.Intent.Voters = []cluster.Voter{{Host: "main-1"}, {Host: "main-2"}, {Host: "main-3"}}
	return s
}

// A cluster is ready once the daemons told, of the spec that is written now, that nothing is left to be done. Of a release that does
// not tell that much it is ready as soon as as many members as are wanted run the version.
func TestReadyByTheSpecThatIsWritten(t *testing.T) {
	no := false
	for what, c := range map[string]struct {
		change   func(s *Seen)
		want, by string // the reasons of Ready and Progressing
	}{
		"all is done": {func(*Seen) {}, "Ready", "Nothing"},
		"a backup is taken": {func(s *Seen) {
			s.Told.Rule, s.Told.Reason, s.Told.Command = "backup", "a backup is due", "etcdadm backup create"
		},
			"Ready", "Daemons"},
		"options roll": {func(s *Seen) {
			s.Told.Settled, s.Told.Rule, s.Told.Reason = &no, "converge-options", "restart the member of main-2: its etcd options changed"
		}, "Applying", "Applying"},
		"options are written, and what is told is of those before": {func(s *Seen) { s.World.Spec.Options = nil }, "Applying", "Applying"},
		"a time is written": {func(s *Seen) { s.World.Spec.DeadAfter = time.Hour }, "Applying", "Applying"},
		"the spec is about to be written": {func(s *Seen) {
			s.Decision.Steps = []decide.Step{{Kind: decide.WriteSpec, Why: "other settings are wanted"}}
		},
			"Applying", "WriteSpec"},
		"certificates are renewed": {func(s *Seen) {
			s.Decision.Steps = []decide.Step{{Kind: decide.RenewLeaves, Why: "a third of their life is over"}}
		},
			"Ready", "RenewLeaves"},
		"a pod is of a former spec":              {func(s *Seen) { s.World.Hosts[1].Pod, s.World.Hosts[1].OldPod = true, true }, "Rolling", "Rolling"},
		"a set is":                               {func(s *Seen) { s.World.Hosts[1].OldSet = true }, "Rolling", "Rolling"},
		"a set is, of a host that is not to run": {func(s *Seen) { s.World.Hosts[1].OldSet, s.World.Hosts[1].Running = true, false }, "Ready", "Nothing"},
		"another class of volumes is wanted":     {func(s *Seen) { s.World.Hosts[2].Claim = decide.ClaimOther }, "Exchanging", "Exchanging"},
		"a host is to be replaced":               {func(s *Seen) { s.World.Hosts[2].Replace = true }, "Exchanging", "Exchanging"},
		"a host that has no voter is":            {func(s *Seen) { s.World.Intent.Voters, s.World.Hosts[2].Replace = s.World.Intent.Voters[:2], true }, "Ready", "Nothing"},
		"more are wanted":                        {func(s *Seen) { s.Cluster.Spec.Size = 5 }, "Resizing", "Resizing"},
		"another version is wanted":              {func(s *Seen) { s.Cluster.Spec.Version = "3.7.3" }, "Upgrading", "Upgrading"},
		"a voter is down":                        {func(s *Seen) { s.Told.Members[2].Up = false }, "MemberDown", "MemberDown"},
		"a release that does not tell":           {func(s *Seen) { s.Told.Settled = nil }, "Ready", "Nothing"},
		"one that tells nothing of the spec":     {func(s *Seen) { s.Told.Settled, s.Told.Spec = nil, nil }, "Ready", "Nothing"},
	} {
		s := acted()
		c.change(&s)
		ready, out := status(t, s)
		p := meta.FindStatusCondition(out.Conditions, v1alpha1.Progressing)
		if ready != c.want || p.Reason != c.by || (p.Status == metav1.ConditionTrue) == (c.by == "Nothing") {
			t.Errorf("%s: it shows %s, and %+v", what, ready, p)
		}
	}
}

// A spec that is written and not acted on yet has a bound, and who is to act on it.
func TestWrittenSpecHasABound(t *testing.T) {
	for leader, want := range map[cluster.HostID]string{"main-2": "they do within 30s where the leading one, on host main-2, reaches", "": "they do within 30s where the leading one reaches"} {
		s := acted()
		s.Told.Leader, s.World.Spec.Options = leader, nil
		_, out := status(t, s)
		if c := meta.FindStatusCondition(out.Conditions, v1alpha1.Ready); c.Reason != "Applying" || !strings.Contains(c.Message, want) {
			t.Errorf("%+v", c)
		}
	}
}

// What is waited for is told as what is on its way where it comes by itself, and else as what nobody is at.
func TestProgressingSaysWhatIsWaitedFor(t *testing.T) {
	for code, want := range map[decide.Code]metav1.ConditionStatus{
		decide.Pending: metav1.ConditionTrue, decide.Rolling: metav1.ConditionTrue, decide.BackupMissing: metav1.ConditionTrue,
		decide.RollHeld: metav1.ConditionFalse, decide.Paused: metav1.ConditionFalse, decide.SpecRefused: metav1.ConditionFalse, decide.TooManyHosts: metav1.ConditionFalse,
	} {
		s := acted()
		s.Decision.Waits = []decide.Wait{{Code: code, Sentence: "that"}}
		_, out := status(t, s)
		if p := meta.FindStatusCondition(out.Conditions, v1alpha1.Progressing); p.Status != want || p.Reason != string(code) || p.Message != "that" {
			t.Errorf("%s: %+v", code, p)
		}
	}
	for _, code := range []decide.Code{decide.BackupMissing, decide.BootstrapWaits, decide.IssuerWaits} {
		s := acted()
		s.Decision.Waits = []decide.Wait{{Code: code, Sentence: "set this", Stands: true}}
		_, out := status(t, s)
		if p := meta.FindStatusCondition(out.Conditions, v1alpha1.Progressing); p.Status != metav1.ConditionFalse || p.Reason != string(code) {
			t.Errorf("%s does not end until a person acts, and it shows %+v", code, p)
		}
	}
	s := acted()
	s.Told.Members[2].Up = false
	s.World.Want.ReplaceAfter, s.World.Hosts[2].SilentSince = 5*time.Minute, time.Date(2026, 11, 20, 11, 58, 0, 0, time.UTC)
	_, out := status(t, s)
	for _, kind := range []string{v1alpha1.Ready, v1alpha1.Progressing} {
		if c := meta.FindStatusCondition(out.Conditions, kind); !strings.Contains(c.Message, "2 of 3 voters are up; down: main-3 (silent since 2026-11-20T11:58:00Z; if it stays so, another host takes its place from 2026-11-20T12:03:00Z on)") {
			t.Errorf("%s: %s", kind, c.Message)
		}
	}
	if s = seen(0, time.Hour); s.Told != nil {
		_, out = status(t, s)
	}
	if p := meta.FindStatusCondition(out.Conditions, v1alpha1.Progressing); p.Status != metav1.ConditionFalse || p.Reason != "NoQuorum" {
		t.Errorf("%+v", p)
	}
}

// A deletion waits for a last backup that nobody can take: nothing progresses, and the status says so.
func TestNoBackupCanBeTaken(t *testing.T) {
	for what, c := range map[string]struct {
		noStore bool
		want    metav1.ConditionStatus
	}{"by a host without the store": {true, metav1.ConditionFalse}, "by hosts that have it": {false, metav1.ConditionTrue}} {
		s := acted()
		deleted := metav1.NewTime(s.World.Now)
		s.Cluster.DeletionTimestamp = &deleted
		s.World.Want.Deleted, s.World.Want.Backup, s.World.Record = s.World.Now, true, decide.Record{There: true, Last: decide.LastBackup{Asked: true}}
		s.World.Hosts[1].NoStore = c.noStore
		s.Decision = decide.Next(*s.World)
		_, out := status(t, s)
		if p := meta.FindStatusCondition(out.Conditions, v1alpha1.Progressing); p.Status != c.want || p.Reason != string(decide.BackupMissing) {
			t.Errorf("%s: %+v", what, p)
		}
	}
}

// rolled is a cluster of three and a spare host, of whose pods another image is wanted, as far as change says.
func rolled(change func(s *Seen, w *decide.World)) Seen {
	s := acted()
	w := s.World
	w.Hosts = append(w.Hosts, decide.Host{N: 4, Name: "main-4", Set: true, Running: true, Claim: decide.ClaimThere, Runs: w.Now.Add(-time.Hour), Ready: true})
	w.Record, w.Budget, w.Intent.State = decide.Record{There: true, Next: 5}, 2, cluster.IntentFounded
	w.Spec.Hosts = []cluster.HostID{"main-1", "main-2", "main-3", "main-4"}
	w.Want.Spec, w.Want.Spare, w.Want.ReplaceAfter = *w.Spec, 1, time.Hour
	w.Told.AllUp, w.Told.Leads, w.Told.After, w.Told.At = true, "main-1", w.Now.Add(-5*time.Second), w.Now.Add(-5*time.Second)
	for i := range w.Hosts {
		h := &w.Hosts[i]
		h.Leaves, h.Pod, h.Serves, h.OldSet, h.OldPod = true, true, i < 3, true, true
		w.Told.Hosts = append(w.Told.Hosts, decide.ToldHost{Name: h.Name, Carries: i < 3})
		if i < 3 {
			w.Told.Up = append(w.Told.Up, h.Name)
		}
	}
	told := *w.Spec
	s.Told.Spec = &told
	change(&s, w)
	s.Decision = decide.Next(*w)
	return s
}

// Who watches a cluster while its pods are replaced sees one word, whatever comes and goes meanwhile.
func TestRollIsOneWord(t *testing.T) {
	done := func(w *decide.World, hosts ...int) {
		for _, n := range hosts {
			w.Hosts[n-1].OldSet, w.Hosts[n-1].OldPod = false, false
		}
	}
	off := func(s *Seen, w *decide.World, n int) {
		h := &w.Hosts[n-1]
		h.Serves, h.Ready, h.Runs = false, false, time.Time{}
		s.Told.Members[n-1].Up, w.Told.AllUp = false, false
		w.Told.Up = slices.DeleteFunc(w.Told.Up, func(name string) bool { return name == h.Name })
	}
	pause := func(w *decide.World, host string) {
		w.Pause = &decide.Pause{ID: "p", Host: host, For: decide.PauseFor, Asked: w.Now.Add(-time.Minute)}
	}
	options := func(w *decide.World) { w.Want.Spec.Options = map[string]string{"quota-backend-bytes": "2"} }
	for _, c := range []struct {
		what   string
		change func(s *Seen, w *decide.World)
	}{
		{"it begins", func(*Seen, *decide.World) {}},
		{"the spec is written in the same breath", func(_ *Seen, w *decide.World) { options(w) }},
		{"the daemons have not told of that yet", func(_ *Seen, w *decide.World) { options(w); w.Spec.Options = w.Want.Spec.Options }},
		{"the spare host is not heard yet", func(_ *Seen, w *decide.World) {
			done(w, 4)
			w.Hosts[3].Runs, w.Told.Hosts = w.Now.Add(-5*time.Second), w.Told.Hosts[:3]
		}},
		{"a host is to be let go", func(_ *Seen, w *decide.World) { done(w, 4); pause(w, "main-2") }},
		{"a host is away", func(s *Seen, w *decide.World) { done(w, 2, 4); pause(w, "main-2"); off(s, w, 2) }},
		{"the spec is written meanwhile", func(s *Seen, w *decide.World) { done(w, 2, 4); pause(w, "main-2"); off(s, w, 2); options(w) }},
		{"it is back", func(_ *Seen, w *decide.World) { done(w, 2, 4); pause(w, "main-2") }},
		{"nobody has told that it is", func(s *Seen, w *decide.World) {
			done(w, 2, 4)
			off(s, w, 2)
			h := &w.Hosts[1]
			h.Serves, h.Ready, h.ReadySince, h.Runs = true, true, w.Now.Add(-5*time.Second), w.Now.Add(-20*time.Second)
		}},
		{"the last one is away, and the spec is written", func(s *Seen, w *decide.World) {
			done(w, 1, 2, 3, 4)
			pause(w, "main-1")
			off(s, w, 1)
			options(w)
		}},
		{"the last one is back, and nobody has told that it is", func(s *Seen, w *decide.World) {
			done(w, 1, 2, 3, 4)
			off(s, w, 1)
			w.Hosts[0].Serves, w.Hosts[0].Runs = true, w.Now.Add(-20*time.Second)
			s.Told.Pauses = []control.PauseStatus{{ID: "p", Host: "main-1", By: decide.Asker}}
		}},
	} {
		s := rolled(c.change)
		if ready, out := status(t, s); ready != "Rolling" {
			t.Errorf("%s: it shows %s\n%+v\n%+v", c.what, ready, s.Decision, out.Conditions)
		}
	}
	for what, change := range map[string]func(s *Seen, w *decide.World){
		"another voter is down": func(s *Seen, w *decide.World) { pause(w, "main-2"); off(s, w, 3); options(w) },
		"it is down again": func(s *Seen, w *decide.World) {
			off(s, w, 1)
			s.Told.Pauses = []control.PauseStatus{{ID: "p", Host: "main-1", By: decide.Asker}}
		},
		"somebody else paused it": func(s *Seen, w *decide.World) {
			off(s, w, 1)
			w.Hosts[0].Serves = true
			s.Told.Pauses = []control.PauseStatus{{ID: "p", Host: "main-1", By: "root@cp1"}}
		},
	} {
		s := rolled(func(s *Seen, w *decide.World) { done(w, 1, 2, 3, 4); change(s, w) })
		if ready, _ := status(t, s); ready != "MemberDown" {
			t.Errorf("%s: it shows %s", what, ready)
		}
	}
}

// Kubernetes knows within a minute that a machine is off, and where that takes the quorum nobody may be left to tell of it: whether it
// serves is not known then, and that is no word about it.
func TestPodsThatAreNotReady(t *testing.T) {
	since := time.Date(2026, 11, 20, 11, 59, 30, 0, time.UTC)
	for what, c := range map[string]struct {
		voters, up int
		not        []int // pods that are not ready
		change     func(s *Seen)
		want       metav1.ConditionStatus
		reason     string
	}{
		"one of one":                     {1, 1, []int{0}, nil, metav1.ConditionUnknown, "PodsNotReady"},
		"one of three":                   {3, 3, []int{0}, nil, metav1.ConditionTrue, "Quorum"},
		"two of three":                   {3, 3, []int{0, 1}, nil, metav1.ConditionUnknown, "PodsNotReady"},
		"one of three, and one is down":  {3, 2, []int{0}, nil, metav1.ConditionUnknown, "PodsNotReady"},
		"the one that is down":           {3, 2, []int{2}, nil, metav1.ConditionTrue, "Quorum"},
		"the daemons say that none is":   {3, 1, []int{0, 1, 2}, nil, metav1.ConditionFalse, "NoQuorum"},
		"on bare hosts there are none":   {3, 3, []int{0, 1, 2}, func(s *Seen) { s.Cluster.Spec.Hosts = &v1alpha1.HostStore{Store: "s3://b"} }, metav1.ConditionTrue, "Quorum"},
		"of a learner":                   {3, 3, []int{0, 1}, func(s *Seen) { s.Told.Members[1].Learner = true }, metav1.ConditionUnknown, "PodsNotReady"},
		"what is told is too old anyway": {1, 1, []int{0}, func(s *Seen) { s.World.Now = s.World.Now.Add(time.Hour) }, metav1.ConditionUnknown, "Silent"},
	} {
		s := seen(c.up, time.Hour)
		s.Cluster.Spec.Size = int32(c.voters)
		s.Told.Members, s.World.Hosts = s.Told.Members[:c.voters], s.World.Hosts[:c.voters]
		for _, i := range c.not {
			s.World.Hosts[i].Ready, s.World.Hosts[i].ReadySince = false, since
		}
		if c.change != nil {
			c.change(&s)
		}
		_, out := status(t, s)
		a := meta.FindStatusCondition(out.Conditions, v1alpha1.Available)
		if a.Status != c.want || a.Reason != c.reason {
			t.Errorf("%s: %+v", what, a)
		}
		doubt := c.reason == "PodsNotReady"
		if degraded := meta.FindStatusCondition(out.Conditions, v1alpha1.Degraded); doubt && (degraded.Reason != c.reason || out.Up != nil || out.Hosts[c.not[0]].Up || !strings.Contains(out.Hosts[c.not[0]].Why, "since 2026-11-20T11:59:30Z")) {
			t.Errorf("%s: %+v, %v up, %+v", what, degraded, out.Up, out.Hosts)
		}
		if doubt && !strings.Contains(a.Message, "main-1-0 is not ready since 2026-11-20T11:59:30Z") {
			t.Errorf("%s: %s", what, a.Message)
		}
	}
}

// A cluster that sleeps starts nothing: nobody is to tell of it.
func TestHibernating(t *testing.T) {
	s := seen(3, time.Hour)
	s.Decision.Waits = []decide.Wait{{Code: decide.Hibernates, Sentence: "no pod runs"}}
	reason := func(kind string) string {
		_, out := status(t, s)
		return meta.FindStatusCondition(out.Conditions, kind).Reason
	}
	if r, a := reason(v1alpha1.Reporting), reason(v1alpha1.Available); r != "Told" || a != "Quorum" {
		t.Errorf("its pods run yet: %s, %s", r, a)
	}
	for i := range s.World.Hosts {
		s.World.Hosts[i].Running, s.World.Hosts[i].Runs, s.World.Hosts[i].Ready = false, time.Time{}, false
	}
	for _, kind := range []string{v1alpha1.Reporting, v1alpha1.Available, v1alpha1.Ready, v1alpha1.Progressing} {
		if r := reason(kind); r != "Hibernates" {
			t.Errorf("%s: %s", kind, r)
		}
	}
	s.Decision.Waits = nil
	if r := reason(v1alpha1.Available); r != "Starting" {
		t.Errorf("it wakes: %s", r)
	}
}
