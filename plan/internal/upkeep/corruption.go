package upkeep

import (
	"cmp"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

const (
	// HashLasts is how old a hash may be that is compared with a new one.
	HashLasts = 10 * time.Minute
	// HashRetry is the pause after a hash that failed, and between comparisons
	// while etcd says that members differ.
	HashRetry = time.Minute
	// calmFor is how long all voters have to have been up before their keys are
	// compared by the clock.
	calmFor = time.Minute
)

// Corruption follows up a difference between members: what etcd or one comparison
// says is looked at again before anybody is called wrong. Who is, counts as down
// from then on (cluster.MemberMemory.CorruptSince), and is replaced as a dead voter is.
func Corruption(v *step.View) *decision.Decision {
	m := v.Obs.Memory.Upkeep
	alarms := v.Roster.Alarms(cluster.AlarmCorrupt)
	if len(alarms) == 0 && m.Undecided == 0 && !suspects(v, 1) {
		return nil
	}
	if suspects(v, cluster.OddTimes) {
		return nil // it is being replaced
	}
	switch {
	case suspects(v, 1):
		return AskHash(v, words.F("a voter's keys were found to differ: look again"))
	case m.Undecided >= cluster.OddTimes:
		v.Notice("corrupt", "etcdadm backup list", "the voters' keys differ, and no majority tells which are right; nothing is replaced. Compare their keys, then restore a backup or remove the voter whose keys are wrong")
		return compareAgain(v, HashRetry)
	case m.Undecided > 0:
		return AskHash(v, words.F("the voters' keys were found to differ: look again"))
	case len(v.Roster.Voters()) < 3:
		v.Notice("corrupt", "etcdadm backup list", "etcd reports damaged data (CORRUPT, raised by {alarm}); with fewer than three voters no majority tells which is right, so nothing is replaced", words.AlarmWords(alarms))
		return nil
	}
	if !m.Explains() && v.Roster.Running().Mixed() {
		v.Notice("corrupt", "", "etcd refuses writes: members differ (CORRUPT, raised by {alarm}); their keys are compared once all run one release line, and they run {running}", words.AlarmWords(alarms), v.RunningWords())
		return nil
	}
	if !m.Explains() {
		v.Notice("corrupt", "", "etcd refuses writes: members differ (CORRUPT, raised by {alarm}); comparing their keys", words.AlarmWords(alarms))
		return AskHash(v, words.F("etcd reports that members differ: compare their keys"))
	}
	for _, a := range alarms {
		if _, listed := v.Roster.Seat(a.Member); a.Member != 0 && !listed && len(v.DownVoters()) == 0 {
			op := cluster.Op{Kind: cluster.OpDisarm, Alarm: a.Kind, Member: a.Member}
			return v.Unasked(step.Membership(v, v.Projection(0, 0), op, 0, "", words.F("member {member}, which raised CORRUPT, was removed, and the voters' keys are equal: disarm the alarm", a.Member)))
		}
	}
	v.Notice("corrupt", "etcdadm alarm disarm CORRUPT", "etcd reports that members differ (CORRUPT, raised by {alarm}), and comparing their keys does not show which; nothing is replaced. If they are fine, disarm the alarm", words.AlarmWords(alarms))
	return compareAgain(v, HashRetry)
}

// suspects: a comparison has found a voter odd so often.
func suspects(v *step.View, times int) bool {
	for _, s := range v.Roster.Voters() {
		m := v.Obs.Memory.Member(s.ID)
		if m.Odd >= times || times >= cluster.OddTimes && !m.CorruptSince.IsZero() {
			return true
		}
	}
	return false
}

// Compare has the voters' keys compared when the last comparison is older than the
// interval.
func Compare(v *step.View) *decision.Decision {
	noteHistory(v)
	every := v.Obs.Upkeep.HashInterval
	if len(v.Roster.Voters()) < 2 || every <= 0 || restless(v) != "" {
		return nil
	}
	for _, s := range v.Roster.Voters() {
		if v.Obs.At.Sub(v.Obs.Memory.Member(s.ID).HealthySince) < calmFor {
			return nil
		}
	}
	return compareAgain(v, every)
}

// muchHistory is how many revisions of the past are too many to be meant. Source:
// etcd keeps all of them until somebody compacts; kube-apiserver does every five minutes.
const muchHistory = 1_000_000

// noteHistory says that nobody compacts etcd's past. The last comparison knows.
func noteHistory(v *step.View) {
	m := v.Obs.Memory.Upkeep
	if kept := m.Compared - m.Compacted; kept >= muchHistory && !CompactsItself(v) {
		v.Notice("not-compacted", "etcdadm config set auto-compaction-retention=1h", "etcd keeps the last {kept} revisions: nothing compacts them, and the database grows until it is full", kept)
	}
}

func compareAgain(v *step.View, every time.Duration) *decision.Decision {
	if last := v.Obs.Memory.Upkeep.ComparedAt; !last.IsZero() && v.Obs.At.Sub(last) < every {
		return nil
	}
	return AskHash(v, words.F("compare the voters' keys"))
}

// AskHash asks the next voter's host for a hash of its member's keys, all up to one
// revision; nil: one is being made, or cannot be. One at a time, because a member
// applies no writes while it hashes; raft's leader last.
func AskHash(v *step.View, reason words.Text) *decision.Decision {
	for _, s := range v.Roster.Voters() {
		h := s.Host
		if h == nil || !h.UnderFence || h.Status == nil || !h.Status.Healthy || h.Hash != nil && h.Hash.Running {
			return nil
		}
	}
	revision, ok := HashRevision(v)
	if run := v.Roster.Running(); !ok || run.Mixed() || !run.Low.Has(cluster.HashKV) {
		return nil
	}
	var next *cluster.Seat
	for _, leading := range []bool{false, true} {
		for _, s := range v.Roster.Voters() {
			if h := FreshHash(v, s); s.RaftLeader == leading && next == nil && (h == nil || h.Error != "" || h.Asked != revision) {
				next = &s
			}
		}
	}
	if next == nil { // all are there, of different compactions: who had not heard of the last one is asked again
		for _, s := range v.Roster.Voters() {
			if next == nil || s.Host.Hash.Compacted < next.Host.Hash.Compacted {
				next = &s
			}
		}
	}
	p := v.Projection(0, 0)
	return &decision.Decision{
		Reason: words.F("{reason}, at revision {revision}: hash those of {member}", reason, revision, words.SeatName(*next)),
		Again:  decision.Later,
		Action: &decision.Action{Kind: decision.ActHosts, Projection: &p, Ops: []decision.HostOp{decision.OnHost(next.Host, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpHash, Host: next.HostID, Member: next.ID, Cluster: v.Roster.Cluster, Revision: revision, Doubt: doubt(v, *next),
		})}},
	}
}

