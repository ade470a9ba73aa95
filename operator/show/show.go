// Package show says in an EtcdCluster's status what is seen of the cluster: a pure function of the world, of what was decided,
// and of what the daemons told.
//
// What must always hold: nothing is shown as well that nobody has told of lately, and the same world shows the same status,
// so that nothing is written where nothing happens.
package show

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Seen is what a status is made of.
type Seen struct {
	Cluster  *v1alpha1.EtcdCluster
	World    *decide.World
	Decision decide.Decision
	Told     *control.Status   // nil: the daemons have told nothing
	Nodes    map[string]string // of the hosts' pods
	Selector string
}

// Status is what an EtcdCluster shows.
func Status(s Seen) v1alpha1.ClusterStatus {
	out := v1alpha1.ClusterStatus{
		ObservedGeneration: s.Cluster.Generation, Selector: s.Selector,
		LastBackup: s.Cluster.Status.LastBackup, ProvenBackup: s.Cluster.Status.ProvenBackup,
		Conditions: slices.Clone(s.Cluster.Status.Conditions),
	}
	if s.Cluster.Spec.Hosts == nil {
		out.NextHost = max(s.Cluster.Status.NextHost, int32(s.World.NextNumber()))
	}
	if in := s.World.Intent; in != nil {
		out.Generation = int64(in.Generation)
		if in.Cluster != 0 {
			out.ClusterID = in.Cluster.String()
		}
	}
	if t := s.Told; t != nil {
		up, voters := t.Voters()
		out.Voters, out.Version = int32(voters), t.Version.String()
		if s.fresh() { // who leads, what is up and what is wrong is so now, or not known
			n := int32(up)
			out.Leader, out.Up = string(t.Leader), &n
			for _, b := range Told(s.Cluster, t) {
				if b.Code == "settings-differ" && s.rolls() {
					continue // which is what the roll is about
				}
				shown := v1alpha1.Blocker{Code: b.Code, Sentence: b.Sentence, Command: b.Command}
				shown.Command = s.here(b.Command)
				if way := s.World.WayOut(); way != nil && decide.LosesQuorum(b.Code) {
					s.wayOut(&shown, way)
				}
				out.Blockers = append(out.Blockers, shown)
			}
		}
		out.LastBackup, out.ProvenBackup = backup(t.Backup, out.LastBackup), backup(t.Proven, out.ProvenBackup)
	}
	if claims := s.World.Stranded(); len(claims) > 0 {
		b := v1alpha1.Blocker{Code: decide.NoQuorum, Sentence: "no pod of a voter runs. Bring machines or volumes back: the members start again with all that was written"}
		s.giveUp(&b, claims)
		out.Blockers = append(out.Blockers, b)
	}
	for _, w := range s.Decision.Waits {
		out.Blockers = append(out.Blockers, v1alpha1.Blocker{Code: string(w.Code), Sentence: w.Sentence, Command: s.here(w.Command)})
	}
	for _, h := range s.World.Hosts {
		out.Hosts = append(out.Hosts, s.host(h))
		if told := func(w decide.Wait) bool { return w.Host == h.Name }; h.Running && h.Stuck != "" && !slices.ContainsFunc(s.Decision.Waits, told) {
			out.Blockers = append(out.Blockers, v1alpha1.Blocker{
				Code: string(decide.Pending), Sentence: fmt.Sprintf("the pod of %s does not run: %s", h.Name, h.Why()),
				Command: s.World.Describe(h.Name),
			})
		}
	}
	s.doubt(&out)
	s.conditions(&out)
	return out
}

// here is a command as a person types it beside kubectl: etcdadm's in a pod, where the cluster is in pods.
func (s Seen) here(command string) string {
	if s.Cluster.Spec.Hosts != nil {
		return command
	}
	return shape.InPod([]string{"--namespace=" + s.Cluster.Namespace}, s.speaker(), command)
}

// speaker is the pod of the leading daemon, or else of a host whose pod has a machine: each daemon hands on what it is asked.
// It is a host of the operator's own list, since any of the cluster's pods may have written what is told. Empty: there is none.
func (s Seen) speaker() (pod string) {
	for _, h := range s.World.Hosts {
		switch {
		case s.Nodes[h.Name] == "":
		case s.Told != nil && h.Name == string(s.Told.Leader):
			return h.Name + "-0"
		case pod == "":
			pod = h.Name + "-0"
		}
	}
	return pod
}

