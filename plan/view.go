package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
)

// view is an observation made ready for the rules: sorted, matched, and with
// the questions that several of them ask.
type view struct {
	goal Goal
	obs  *cluster.Observation
	spec *cluster.Spec // nil: none, or one that is refused
	// standing is what repairs go by where the spec is refused; nil: there is a spec, or
	// nothing can be repaired.
	standing *cluster.Standing
	intent   *cluster.Intent
	roster   cluster.Roster
	seen     bool // a member list is in sight

	// meanwhile is what is being done beside everything else; nil: nothing.
	meanwhile *Decision

	// asides are blockers that do not stop the rule that found them.
	asides []Blocker
}

func newView(goal Goal, o *cluster.Observation) *view {
	v := &view{goal: goal, obs: o, intent: o.Intent()}
	if s := o.Wanted(); s != nil && s.Validate() == nil {
		v.spec = s
	}
	v.roster, v.seen = o.Roster()
	if v.seen && v.intent != nil && v.intent.State == cluster.IntentFounding && !v.foundersListed() {
		if v.supersededCluster(v.roster.Cluster) {
			v.roster, v.seen = cluster.Roster{}, false // its hosts are about to stop it
			return v
		}
		v.aside("foreign-cluster", "", "the members in sight are of cluster %s, in which none of the founders of generation %d is listed; they are left alone", v.roster.Cluster, v.intent.Generation)
		v.roster, v.seen = cluster.Roster{}, false
	}
	if v.spec == nil && o.Store.Read && v.seen && !v.roster.Running().Downgrade { // while that is under way etcd takes no joiner
		v.standing = o.Standing
	}
	return v
}

// supersededCluster: the history of the intent has the cluster.
func (v *view) supersededCluster(id cluster.ClusterID) bool {
	return id != 0 && slices.ContainsFunc(v.intent.History, func(g cluster.PastGeneration) bool { return g.Cluster == id })
}

// foundersListed: the member list in sight is that of the founding. Member
// IDs come from its token, so that no other cluster has them.
func (v *view) foundersListed() bool {
	return slices.ContainsFunc(v.intent.Founders, func(f cluster.Founder) bool {
		_, ok := v.roster.Seat(f.Member)
		return ok
	})
}

// aside notes a blocker and lets the rules go on.
func (v *view) aside(code, command, format string, args ...any) {
	v.asides = append(v.asides, Blocker{Code: code, Sentence: fmt.Sprintf(format, args...), Command: command})
}

// advise is aside where what a person does is no command, or not one alone.
func (v *view) advise(code, advice, command, format string, args ...any) {
	v.asides = append(v.asides, Blocker{Code: code, Sentence: fmt.Sprintf(format, args...), Command: command, Advice: advice})
}

// wait is a decision to do nothing until something changes.
func wait(again bool, code, command, format string, args ...any) *Decision {
	s := fmt.Sprintf(format, args...)
	d := &Decision{Reason: s, Blockers: []Blocker{{Code: code, Sentence: s, Command: command}}}
	if again {
		d.Again = soon
	}
	return d
}

// waitLater is wait for something that no event tells of, such as a member
// that serves again, and that may take its time.
func waitLater(code, command, format string, args ...any) *Decision {
	d := wait(false, code, command, format, args...)
	d.Again = later
	return d
}

// refuse is a decision that a person's step is not taken.
func refuse(code, command, format string, args ...any) *Decision {
	d := wait(false, code, command, format, args...)
	d.Refused = true
	return d
}

// wanted is the number of voters that the goal asks for. Without a usable
// spec, or when it is on hold, it is what is there, and where the spec is refused also
// what was there before a repair that is under way; a person who takes a
// voter out then asks for one less.
func (v *view) wanted() int {
	n, _ := v.roster.Count()
	switch {
	case v.spec != nil && !v.spec.Hold && !v.goal.Hold:
		return v.spec.MemberCount
	case v.goal.Kind == Leave:
		return n - 1
	default:
		return v.standingCount(n)
	}
}

// projection is what a change of the voters does.
func (v *view) projection(voters, up int) cluster.Projection {
	n, u := v.roster.Count()
	return cluster.Projection{Voters: n, Up: u, VotersAfter: n + voters, UpAfter: u + up}
}

