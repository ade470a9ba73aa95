package plan

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// finishJoining starts members that were added and not started, and takes out
// learners that nobody can start. A learner has no vote: removing one is
// always safe, and one that never started blocks the next add.
func finishJoining(v *view) *Decision {
	if d := v.startFounder(); d != nil {
		return d
	}
	if d := v.startAdded(); d != nil {
		return d
	}
	if d := v.nudge(); d != nil {
		return d
	}
	waiting := v.startingLearner()
	for _, s := range v.roster.Learners() {
		if due, why := v.needs(s, remedyRemove); due { // a pause does not keep it: no other could be added meanwhile
			return v.removeLearner(s, why)
		}
		if due, why := v.needs(s, remedyRestart); due {
			return v.restartHung(s.Host, why)
		}
		switch {
		case s.Host != nil:
			v.noteLag(s)
		case s.Condition != cluster.ConditionNeverStarted, waiting != "": // two joiners that start together wait for each other's answers
		default:
			if d := v.oldListAt(s.Owner, s); d != nil {
				return d
			}
			return v.startJoiner(s.Owner, s.Member)
		}
	}
	return v.superfluous()
}

// startFounder starts a founder that the running cluster still waits for.
func (v *view) startFounder() *Decision {
	if len(v.intent.Founders) == 0 {
		return nil
	}
	var listed []cluster.Member
	for _, s := range v.roster.Voters() {
		if dead, _ := v.dead(s); s.Host == nil && !dead { // one that refused for so long is replaced
			listed = append(listed, s.Member)
		}
	}
	if len(listed) == 0 {
		return nil
	}
	ops, _ := v.unstartedFounders(v.members())
	ops = slices.DeleteFunc(ops, func(o HostOp) bool {
		return !slices.ContainsFunc(listed, func(m cluster.Member) bool { return m.ID == o.Op.Member })
	})
	if len(ops) == 0 {
		return nil
	}
	p := v.projection(0, 1)
	return &Decision{
		Reason: fmt.Sprintf("founder %s has not started yet, and the cluster lists it", ops[0].Host),
		Again:  soon,
		Action: &Action{Kind: ActHosts, Ops: ops[:1], Projection: &p},
	}
}

func (v *view) members() []cluster.Member {
	var out []cluster.Member
	for _, s := range v.roster.Seats {
		out = append(out, s.Member)
	}
	return out
}

// startingLearner names the host of a learner that was started and does not
// serve yet.
func (v *view) startingLearner() cluster.HostID {
	for _, s := range v.roster.Learners() {
		if s.Host != nil && s.Host.Process.State == cluster.ProcessRunning && s.Host.Status == nil {
			return s.Host.Host
		}
	}
	return ""
}

// oldListAt waits while a member answers that does not keep up. Source: a
// joining etcd takes its member ID from the list of whichever member answers
// first, by peer URL. A list from before a former member at this address was
// removed would give it that member's ID, and an empty disk its vote. A
// learner that is catching up goes through every old list on its way, since it
// applies the log from the beginning.
//
// This is a look at what was; what answers when the member starts may be
// another one. So its host looks at the ID that it took.
func (v *view) oldListAt(h *cluster.HostReport, joiner cluster.Seat) *Decision {
	for _, s := range v.roster.Seats {
		what, why := "voter", s.Why
		if s.Learner {
			what, why = "learner", orElse(s.Why, "it is catching up")
		}
		if s.ID == joiner.ID || v.keepsUp(s) || !v.mayAnswer(s) {
			continue
		}
		if is, gone := v.needs(s, remedyReplace); is { // it serves without its data or with other keys, and never keeps up again
			if d := replaceDead(v); d != nil && d.Action != nil {
				return d
			}
			// Its own host may not be able to take its place, and then the joiner
			// is the one that will, which cannot begin before it is gone.
			if v.repairs() && !v.held() && !s.Learner {
				if d := v.removeDead(s, fmt.Sprintf("voter %s has to be replaced (%s), and %s, which was added, cannot start beside its list: remove it", seatName(s), gone, h.Host)); d.Action != nil {
					return d
				}
			}
		}
		d := wait(false, "voter-behind", "", "member %s was added for %s; it is started once %s %s keeps up or is gone, because its list may be old (%s)",
			joiner.ID, h.Host, what, seatName(s), why)
		d.Again = later
		return d
	}
	return nil
}

// keepsUp: a voter that is up served a quorum read, so that its list is
// current; of a learner, which serves no list, its index tells. Hosts are not
// looked at in the same instant, so a little is allowed for what was written
// in between.
func (v *view) keepsUp(s cluster.Seat) bool {
	if !s.Learner || !s.Up {
		return s.Up
	}
	top := v.listIndex()
	return s.Host.Status.Applied >= top-min(top/100, 1000)
}

