package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/duration"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unfinished says what of the spec as it is now is not done, where as many members as are wanted serve; nil: nothing, as far as the
// daemons tell. A release of theirs that tells neither by which spec it acts nor whether anything is left keeps nobody waiting.
func (s Seen) unfinished() *condition {
	not := func(reason, text string) *condition {
		return &condition{v1alpha1.Ready, metav1.ConditionFalse, reason, text}
	}
	if behind := s.World.Behind(); len(behind) > 0 { // whatever else is done meanwhile
		return not("Rolling", names(behind)+": the pods are of a former spec, and are replaced one after the other")
	}
	if host := s.away(); host != "" {
		return not("Rolling", host+" gets another pod")
	}
	for _, step := range s.Decision.Steps {
		if step.Kind.ForSpec() {
			return not("Applying", "the operator is at work: "+step.Why)
		}
	}
	if away := s.World.MakesWay(); len(away) > 0 {
		return not("Exchanging", names(away)+": other hosts or volumes are wanted, and take the places one after the other")
	}
	if s.World.Spec == nil || s.Told == nil {
		return nil
	}
	if acts, known := s.Told.ActsOn(*s.World.Spec); known && !acts {
		within := decide.Soon
		if s.Cluster.Spec.Hosts != nil { // the store of bare hosts is read once a minute
			within += time.Minute
		}
		return not("Applying", fmt.Sprintf("the spec is written, and the daemons have not told yet that they act on it: they do within %s where the leading one%s reaches the record; if not, read its log", duration.Format(within), leads(s.Told.Leader)))
	}
	if t := s.Told.Settled; t != nil && !*t {
		return not("Applying", "the daemons are at work: "+s.Told.Reason)
	}
	return nil
}

// leads names the host of the leading daemon, where it is known.
func leads(host cluster.HostID) string {
	if host == "" {
		return ""
	}
	return ", on host " + string(host) + ","
}

// rolls says whether pods are of a former spec, or are of this one and nobody has told anything since they run.
func (s Seen) rolls() bool {
	return len(s.World.Behind()) > 0 || slices.ContainsFunc(s.World.Hosts, func(h decide.Host) bool { return h.Runs.After(s.Told.At) })
}

// names are those of hosts.
func names(of []decide.Host) string {
	var all []string
	for _, h := range of {
		all = append(all, h.Name)
	}
	return strings.Join(all, ", ")
}

// onTheirWay are reasons of Ready of what comes by itself; where nothing can be known, or a person has the word, nothing is on its way.
var onTheirWay = []string{"Creating", "Starting", "NoMembers", "Resizing", "Upgrading", "MemberDown", "Rolling", "Exchanging", "Applying"}

// progressing says what is on its way; or else what is waited for, with its reason. ready is the condition Ready.
func (s Seen) progressing(ready condition) condition {
	is := func(on bool, reason, text string) condition {
		if on {
			return condition{v1alpha1.Progressing, metav1.ConditionTrue, reason, text}
		}
		return condition{v1alpha1.Progressing, metav1.ConditionFalse, reason, text}
	}
	for _, step := range s.Decision.Steps {
		if step.Kind != decide.MakeShared {
			return is(true, camel(step.Kind), step.Why)
		}
	}
	if waits := s.waits(); len(waits) > 0 {
		return is(waits[0].Passes(), string(waits[0].Code), waits[0].Sentence)
	}
	if s.fresh() && s.Told.Rule != "" && s.Told.Command != "" {
		return is(true, "Daemons", s.Told.Reason)
	}
	if ready.is == metav1.ConditionTrue {
		return is(false, "Nothing", "nothing is on its way")
	}
	text := ready.text
	if s.fresh() && s.Told.Reason != "" && slices.Contains([]string{"Resizing", "Upgrading"}, ready.reason) {
		text += ": " + s.Told.Reason
	}
	return is(slices.Contains(onTheirWay, ready.reason), ready.reason, text)
}

// away is the host whose pod is being replaced, by the operator's own pause; or was, and serves by its pod, while the daemons told last of
// the pause, and of its voter as down. Empty: none is.
func (s Seen) away() string {
	if p := s.World.Pause; p != nil {
		return p.Host
	}
	for _, h := range s.World.Hosts {
		own := func(p control.PauseStatus) bool { return p.By == decide.Asker && string(p.Host) == h.Name }
		down := func(m control.MemberStatus) bool { return string(m.Host) == h.Name && !m.Learner && !m.Up }
		if h.Serves && s.Told != nil && slices.ContainsFunc(s.Told.Pauses, own) && slices.ContainsFunc(s.Told.Members, down) {
			return h.Name
		}
	}
	return ""
}