// backup is one that was told, or else the one that was shown.
func backup(told *cluster.Backup, shown *v1alpha1.BackupStatus) *v1alpha1.BackupStatus {
	if told == nil {
		return shown
	}
	return &v1alpha1.BackupStatus{Name: told.Name, At: metav1.NewTime(told.At.Truncate(time.Second))}
}

func (s Seen) host(h decide.Host) v1alpha1.HostStatus {
	out := v1alpha1.HostStatus{Name: h.Name, Node: s.Nodes[h.Name]}
	if !h.SilentSince.IsZero() {
		since := metav1.NewTime(h.SilentSince.Truncate(time.Second))
		out.SilentSince = &since
	}
	if s.Told != nil {
		for _, m := range s.Told.Members {
			if string(m.Host) != h.Name {
				continue
			}
			out.Member, out.Role = m.Member.String(), "voter"
			if s.fresh() {
				out.Up, out.Why = m.Up, m.Why
			}
			if m.Learner {
				out.Role = "learner"
			}
		}
	}
	if out.Role == "" && !h.Running && h.Claim != decide.ClaimNone {
		if why := s.World.Keeps(h); why != "" {
			out.Why = "its volume is kept: " + why
		}
	}
	return out
}

// condition is one, as it is now.
type condition struct {
	kind   string
	is     metav1.ConditionStatus
	reason string
	text   string
}

func (s Seen) conditions(out *v1alpha1.ClusterStatus) {
	available, ready := s.available(out), s.ready(out)
	all := []condition{s.reporting(), available, s.progressing(ready), s.degraded(out), s.backedUp(out), ready}
	if c := s.rotating(out); c != nil {
		all = append(all, *c)
	}
	s.set(out, all)
}

// waits are what keeps the cluster from being as the spec asks, but for other authorities than those by which it goes on. Of what
// comes by itself the roll is first: hosts that it takes away come and go meanwhile.
func (s Seen) waits() []decide.Wait {
	all := slices.DeleteFunc(slices.Clone(s.Decision.Waits), func(w decide.Wait) bool { return w.Aside })
	i := slices.IndexFunc(all, func(w decide.Wait) bool { return w.Code == decide.Rolling || !w.Passes() })
	if i > 0 && all[i].Code == decide.Rolling {
		rolls := all[i]
		all = slices.Insert(slices.Delete(all, i, i+1), 0, rolls)
	}
	return all
}

// wrong are the blockers without that.
func (s Seen) wrong(out *v1alpha1.ClusterStatus) []v1alpha1.Blocker {
	return slices.DeleteFunc(slices.Clone(out.Blockers), func(b v1alpha1.Blocker) bool {
		return slices.ContainsFunc(s.Decision.Waits, func(w decide.Wait) bool { return w.Aside && string(w.Code) == b.Code && w.Sentence == b.Sentence })
	})
}

func (s Seen) set(out *v1alpha1.ClusterStatus, all []condition) {
	for _, c := range all {
		meta.SetStatusCondition(&out.Conditions, metav1.Condition{Type: c.kind, Status: c.is, Reason: c.reason, Message: c.text, ObservedGeneration: s.Cluster.Generation})
	}
}

func (s Seen) fresh() bool {
	return s.Told != nil && s.World.Reports() && !s.World.Begins()
}

func (s Seen) reporting() condition {
	switch {
	case s.hibernates():
		return condition{v1alpha1.Reporting, metav1.ConditionUnknown, "Hibernates", "spec.hibernate is true: no pod runs, so nobody tells of the cluster"}
	case s.Told == nil:
		return condition{v1alpha1.Reporting, metav1.ConditionFalse, "NothingYet", "the daemons have told nothing yet"}
	case s.World.Begins():
		return condition{v1alpha1.Reporting, metav1.ConditionFalse, "Starting", "the hosts or a new generation start, and the daemons have told nothing since " + s.Told.At.UTC().Format(time.RFC3339)}
	case !s.fresh():
		return condition{v1alpha1.Reporting, metav1.ConditionFalse, "Silent", s.silent()}
	}
	return condition{v1alpha1.Reporting, metav1.ConditionTrue, "Told", "the daemons tell of themselves"}
}

