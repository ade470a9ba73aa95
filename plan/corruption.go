package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

const (
	// hashLasts is how old a hash may be that is compared with a new one.
	hashLasts = 10 * time.Minute
	// hashRetry is the pause after a hash that failed, and between comparisons
	// while etcd says that members differ.
	hashRetry = time.Minute
	// calmFor is how long all voters have to have been up before their keys are
	// compared by the clock.
	calmFor = time.Minute
)

// corruption follows up a difference between members: what etcd or one comparison
// says is looked at again before anybody is called wrong. Who is, counts as down
// from then on (cluster.MemberMemory.CorruptSince), and is replaced as a dead voter is.
func corruption(v *view) *Decision {
	m := v.obs.Memory.Upkeep
	alarms := v.roster.Alarms(cluster.AlarmCorrupt)
	if len(alarms) == 0 && m.Undecided == 0 && !v.suspects(1) {
		return nil
	}
	if v.suspects(cluster.OddTimes) {
		return nil // it is being replaced
	}
	switch {
	case v.suspects(1):
		return v.askHash("a voter's keys were found to differ: look again")
	case m.Undecided >= cluster.OddTimes:
		v.aside("corrupt", "etcdadm backup list", "the keys of the voters differ, and there is no majority that would tell which are right; nothing is replaced. Compare what they hold, and restore a backup, or remove the one that is wrong")
		return v.compareAgain(hashRetry)
	case m.Undecided > 0:
		return v.askHash("the voters' keys were found to differ: look again")
	case len(v.roster.Voters()) < 3:
		v.aside("corrupt", "etcdadm backup list", "etcd says that its data is damaged (CORRUPT, of %s), and with fewer than three voters nobody can tell which is right; nothing is replaced", alarmWords(alarms))
		return nil
	}
	if !m.Explains() && v.roster.Running().Mixed() {
		v.aside("corrupt", "", "etcd refuses writes, because it says that members differ (CORRUPT, of %s): their keys are compared once the members run one release line, and they run %s", alarmWords(alarms), v.runningWords())
		return nil
	}
	if !m.Explains() {
		v.aside("corrupt", "", "etcd refuses writes, because it says that members differ (CORRUPT, of %s): their keys are being compared", alarmWords(alarms))
		return v.askHash("etcd says that members differ: compare their keys")
	}
	for _, a := range alarms {
		if _, listed := v.roster.Seat(a.Member); a.Member != 0 && !listed && len(v.downVoters()) == 0 {
			op := cluster.Op{Kind: cluster.OpDisarm, Alarm: a.Kind, Member: a.Member}
			return v.membership(v.projection(0, 0), op, 0, "", fmt.Sprintf("member %s, of which the CORRUPT alarm is, is gone, and the voters' keys are equal: take the alarm back", a.Member))
		}
	}
	v.aside("corrupt", "etcdadm alarm disarm CORRUPT", "etcd says that members differ (CORRUPT, of %s), and a comparison of their keys does not say which; nothing is replaced. If nothing is wrong with them, the alarm can be taken back", alarmWords(alarms))
	return v.compareAgain(hashRetry)
}

func alarmWords(alarms []cluster.Alarm) string {
	var of []string
	for _, a := range alarms {
		if a.Member == 0 {
			return "all of them"
		}
		of = append(of, a.Member.String())
	}
	return strings.Join(of, ", ")
}

// suspects: a comparison has found a voter odd so often.
func (v *view) suspects(times int) bool {
	for _, s := range v.roster.Voters() {
		m := v.obs.Memory.Member(s.ID)
		if m.Odd >= times || times >= cluster.OddTimes && !m.CorruptSince.IsZero() {
			return true
		}
	}
	return false
}

// compare has the voters' keys compared when the last comparison is older than the
// interval.
func compare(v *view) *Decision {
	v.noteHistory()
	every := v.obs.Upkeep.HashInterval
	if len(v.roster.Voters()) < 2 || every <= 0 || v.restless() != "" {
		return nil
	}
	for _, s := range v.roster.Voters() {
		if v.obs.At.Sub(v.obs.Memory.Member(s.ID).HealthySince) < calmFor {
			return nil
		}
	}
	return v.compareAgain(every)
}

// muchHistory is how many revisions of the past are too many to be meant. Source:
// etcd keeps all of them until somebody compacts; kube-apiserver does every five minutes.
const muchHistory = 1_000_000