// rollsAway says whether no voter is down but the one whose pod is being replaced.
func (s Seen) rollsAway(out *v1alpha1.ClusterStatus) bool {
	n, away := *out.Up, s.away()
	for _, h := range out.Hosts {
		if h.Role == "voter" && !h.Up && h.Name == away {
			n++
		}
	}
	return n == out.Voters
}

// down says which voters are down, and what becomes of them.
func (s Seen) down(out *v1alpha1.ClusterStatus) string {
	var words []string
	for _, h := range out.Hosts {
		if h.Role != "voter" || h.Up {
			continue
		}
		word := h.Name
		if h.SilentSince != nil && s.Cluster.Spec.Hosts == nil {
			at := h.SilentSince.Add(s.World.Want.ReplaceAfter).UTC().Format(time.RFC3339)
			word += fmt.Sprintf(" (silent since %s; if it stays so, another host takes its place from %s on)", h.SilentSince.UTC().Format(time.RFC3339), at)
		}
		words = append(words, word)
	}
	if len(words) == 0 { // it is at no host that is known here
		return fmt.Sprintf("%d of %s up", *out.Up, count(out.Voters, "voter is", "voters are"))
	}
	return fmt.Sprintf("%d of %s up; down: %s", *out.Up, count(out.Voters, "voter is", "voters are"), strings.Join(words, ", "))
}

// count is a number with the word for it.
func count(n int32, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// unready are hosts whose voters the daemons had for up, and whose pods Kubernetes has not for ready, where without them a quorum is
// not known to serve; empty: it is, or the daemons themselves say that none does. A machine that is off is known to Kubernetes within
// a minute, and nobody may be left to tell of it.
func (s Seen) unready() []decide.Host {
	if s.Cluster.Spec.Hosts != nil || !s.fresh() || s.World.Adopting() {
		return nil
	}
	up, voters := s.Told.Voters()
	var hosts []string
	for _, m := range s.Told.Members {
		if !m.Learner && m.Up {
			hosts = append(hosts, string(m.Host))
		}
	}
	not := s.World.NotReady(hosts)
	if up <= voters/2 || up-len(not) > voters/2 {
		return nil
	}
	return not
}

// doubt shows that nobody knows whether a quorum serves.
func (s Seen) doubt(out *v1alpha1.ClusterStatus) {
	not := s.unready()
	if len(not) == 0 {
		return
	}
	out.Up, out.Leader = nil, ""
	for i := range out.Hosts {
		h := &out.Hosts[i]
		if j := slices.IndexFunc(not, func(o decide.Host) bool { return o.Name == h.Name }); j >= 0 {
			h.Up, h.Why = false, "not known: its pod "+notReady(not[j])
		}
	}
	out.Blockers = append(out.Blockers, v1alpha1.Blocker{Code: "PodsNotReady", Sentence: s.doubtful(not), Command: s.World.Describe(not[0].Name)})
}

// doubtful says which pods are not ready.
func (s Seen) doubtful(not []decide.Host) string {
	up, voters := s.Told.Voters()
	var words []string
	for _, h := range not {
		words = append(words, h.Name+"-0 "+notReady(h))
	}
	return fmt.Sprintf("whether a quorum serves is not known: by Kubernetes %d of %s can serve, %d needed; %s. The daemons told last at %s, when %d of %d were up",
		up-len(not), count(int32(voters), "voter", "voters"), voters/2+1, strings.Join(words, ", "), s.Told.At.UTC().Format(time.RFC3339), up, voters)
}

func notReady(h decide.Host) string {
	if h.ReadySince.IsZero() {
		return "is not ready"
	}
	return "is not ready since " + h.ReadySince.UTC().Format(time.RFC3339)
}

// hibernates says whether no pod of the cluster is to run, so that there is nobody to tell of it.
func (s Seen) hibernates() bool {
	return slices.ContainsFunc(s.Decision.Waits, func(w decide.Wait) bool { return w.Code == decide.Hibernates }) &&
		!slices.ContainsFunc(s.World.Hosts, func(h decide.Host) bool { return h.Running })
}