// silent says since when nobody tells.
func (s Seen) silent() string {
	at := s.Told.At.UTC().Format(time.RFC3339)
	if s.Told.At.Sub(s.World.Now) > decide.Ahead { // how far changes all the time
		return fmt.Sprintf("the clock of host %s is ahead: by it the host told at %s, which is yet to come. How old that is nobody knows; it counts once the host tells anew, within 5 minutes. Set its clock", s.Told.Leader, at)
	}
	return "the daemons told of themselves last at " + at
}

func (s Seen) available(out *v1alpha1.ClusterStatus) condition {
	way, unready := s.World.WayOut(), s.unready()
	switch {
	case s.hibernates():
		return condition{v1alpha1.Available, metav1.ConditionFalse, "Hibernates", "spec.hibernate is true: no pod runs"}
	case len(unready) > 0:
		return condition{v1alpha1.Available, metav1.ConditionUnknown, "PodsNotReady", s.doubtful(unready)}
	case s.Told != nil && s.World.Begins():
		return condition{v1alpha1.Available, metav1.ConditionUnknown, "Starting", "the hosts or a new generation start, and the daemons have told nothing of it yet"}
	case !s.fresh():
		return condition{v1alpha1.Available, metav1.ConditionUnknown, "Silent", "nobody has told lately whether a quorum serves"}
	case s.World.Adopting() && *out.Up > 0: // most voters may be at no host of ours, where nobody looks; one that is up has read by a quorum
		return condition{v1alpha1.Available, metav1.ConditionTrue, "Quorum", "a quorum serves, with members that are at no host of this EtcdCluster"}
	case way != nil && out.Voters == 0 && !slices.Contains(s.World.Told.Blockers, decide.NoQuorum):
		return condition{v1alpha1.Available, metav1.ConditionFalse, "NoMembers", "no member is left; status.blockers has what to do"}
	case way != nil && *out.Up <= out.Voters/2:
		return condition{v1alpha1.Available, metav1.ConditionFalse, "NoQuorum", "the quorum is lost; status.blockers has what to do if it does not come back"}
	case out.Voters == 0 && slices.Contains(s.World.Told.Blockers, decide.NoQuorum):
		return condition{v1alpha1.Available, metav1.ConditionFalse, "NoQuorum", "no member answers, and too few voters are in sight"}
	case out.Voters == 0 && s.World.Intent != nil && len(s.World.Intent.Voters) > 0:
		return condition{v1alpha1.Available, metav1.ConditionFalse, "NoMembers", "no member answers; " + count(int32(len(s.World.Intent.Voters)), "is to vote", "are to vote")}
	case out.Voters == 0:
		return condition{v1alpha1.Available, metav1.ConditionFalse, "NoMembers", "there are no members yet"}
	case *out.Up <= out.Voters/2:
		return condition{v1alpha1.Available, metav1.ConditionFalse, "NoQuorum", "the quorum is lost"}
	}
	return condition{v1alpha1.Available, metav1.ConditionTrue, "Quorum", "a quorum serves" + s.hangsOnOne(out)}
}

// hangsOnOne says which machine takes the quorum with it when it is lost; empty: none does, or spec.spread keeps hosts apart.
func (s Seen) hangsOnOne(out *v1alpha1.ClusterStatus) string {
	carries := map[string]int32{}
	counts := func(h v1alpha1.HostStatus) bool { return h.Role == "voter" && h.Up && h.Node != "" }
	for _, h := range out.Hosts {
		if counts(h) {
			carries[h.Node]++
		}
	}
	for _, h := range slices.Backward(out.Hosts) {
		if n := carries[h.Node]; counts(h) && n > 1 && *out.Up-n <= out.Voters/2 && *out.Up-1 > out.Voters/2 {
			return fmt.Sprintf(". Machine %s carries %d of %s, and its loss takes the quorum: where another machine is free, kubectl --namespace=%s annotate statefulset %s %s=spread",
				h.Node, n, count(out.Voters, "voter", "voters"), cluster.ShellWord(s.Cluster.Namespace), h.Name, shape.AnnotationReplace)
		}
	}
	return ""
}