// noteHistory says that nobody compacts etcd's past. The last comparison knows.
func (v *view) noteHistory() {
	m := v.obs.Memory.Upkeep
	if kept := m.Compared - m.Compacted; kept >= muchHistory && !v.compactsItself() {
		v.aside("not-compacted", "etcdadm config set auto-compaction-retention=1h", "etcd keeps the last %d revisions, because nobody compacts its past, and it grows until the database is full", kept)
	}
}

func (v *view) compareAgain(every time.Duration) *Decision {
	if last := v.obs.Memory.Upkeep.ComparedAt; !last.IsZero() && v.obs.At.Sub(last) < every {
		return nil
	}
	return v.askHash("compare the voters' keys")
}

// askHash asks the next voter's host for a hash of its member's keys, all up to one
// revision; nil: one is being made, or cannot be. One at a time, because a member
// applies no writes while it hashes; raft's leader last.
func (v *view) askHash(reason string) *Decision {
	for _, s := range v.roster.Voters() {
		h := s.Host
		if h == nil || !h.UnderFence || h.Status == nil || !h.Status.Healthy || h.Hash != nil && h.Hash.Running {
			return nil
		}
	}
	revision, ok := v.hashRevision()
	if run := v.roster.Running(); !ok || run.Mixed() || !run.Low.Has(cluster.HashKV) {
		return nil
	}
	var next *cluster.Seat
	for _, leading := range []bool{false, true} {
		for _, s := range v.roster.Voters() {
			if h := v.freshHash(s); s.RaftLeader == leading && next == nil && (h == nil || h.Error != "" || h.Asked != revision) {
				next = &s
			}
		}
	}
	if next == nil { // all are there, of different compactions: who had not heard of the last one is asked again
		for _, s := range v.roster.Voters() {
			if next == nil || s.Host.Hash.Compacted < next.Host.Hash.Compacted {
				next = &s
			}
		}
	}
	p := v.projection(0, 0)
	return &Decision{
		Reason: fmt.Sprintf("%s, at revision %d: hash those of %s", reason, revision, seatName(*next)),
		Again:  later,
		Action: &Action{Kind: ActHosts, Projection: &p, Ops: []HostOp{onHost(next.Host, cluster.Guard{}, cluster.Op{
			Kind: cluster.OpHash, Host: next.HostID, Member: next.ID, Cluster: v.roster.Cluster, Revision: revision, Doubt: v.doubt(*next),
		})}},
	}
}

// doubt is what a voter's host is told of its member's keys. A comparison convicts
// nobody that it found odd once, and etcd's alarm nobody without one: so before either
// does, the host has been asked for a hash that says so, and kept that.
func (v *view) doubt(s cluster.Seat) cluster.Doubt {
	m := v.obs.Memory.Member(s.ID)
	alarmed := slices.ContainsFunc(v.roster.Alarms(cluster.AlarmCorrupt), func(a cluster.Alarm) bool { return a.Member == s.ID || a.Member == 0 })
	if m.Odd > 0 || !m.CorruptSince.IsZero() || alarmed || v.obs.Memory.Upkeep.Undecided > 0 {
		return cluster.DoubtFound
	}
	return cluster.DoubtNone
}

// hashRevision is up to where the keys are compared: as far as in the hashes that
// are there already, or as far as every voter has come; false: not now.
func (v *view) hashRevision() (int64, bool) {
	var at, least int64
	for _, s := range v.roster.Voters() {
		if h := v.freshHash(s); h != nil && h.Error == "" {
			at = max(at, h.Asked)
		}
		if r := s.Host.Status.Revision; least == 0 || r < least {
			least = r
		}
	}
	for _, s := range v.roster.Voters() {
		h := v.freshHash(s)
		if h == nil || h.Error == "" || h.Asked < at {
			continue
		}
		if v.ago(s.Host, h.Ended) < hashRetry {
			v.aside("not-compared", "", "the voters' keys cannot be compared now, which is tried again: %s: %s", seatName(s), h.Error)
			return 0, false
		}
		at = 0 // what was asked for may have been compacted since
	}
	if at == 0 {
		at = least
	}
	return at, at > 0
}

// freshHash is a hash of the voter that no comparison has counted yet, and that is
// not from before an alarm that it is to explain; nil: none.
func (v *view) freshHash(s cluster.Seat) *cluster.Hash {
	h := s.Host.Hash
	if h != nil && v.leadersTime(s.Host, h.Began).Before(v.obs.Memory.Upkeep.CorruptSince) {
		return nil
	}
	if h == nil || h.Running || h.Member != s.ID || h.Ended.Equal(v.obs.Memory.Member(s.ID).Hashed) || v.ago(s.Host, h.Ended) > hashLasts {
		return nil
	}
	return h
}
