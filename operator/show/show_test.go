package show

import (
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

// seen is a cluster of three, of which so many are up by what was told a minute ago; its pods have run for so long.
func seen(up int, runs time.Duration) Seen {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	ec := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team a", Name: "main"}, Spec: v1alpha1.ClusterSpec{Size: 3, Version: "3.6.16"}}
	told := &control.Status{At: now.Add(-time.Minute), Leader: "main-2", Version: cluster.Version{Major: 3, Minor: 6, Patch: 16}}
	w := &decide.World{Now: now, Namespace: "team a", Name: "main", Intent: &cluster.Intent{Generation: 1}, Told: &decide.Told{At: told.At, Generation: 1}}
	for i, name := range []string{"main-1", "main-2", "main-3"} {
		w.Hosts = append(w.Hosts, decide.Host{N: i + 1, Name: name, Set: true, Running: true, Claim: decide.ClaimThere, Runs: now.Add(-runs), Ready: true})
		told.Members = append(told.Members, control.MemberStatus{Host: cluster.HostID(name), Member: cluster.MemberID(i + 1), Up: i < up})
	}
	return Seen{Cluster: ec, World: w, Told: told, Nodes: map[string]string{"main-1": "a", "main-2": "b"}}
}

func status(t *testing.T, s Seen) (reason string, out v1alpha1.ClusterStatus) {
	t.Helper()
	out = Status(s)
	c := meta.FindStatusCondition(out.Conditions, v1alpha1.Ready)
	if c == nil || (c.Status == metav1.ConditionTrue) != (c.Reason == "Ready") {
		t.Fatalf("%+v", out.Conditions)
	}
	return c.Reason, out
}

// Authorities that are due are told with their end and what keeps them, and an issuer that is waited for beside those that are there
// likewise: the cluster is ready before they end, and says where more is told.
func TestDueIsTold(t *testing.T) {
	s := seen(3, time.Hour)
	end := s.World.Now.Add(30 * 24 * time.Hour)
	s.World.Authorities = &decide.Authorities{There: true, Phase: cluster.RotateDone}
	told := func(want string) *metav1.Condition {
		t.Helper()
		reason, out := status(t, s)
		if degraded := meta.IsStatusConditionTrue(out.Conditions, v1alpha1.Degraded); reason != want || degraded == (want == "Ready") {
			t.Errorf("it shows %s, degraded: %v", reason, degraded)
		}
		return meta.FindStatusCondition(out.Conditions, v1alpha1.Rotating)
	}
	s.Decision.Ending = &decide.Ending{At: end, Keeps: "not every member is up"}
	if c := told("Ready"); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "Due" || !strings.Contains(c.Message, end.UTC().Format(time.RFC3339)) || !strings.HasSuffix(c.Message, "not every member is up") {
		t.Errorf("%+v", c)
	}
	s.Decision.Waits = []decide.Wait{{Code: decide.IssuerWaits, Sentence: "corp has not signed", Aside: true}}
	if c := told("Ready"); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "IssuerWaits" || c.Message != "corp has not signed" {
		t.Errorf("%+v", c)
	}
	_, out := status(t, s)
	if ready := meta.FindStatusCondition(out.Conditions, v1alpha1.Ready); len(out.Blockers) != 1 || !strings.Contains(ready.Message, "Rotating") {
		t.Errorf("blockers: %+v, %+v", out.Blockers, ready)
	}
	s.World.Authorities.Phase, s.Decision.Ending = cluster.RotateTrust, nil
	s.Decision.Rotation = &decide.Rotation{Phase: cluster.RotateTrust, Waits: "others are made"}
	if c := told("Ready"); c.Status != metav1.ConditionTrue || !strings.HasSuffix(c.Message, "It waits: others are made. corp has not signed") {
		t.Errorf("%+v", c)
	}
	s.World.Authorities.Phase, s.Decision.Rotation = cluster.RotateDone, nil
	s.Decision.Waits = append(s.Decision.Waits, decide.Wait{Code: decide.AuthorityEnds, Sentence: "soon"})
	told("AuthorityEnds")
	s.Decision.Waits = []decide.Wait{{Code: decide.IssuerWaits, Sentence: "corp has not signed"}}
	told("IssuerWaits")
}

// A rotation is told by its step and what that waits for, and does not make a cluster unready. One that never was is not told.
func TestRotating(t *testing.T) {
	s := seen(3, time.Hour)
	told := func() *metav1.Condition {
		t.Helper()
		reason, out := status(t, s)
		if reason != "Ready" {
			t.Errorf("it shows %s", reason)
		}
		s.Cluster.Status = out
		return meta.FindStatusCondition(out.Conditions, v1alpha1.Rotating)
	}
	s.World.Authorities = &decide.Authorities{There: true, Phase: cluster.RotateDone}
	if c := told(); c != nil {
		t.Errorf("%+v", c)
	}
	s.World.Authorities.Phase, s.Decision.Rotation = cluster.RotateSign, &decide.Rotation{Phase: cluster.RotateSign, Waits: "the daemons do not hear main-2"}
	if c := told(); c == nil || c.Status != metav1.ConditionTrue || c.Reason != "NextSign" || !strings.Contains(c.Message, "2 of 3") || !strings.HasSuffix(c.Message, "It waits: the daemons do not hear main-2") {
		t.Errorf("%+v", c)
	}
	if s.Decision.Rotation = nil; !strings.Contains(told().Message, "see the condition Ready") {
		t.Error("what forbids all is not told")
	}
	for range 2 {
		if s.World.Authorities.There = false; told().Status != metav1.ConditionUnknown || told().Reason != "KeysLost" {
			t.Error("a Secret that is gone ends no rotation, and nobody knows how far it is")
		}
		if s.World.Authorities.There = true; told().Status != metav1.ConditionTrue {
			t.Error("it goes on where the Secret is back")
		}
	}
	s.World.Authorities.There = false
	told()
	s.World.Authorities = &decide.Authorities{There: true, Phase: cluster.RotateDone}
	if c := told(); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "Done" {
		t.Errorf("%+v", c)
	}
	s.World.Authorities.Ends = s.World.Now.Add(-time.Hour)
	if c := told(); c.Status != metav1.ConditionFalse || c.Reason != "Ended" || !strings.Contains(c.Message, s.World.Authorities.Ends.Format(time.RFC3339)) {
		t.Errorf("authorities that have ended are told as replaced: %+v", c)
	}
	s.World.Authorities = &decide.Authorities{}
	if c := told(); c.Status != metav1.ConditionFalse {
		t.Errorf("a Secret that is lost after the end of it: %+v", c)
	}
}

// A quorum that is lost is said before a pod that is waited for, and after what forbids everything.
func TestLostQuorumComesFirst(t *testing.T) {
	for code, want := range map[decide.Code]string{decide.Pending: "NoQuorum", decide.RollHeld: "NoQuorum", decide.Held: "NoQuorum", decide.StepFailed: "NoQuorum", decide.Paused: "Paused"} {
		s := seen(1, time.Hour)
		s.Decision.Waits = []decide.Wait{{Code: code, Sentence: "x"}}
		if got, _ := status(t, s); got != want {
			t.Errorf("%s: it shows %s, want %s", code, got, want)
		}
	}
}

// What was told before the pods ran that are there now says nothing of now: a cluster that wakes is not ready. None up is not
// the same as not known.
func TestWordsOfHostsThatAreGone(t *testing.T) {
	if got, out := status(t, seen(3, time.Hour)); got != "Ready" || out.Up == nil || *out.Up != 3 {
		t.Errorf("it shows %s, %v", got, out.Up)
	}
	if got, out := status(t, seen(0, time.Hour)); got != "NoQuorum" || out.Up == nil || *out.Up != 0 {
		t.Errorf("none is up: it shows %s, %v", got, out.Up)
	}
	asleep, restored := seen(3, time.Hour), seen(3, time.Hour)
	restored.World.Intent.Generation = 2
	for i := range asleep.World.Hosts {
		asleep.World.Hosts[i].Runs = time.Time{}
	}
	ahead := seen(3, -time.Hour) // a kubelet whose clock was ahead as it began
	if got, _ := status(t, ahead); got != "Ready" {
		t.Errorf("a clock was ahead: it shows %s", got)
	}
	for what, s := range map[string]Seen{"it wakes": seen(3, time.Second), "no pod runs": asleep, "another generation begins": restored} {
		if got, out := status(t, s); got != "Starting" || out.Up != nil || out.Leader != "" {
			t.Errorf("%s: it shows %s, %v up", what, got, out.Up)
		}
	}
}

// A leading host whose clock is ahead is no silent one: its words are as old as the operator saw them come. Where it did not,
// nobody knows, and the clock is said.
func TestClockAhead(t *testing.T) {
	s := seen(3, time.Hour)
	s.Told.At = s.World.Now.Add(10 * time.Minute)
	s.World.Told.At = s.Told.At
	says := func(want, text string) {
		t.Helper()
		got, out := status(t, s)
		if c := meta.FindStatusCondition(out.Conditions, v1alpha1.Reporting); got != want || !strings.Contains(c.Message, text) {
			t.Errorf("it shows %s: %s", got, c.Message)
		}
	}
	says("Silent", "the clock of host main-2 is ahead")
	s.World.Told.Seen = s.World.Now.Add(-4 * time.Minute)
	says("Ready", "the daemons tell of themselves")
	s.World.Told.Seen = s.World.Now.Add(-13 * time.Minute)
	says("Silent", "within 5 minutes")
}

// A command for a host runs in a pod of the cluster, and no word of it is the pod's own.
func TestCommandsRunInPods(t *testing.T) {
	const in = "kubectl '--namespace=team a' exec -it main-"
	for what, test := range map[string]struct{ leader, command, want string }{
		"the leader's":           {"main-2", "etcdadm member replace main-1", in + "2-0 -c etcdadm -- etcdadm member replace main-1"},
		"a leader without a pod": {"main-3", "etcdadm member replace main-1", in + "1-0 -c etcdadm -- etcdadm member replace main-1"},
		"a leader of its own":    {"other-1; rm", "etcdadm status", in + "1-0 -c etcdadm -- etcdadm status"},
		"for a machine":          {"main-2", "etcdadm download 3.6.16", ""},
		"of another program":     {"main-2", "ntpdate x", "ntpdate x"},
		"none":                   {"main-2", "", ""},
	} {
		s := seen(3, time.Hour)
		s.Told.Leader, s.Told.Blockers = cluster.HostID(test.leader), []control.BlockerStatus{{Code: "member-down", Sentence: "x", Command: test.command}}
		if _, out := status(t, s); len(out.Blockers) != 1 || out.Blockers[0].Command != test.want {
			t.Errorf("%s: %+v, want %s", what, out.Blockers, test.want)
		}
	}
}

// On bare hosts a person has a host's shell, and each command is for that.
func TestCommandsOfBareHosts(t *testing.T) {
	for _, command := range []string{"etcdadm download 3.6.16", "etcdadm seed s3://b --nodes 3", "etcdadm member replace main-1", "ntpdate x", ""} {
		s := seen(3, time.Hour)
		s.Cluster.Spec.Hosts, s.Nodes = &v1alpha1.HostStore{Store: "s3://b"}, nil
		s.Told.Blockers = []control.BlockerStatus{{Code: "member-down", Sentence: "x", Command: command}}
		if _, out := status(t, s); len(out.Blockers) != 1 || out.Blockers[0].Command != command {
			t.Errorf("%+v, want %s", out.Blockers, command)
		}
	}
}

// Who waits for the end of a cluster is told what it waits for.
func TestDeletingSaysWhatFor(t *testing.T) {
	s := seen(3, time.Hour)
	s.Cluster.DeletionTimestamp = &metav1.Time{Time: s.World.Now}
	s.Decision.Waits = []decide.Wait{{Code: decide.BackupMissing, Sentence: "a drill is to prove it"}}
	_, out := status(t, s)
	if c := meta.FindStatusCondition(out.Conditions, v1alpha1.Ready); c.Reason != "Deleting" || !strings.Contains(c.Message, "a drill is to prove it") {
		t.Errorf("it says %s", c.Message)
	}
}

// A pod that does not run is said with its kubelet's or scheduler's word, also before any daemon told anything.
func TestStuckPodIsSaid(t *testing.T) {
	s := seen(2, time.Hour)
	s.World.Hosts[2].Runs, s.World.Hosts[2].Stuck = time.Time{}, "Unschedulable"
	got, out := status(t, s)
	if n := len(out.Blockers); got != "MemberDown" || n != 1 || out.Blockers[0].Code != string(decide.Pending) || out.Blockers[0].Command != "kubectl --namespace='team a' describe pod main-3-0" {
		t.Errorf("it shows %s, %+v", got, out.Blockers)
	}
	s.Decision.Waits = []decide.Wait{{Code: decide.Pending, Host: "main-3", Sentence: "main-3 does not run yet"}}
	if _, out := status(t, s); len(out.Blockers) != 1 {
		t.Errorf("it is said twice: %+v", out.Blockers)
	}
	s.Decision.Waits, s.Told, s.World.Told = nil, nil, nil
	got, out = status(t, s)
	if c := meta.FindStatusCondition(out.Conditions, v1alpha1.Ready); got != "Creating" || !strings.Contains(c.Message, "Unschedulable") {
		t.Errorf("it shows %s: %s", got, c.Message)
	}
}

// What is to be typed says where: etcdadm's commands run in a pod of the cluster.
func TestWaitsSayWhereToType(t *testing.T) {
	s := seen(3, time.Hour)
	s.Decision.Waits = []decide.Wait{{Code: decide.RollHeld, Sentence: "x", Command: "etcdadm host resume main-3"}, {Code: decide.Pending, Sentence: "x", Command: s.World.Describe("main-1")}}
	_, out := status(t, s)
	for i, want := range []string{"kubectl '--namespace=team a' exec -it main-2-0 -c etcdadm -- etcdadm host resume main-3", "kubectl --namespace='team a' describe pod main-1-0"} {
		if got := out.Blockers[i].Command; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Where no member serves, a host that has the data is no cluster without members.
func TestNobodyServes(t *testing.T) {
	for code, want := range map[string]string{decide.NoQuorum: "NoQuorum", "no-members": "NoMembers"} {
		s := seen(0, time.Hour)
		s.Told.Members = nil
		s.World.Told.Blockers = []string{code}
		if reason, out := status(t, s); reason != want {
			t.Errorf("%s: %s %+v", code, reason, out.Conditions)
		}
	}
}

// While a cluster is adopted most voters may be at no host here, and whether they are up nobody tells: one member that is up has read by
// a quorum.
func TestQuorumOfMembersElsewhere(t *testing.T) {
	for up, want := range map[int]metav1.ConditionStatus{1: metav1.ConditionTrue, 0: metav1.ConditionFalse} {
		s := seen(up, time.Hour)
		s.World.Intent, s.World.Joining = nil, &decide.Joining{Cluster: 7}
		_, out := status(t, s)
		if c := meta.FindStatusCondition(out.Conditions, v1alpha1.Available); c.Status != want {
			t.Errorf("%d up: %+v", up, c)
		}
	}
}

// Where the loss of one machine takes the quorum, that is said, with what moves a host to another one.
func TestMachineThatTakesTheQuorum(t *testing.T) {
	for _, c := range []struct {
		up            int
		second, third string // machines of main-2 and main-3; main-1 is on a
		want          string
	}{
		{3, "b", "c", "a quorum serves"},
		{3, "b", "b", "a quorum serves. Machine b carries 2 of 3 voters, and its loss takes the quorum: where another machine is free, kubectl --namespace='team a' annotate statefulset main-3 etcdadm.io/replace=spread"},
		{2, "b", "b", "a quorum serves"}, // main-3 is down: each loss takes the quorum, wherever it is
		{2, "a", "b", "a quorum serves"},
	} {
		s := seen(c.up, time.Hour)
		s.Nodes["main-2"], s.Nodes["main-3"] = c.second, c.third
		_, out := status(t, s)
		if got := meta.FindStatusCondition(out.Conditions, v1alpha1.Available).Message; got != c.want {
			t.Errorf("%d up, %s: %s", c.up, c.third, got)
		}
	}
}

// What is said beside the EtcdRestore of a survivor is about it: whom it gives up, and what that loses.
func TestSurvivorSaysWhatIsLost(t *testing.T) {
	s := seen(1, time.Hour)
	s.World.Hosts[1].SilentSince = time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)
	b := v1alpha1.Blocker{Sentence: "name each host that is gone for good with --lost HOST"}
	s.wayOut(&b, &decide.WayOut{Survivor: "main-1", Lost: []string{"main-2", "main-3"}})
	for _, want := range []string{"main-2 (silent since 2026-11-20T11:00:00Z), main-3 do not answer", "goes on from what host main-1 has", "Take a host out of lost"} {
		if !strings.Contains(b.Sentence, want) || strings.Contains(b.Sentence, "--lost") {
			t.Errorf("it says %q, want %q", b.Sentence, want)
		}
	}
}