func (s Seen) degraded(out *v1alpha1.ClusterStatus) condition {
	if wrong := s.wrong(out); len(wrong) > 0 {
		b := wrong[0]
		return condition{v1alpha1.Degraded, metav1.ConditionTrue, reason(b.Code), b.Sentence}
	}
	return condition{v1alpha1.Degraded, metav1.ConditionFalse, "Nothing", "nothing is known to be wrong"}
}

func (s Seen) backedUp(out *v1alpha1.ClusterStatus) condition {
	b := s.Cluster.Spec.Backup
	switch {
	case s.Cluster.Spec.Hosts != nil:
		return s.backedUpOutside(out)
	case b == nil:
		return condition{v1alpha1.BackedUp, metav1.ConditionFalse, "NoStore", "spec.backup names no store"}
	case out.LastBackup == nil:
		return condition{v1alpha1.BackedUp, metav1.ConditionFalse, "NoBackup", "no backup was taken yet"}
	case s.World.Now.Sub(out.LastBackup.At.Time) > 2*b.Interval.Or(15*time.Minute):
		return condition{v1alpha1.BackedUp, metav1.ConditionFalse, "Old", "the newest backup is of " + out.LastBackup.At.UTC().Format(time.RFC3339)}
	}
	return condition{v1alpha1.BackedUp, metav1.ConditionTrue, "Recent", "the newest backup is recent"}
}

// ready: all is as the spec asks. Its reason is the column STATUS.
func (s Seen) ready(out *v1alpha1.ClusterStatus) condition {
	not := func(reason, text string) condition {
		return condition{v1alpha1.Ready, metav1.ConditionFalse, reason, text}
	}
	available, waits, wrong := s.available(out), s.waits(), s.wrong(out)
	switch {
	case !s.Cluster.DeletionTimestamp.IsZero():
		text := "the cluster is being deleted"
		if len(waits) > 0 {
			text += ": " + waits[0].Sentence
		}
		return not("Deleting", text)
	case available.reason == "NoQuorum" && goesOn(waits):
		return not(available.reason, available.text)
	case len(waits) > 0:
		w := waits[0]
		return not(string(w.Code), w.Sentence)
	case s.Told == nil || s.Told.At.Before(s.World.Since):
		text := "the daemons have told nothing yet"
		if s.Told != nil {
			text = "the daemons have told nothing since this EtcdCluster was made, and do within 5 minutes"
		}
		if len(wrong) > 0 {
			text += "; " + wrong[0].Sentence
		}
		return not("Creating", text)
	case available.is != metav1.ConditionTrue:
		return not(available.reason, available.text)
	case out.Voters != s.Cluster.Spec.Size:
		return not("Resizing", fmt.Sprintf("%s, and spec.size is %d", count(out.Voters, "member votes", "members vote"), s.Cluster.Spec.Size))
	case out.Version != s.Cluster.Spec.Version:
		return not("Upgrading", fmt.Sprintf("the oldest voter runs etcd %s, and spec.version is %s", out.Version, s.Cluster.Spec.Version))
	case *out.Up != out.Voters && !s.rollsAway(out):
		return not("MemberDown", s.down(out))
	case len(wrong) > 0:
		return not(reason(wrong[0].Code), wrong[0].Sentence)
	}
	if c := s.unfinished(); c != nil {
		return *c
	}
	text := "all is as the spec asks"
	if s.aside() != nil {
		text += ", but for the authorities: they serve, and the condition Rotating says what others wait for"
	}
	return condition{v1alpha1.Ready, metav1.ConditionTrue, "Ready", text}
}

// goesOn says that nothing is waited for but what is less than a quorum that is lost.
func goesOn(waits []decide.Wait) bool {
	return !slices.ContainsFunc(waits, func(w decide.Wait) bool {
		return !slices.Contains([]decide.Code{decide.Pending, decide.TooManyHosts, decide.Rolling, decide.RollHeld, decide.Held, decide.StepFailed}, w.Code)
	})
}

func camel(k decide.Kind) string { return reason(string(k)) }

// reason makes a word that a condition takes of a code: no-quorum is NoQuorum.
func reason(code string) string {
	var out []byte
	up := true
	for i := range len(code) {
		c := code[i]
		if c == '-' {
			up = true
			continue
		}
		if up && c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		up = false
		out = append(out, c)
	}
	return cmp.Or(string(out), "Unknown")
}