// doubt is what a voter's host is told of its member's keys. A comparison convicts
// nobody that it found odd once, and etcd's alarm nobody without one: so before either
// does, the host has been asked for a hash that says so, and kept that.
func doubt(v *step.View, s cluster.Seat) cluster.Doubt {
	m := v.Obs.Memory.Member(s.ID)
	alarmed := slices.ContainsFunc(v.Roster.Alarms(cluster.AlarmCorrupt), func(a cluster.Alarm) bool { return a.Member == s.ID || a.Member == 0 })
	if m.Odd > 0 || !m.CorruptSince.IsZero() || alarmed || v.Obs.Memory.Upkeep.Undecided > 0 {
		return cluster.DoubtFound
	}
	return cluster.DoubtNone
}

// HashRevision is up to where the keys are compared: as far as in the hashes that
// are there already, or as far as every voter has come; false: not now.
func HashRevision(v *step.View) (int64, bool) {
	var at, least int64
	for _, s := range v.Roster.Voters() {
		if h := FreshHash(v, s); h != nil && h.Error == "" {
			at = max(at, h.Asked)
		}
		if r := s.Host.Status.Revision; least == 0 || r < least {
			least = r
		}
	}
	for _, s := range v.Roster.Voters() {
		h := FreshHash(v, s)
		if h == nil || h.Error == "" || h.Asked < at {
			continue
		}
		if v.Ago(s.Host, h.Ended) < HashRetry {
			v.Notice("not-compared", "", "the voters' keys cannot be compared now, which is tried again: {member}: {error}", words.SeatName(s), h.Error)
			return 0, false
		}
		at = 0 // what was asked for may have been compacted since
	}
	at = cmp.Or(at, least)
	return at, at > 0
}

// FreshHash is a hash of the voter that no comparison has counted yet, and that is
// not from before an alarm that it is to explain; nil: none.
func FreshHash(v *step.View, s cluster.Seat) *cluster.Hash {
	h := s.Host.Hash
	if h != nil && v.LeadersTime(s.Host, h.Began).Before(v.Obs.Memory.Upkeep.CorruptSince) {
		return nil
	}
	if h == nil || h.Running || h.Member != s.ID || h.Ended.Equal(v.Obs.Memory.Member(s.ID).Hashed) || v.Ago(s.Host, h.Ended) > HashLasts {
		return nil
	}
	return h
}