// speaker is the host through whose member membership calls are made: the
// raft leader's when it is up, because it knows who is connected, else the
// first voter's that is up. except is not asked to act on itself.
func (v *view) speaker(except cluster.MemberID) (cluster.Seat, bool) {
	var first cluster.Seat
	found := false
	for _, s := range v.roster.Up() {
		if s.ID == except {
			continue
		}
		if s.RaftLeader {
			return s, true
		}
		if !found {
			first, found = s, true
		}
	}
	return first, found
}

// onHost is an op for one host, with the stamp of its observation.
func onHost(h *cluster.HostReport, g cluster.Guard, op cluster.Op) HostOp {
	return HostOp{Host: h.Host, Disk: h.Disk, Stamp: h.Stamp, Guard: g, Op: op}
}

// membership is a decision to make one membership call.
func (v *view) membership(p cluster.Projection, op cluster.Op, except cluster.MemberID, command, reason string) *Decision {
	s, ok := v.speaker(except)
	if !ok {
		return wait(true, "no-speaker", "", "no voter that is up could make the change: %s", reason)
	}
	return &Decision{
		Reason: reason,
		Again:  later,
		Action: &Action{
			Kind:       ActHosts,
			Ops:        []HostOp{onHost(s.Host, v.roster.Guard(), op)},
			Projection: &p,
			Command:    command,
		},
	}
}

// changeVoters makes sure that the intent lists the old and the new voters
// before the change is made (SAFETY.md, rule 11), then makes it.
func (v *view) changeVoters(next []cluster.Voter, p cluster.Projection, op cluster.Op, except cluster.MemberID, command, reason string) *Decision {
	if !v.obs.Store.Read {
		return v.changeUnstored(next, p, op, except, command, reason)
	}
	replacing := v.replacingAfter(op, next)
	same := cluster.SameVoters(v.intent.Next, next)
	if same && sameReplacing(v.intent.Replacing, replacing) {
		return v.membership(p, op, except, command, reason)
	}
	if d := v.tooManyPending(op, reason); d != nil && !same {
		return d
	}
	in := v.intent.Clone()
	if !same {
		in.Supersede(next)
	}
	in.Replacing = replacing
	return &Decision{
		Reason: "write down the new voters first: " + reason,
		Action: &Action{Kind: ActIntent, Intent: &IntentChange{Replace: in}, Projection: &p, Command: command},
	}
}

// voters is the membership as the intent records it, with what it already
// knew of members whose hosts are out of sight now.
func (v *view) voters(keep func(cluster.Seat) bool) []cluster.Voter {
	var out []cluster.Voter
	for _, s := range v.roster.Seats {
		if !keep(s) {
			continue
		}
		w := s.AsVoter()
		if s.Host == nil && v.intent != nil {
			w = v.recorded(w)
		}
		if out == nil {
			out = make([]cluster.Voter, 0, len(v.roster.Seats)+1) // mostly one comes or goes
		}
		out = append(out, w)
	}
	return out
}

// recorded is what the intent knows of a member whose host is out of sight:
// the disk of an unstarted founder too, since it may start late.
func (v *view) recorded(w cluster.Voter) cluster.Voter {
	for _, old := range slices.Concat(v.intent.Voters, v.intent.Next) {
		if old.Member == w.Member {
			old.PeerURLs = w.PeerURLs
			return old
		}
	}
	for _, f := range v.intent.Founders {
		if f.Member == w.Member {
			w.Host, w.Disk = f.Host, f.Disk
		}
	}
	return w
}

func (v *view) votersNow() []cluster.Voter {
	return v.voters(func(s cluster.Seat) bool { return !s.Learner })
}

// version is the release that a joining member is started with: the one that
// the voters run. When voters differ it is the lowest, which every one of
// them can talk to.
func (v *view) version() cluster.Version {
	var low cluster.Version
	for _, s := range v.roster.Voters() {
		if s.Host == nil {
			continue
		}
		r := s.Host.Local.Version
		if r.IsZero() && s.Host.Status != nil {
			r = s.Host.Status.Version
		}
		if !r.IsZero() && (low.IsZero() || r.Compare(low) < 0) {
			low = r
		}
	}
	if low.IsZero() && v.intent != nil {
		low = v.intent.Version
	}
	return low
}