// listIndex is a raft index at which the present member list was applied: the
// lowest that a voter has which is up.
func (v *view) listIndex() uint64 {
	var low uint64
	for i, s := range v.roster.Up() {
		if a := s.Host.Status.Applied; i == 0 || a < low {
			low = a
		}
	}
	return low
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// mayAnswer: a process of the member runs as far as anybody can tell.
func (v *view) mayAnswer(s cluster.Seat) bool {
	if s.Host != nil {
		return s.Host.Process.State != cluster.ProcessStopped && s.Host.Process.State != cluster.ProcessBackoff
	}
	for i := range v.obs.Hosts {
		for _, r := range v.obs.Hosts[i].Reaches {
			if r.Member == s.ID && (r.Answers || r.Open) { // what is paused goes on, and answers then
				return true
			}
		}
	}
	return false
}

func (v *view) startJoiner(h *cluster.HostReport, m cluster.Member) *Decision {
	release, ok := v.versionFor(h)
	if !ok {
		command, elsewise := download(release)
		return wait(false, "no-release", command, "host %s has no etcd %s, which the cluster runs; %s", h.Host, release, elsewise)
	}
	p := v.projection(0, 0)
	m.Name = string(h.Host)
	members := v.members()
	for i := range members {
		if members[i].ID == m.ID {
			members[i] = m
		}
	}
	return &Decision{
		Reason: fmt.Sprintf("member %s was added for %s: start it there", m.ID, h.Host),
		Again:  soon,
		Action: &Action{Kind: ActHosts, Projection: &p, Command: "etcdadm member add " + string(h.Host), Ops: []HostOp{onHost(h, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpStart, Host: h.Host, Member: m.ID, Cluster: v.roster.Cluster, Generation: v.intent.Generation, Nonce: v.intent.Nonce,
			Token: v.intent.Token, Members: members, Version: release, Quarantined: v.joinsQuarantined(m.ID),
		})}},
	}
}

// nudgeAfter is how long a learner may take to serve after it has received
// raft's snapshot.
const nudgeAfter = 400 * time.Millisecond

// nudge restarts a learner that has received raft's snapshot and does not
// serve. Source: a starting member proposes its name and client URLs, and
// serves once it has applied that. When the proposal is in the snapshot that it
// receives, nothing is left to apply, and it waits out etcd's request time-out
// of seven seconds; always so after a restore, whose log begins with a
// snapshot. A process that began after the snapshot came is left alone.
func (v *view) nudge() *Decision {
	for _, s := range v.roster.Learners() {
		h := s.Host
		if h == nil || !h.UnderFence || h.Status != nil || h.Process.State != cluster.ProcessRunning || h.Local.State != cluster.MemberStarted ||
			h.Received == 0 || h.Process.Uptime <= h.Received {
			continue
		}
		if left := nudgeAfter - h.Received; left > 0 {
			return &Decision{Reason: fmt.Sprintf("learner %s has received the snapshot, and is about to serve", seatName(s)), Again: left}
		}
		p := v.projection(0, 0)
		return &Decision{
			Reason: fmt.Sprintf("learner %s has received the snapshot and waits for its own name to be applied, which is in it: restart it", seatName(s)),
			Again:  soon,
			Action: &Action{Kind: ActHosts, Projection: &p, Ops: []HostOp{onHost(h, cluster.Guard{}, v.restart(h, "it waits for what it has already"))}},
		}
	}
	return nil
}

func (v *view) removeLearner(s cluster.Seat, reason string) *Decision {
	op := cluster.Op{Kind: cluster.OpRemove, Member: s.ID, Host: s.HostID}
	return v.membership(v.projection(0, 0), op, s.ID, "etcdadm member remove "+s.ID.String(), reason)
}

// superfluous takes out learners that would make more voters than are wanted.
func (v *view) superfluous() *Decision {
	room := v.wanted() - len(v.roster.Voters())
	for _, s := range v.roster.Voters() {
		if !s.Up {
			room++ // it may be dead, and the learner its successor
		}
	}
	learners := v.roster.Learners()
	if v.goal.Kind != Converge || !v.repairs() || v.held() || len(learners) <= max(room, 0) {
		return nil
	}
	s := learners[len(learners)-1]
	return v.removeLearner(s, fmt.Sprintf("%s wanted, so learner %s is not needed any more: remove it", are(v.wanted(), "voter"), seatName(s)))
}

// noteLag tells a person of a learner that does not get there.
func (v *view) noteLag(s cluster.Seat) {
	since := v.obs.Memory.Member(s.ID).JoiningSince
	if since.IsZero() || v.obs.At.Sub(since) < catchUpPatience {
		return
	}
	v.aside("learner-lags", "etcdadm member remove "+s.ID.String(), "learner %s has not caught up for %s: %s", seatName(s), v.obs.At.Sub(since).Round(time.Second), lag(v, s))
}

func lag(v *view, s cluster.Seat) string {
	if s.Host.Status == nil {
		return "its process is " + processWords(s.Host.Process)
	}
	return fmt.Sprintf("it is at index %d of %d, and may become a voter within %d of that", s.Host.Status.Applied, v.furthest(), v.mayLag())
}

// furthest is the highest raft index that a member in sight reports.
func (v *view) furthest() uint64 {
	var top uint64
	for _, s := range v.roster.Seats {
		if s.Host != nil && s.Host.Status != nil {
			top = max(top, s.Host.Status.Index)
		}
	}
	return top
}