// versionFor is the release that a given host would join with: the voters'
// own, or the spec's when that is a patch of the same minor.
func (v *view) versionFor(h *cluster.HostReport) (cluster.Version, bool) {
	run := v.version()
	if h.CanRun(run) {
		return run, true
	}
	if v.spec != nil && v.spec.EtcdVersion.SameMinor(run) && h.CanRun(v.spec.EtcdVersion) {
		return v.spec.EtcdVersion, true
	}
	return run, false
}

// candidates are hosts that could carry a new member now, and in words why the
// others could not. The first are those that gave up the fewest members of this
// generation: one on which etcd never starts, for a reason that its daemon does
// not see, would be tried for ever while another one is free.
func (v *view) candidates() (free []*cluster.HostReport, why []string) {
	free, why = v.candidatesBeside(v.roster)
	slices.SortStableFunc(free, func(a, b *cluster.HostReport) int { return cmp.Compare(v.gaveUp(a), v.gaveUp(b)) })
	return free, why
}

// gaveUp is how many members the host's disk gave up that were not voters of a
// generation before this one: to end with that was no fault of the host.
func (v *view) gaveUp(h *cluster.HostReport) int {
	n := len(h.GaveUp)
	if n == 0 || v.intent == nil {
		return n
	}
	for _, id := range h.GaveUp {
		if slices.ContainsFunc(v.intent.History, func(g cluster.PastGeneration) bool { return g.Voted(id) }) {
			n--
		}
	}
	return n
}

func (v *view) candidatesBeside(r cluster.Roster) (free []*cluster.HostReport, why []string) {
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if r.Seated(h.Host) {
			continue
		}
		if reason := v.unfit(h); reason != "" {
			why = append(why, fmt.Sprintf("%s %s", h.Host, reason))
			continue
		}
		free = append(free, h)
	}
	for _, n := range v.obs.AtOdds {
		if n.Host == "" || !r.Seated(n.Host) {
			why = append(why, fmt.Sprintf("the daemon at %s%s does not talk with the leading one: %s", n.Endpoint, saidToBe(n.Host), n.Why))
		}
	}
	return free, why
}

func saidToBe(id cluster.HostID) string {
	if id == "" {
		return ""
	}
	return fmt.Sprintf(", as it seems of host %s,", id)
}

// unfit says why a host cannot be given a member; empty: it can.
func (v *view) unfit(h *cluster.HostReport) string {
	switch {
	case !h.UnderFence:
		return "has not promised this leader's fence"
	case !v.named(h):
		return "is not among the hosts that the spec names"
	case len(h.Foreign) > 0:
		return holdsForeign(h)
	case h.Predecessor != nil:
		return "holds a member of etcd-manager: " + h.Predecessor.Waits
	case h.Carries():
		return fmt.Sprintf("still holds data of member %s", h.Local.Member)
	case len(h.URLs.Peer) == 0:
		return "has no peer URL"
	case v.intent != nil && v.intent.State == cluster.IntentFounded && h.LowestGeneration > v.intent.Generation:
		return fmt.Sprintf("promised once to refuse generation %d and never takes that back: end its daemon, move its data directory away and start it on an empty one", v.intent.Generation)
	}
	if p := problem(h); p != "" {
		return p
	}
	if !h.Free() {
		return "is not free: its process is " + string(h.Process.State)
	}
	if v.seen {
		if want, ok := v.versionFor(h); !ok {
			return fmt.Sprintf("has no etcd %s", want)
		}
		return v.tlsBefore(h)
	}
	return ""
}

// holdsForeign names what a host holds that is not this cluster's. A host whose
// own state cannot be used names no directory.
func holdsForeign(h *cluster.HostReport) string {
	f := h.Foreign[0]
	if f.Dir == "" {
		return "cannot use what its data directory holds: " + f.Reason
	}
	return "holds data that nothing accounts for: " + f.Dir
}

func hostNames(hosts []*cluster.HostReport) string {
	var names []string
	for _, h := range hosts {
		names = append(names, string(h.Host))
	}
	return strings.Join(names, ", ")
}

func because(why []string) string {
	if len(why) == 0 {
		return ""
	}
	return " (" + strings.Join(why, "; ") + ")"
}
