package plan

import (
	"fmt"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

const (
	// leastFree is how much has to be free in a database before it is worth taking
	// its member away for as long as it takes to write the rest anew.
	leastFree = 32 << 20 // bytes
	// defragEvery is how often a member is defragmented at most, and defragRetry
	// the pause after one that failed while etcd refuses writes.
	defragEvery = time.Hour
	defragRetry = time.Minute
)

// defragment has one voter write its database anew of which more than the
// threshold is free. It is taken away like a member that is restarted, raft's leader
// last, after it has handed over.
func defragment(v *view) *Decision {
	if v.obs.Upkeep.DefragThreshold <= 0 || len(v.roster.Voters()) < 3 {
		return nil
	}
	if why := v.restless(); why != "" {
		return nil
	}
	for _, leading := range []bool{false, true} {
		for _, s := range v.roster.Voters() {
			if s.RaftLeader != leading || !v.fragmented(s) {
				continue
			}
			if h := v.mayNotDefragment(s); h != nil {
				v.aside("fragmented", "", "the database of %s is fragmented, and is defragmented later: %s", seatName(s), h.why)
				return nil
			}
			st := s.Host.Status
			return v.defragmentSeat(s, fmt.Sprintf("the database of %s has %s of its %s free", seatName(s), bytesWords(st.DBSize-st.DBInUse), bytesWords(st.DBSize)))
		}
	}
	return nil
}

// fragmented: so much of the voter's database is free that it is worth it.
func (v *view) fragmented(s cluster.Seat) bool {
	if s.Host == nil || s.Host.Status == nil || s.Host.Status.DBInUse == 0 { // before 3.4 etcd does not tell
		return false
	}
	st := s.Host.Status
	free := st.DBSize - st.DBInUse
	if w := s.Host.Database; w != nil && w.Member == s.ID && v.ago(s.Host, w.Defragmented) < defragEvery {
		return false
	}
	return free >= leastFree && free/100 >= st.DBSize/10000*int64(v.obs.Upkeep.DefragThreshold)
}

// restless says what is going on that a member is not taken away beside for its
// own good only; empty: nothing.
func (v *view) restless() string {
	in := v.intent
	full := v.goal.Kind != Defragment && len(v.roster.Alarms(cluster.AlarmNoSpace)) > 0
	switch {
	case in == nil || in.State != cluster.IntentFounded || in.Quarantined || len(in.Next) > 0 || len(in.Pending) > 0:
		return "the membership is being changed"
	case v.roster.Running().Mixed() || v.roster.Running().Downgrade:
		return "versions are being changed"
	case full || len(v.roster.Alarms(cluster.AlarmCorrupt)) > 0:
		return "an alarm is raised"
	case v.backingUp():
		return "a backup is being taken"
	}
	for _, c := range v.obs.Commands {
		if c.Kind != cluster.CommandBackup && c.Ended == "" {
			return "a command in the queue comes first"
		}
	}
	return ""
}

// mayNotDefragment says what keeps a voter from being defragmented now; nil: nothing.
// One of two voters is, when etcd refuses writes or a person asks: raft goes on
// meanwhile, and SAFETY.md, rule 1, lets one of two be restarted.
// While etcd writes the database anew it serves nothing, and waits for a learner that
// reads a snapshot of it.
func (v *view) mayNotDefragment(s cluster.Seat) *hindrance {
	not := func(format string, args ...any) *hindrance {
		return &hindrance{why: fmt.Sprintf(format, args...), again: later, blocks: true}
	}
	voters := len(v.roster.Voters())
	switch h := s.Host; {
	case !s.Up:
		return not("it is not up: %s", s.Why)
	case voters == 2 && v.goal.Kind != Defragment && len(v.roster.Alarms(cluster.AlarmNoSpace)) == 0:
		return not("with two voters what reads or writes through one of them waits for as long as it takes; with a third it can be done")
	case len(v.roster.Learners()) > 0:
		return not("a learner is catching up")
	case h.Room > 0 && h.Room < h.Status.DBInUse+h.Status.DBInUse/10:
		return not("host %s has room for %s, and its database is written anew beside the old one", h.Host, bytesWords(h.Room))
	}
	if w := s.Host.Database; w != nil && w.Member == s.ID && w.Error != "" && v.ago(s.Host, w.Defragmented) < defragRetry {
		return not("the last try failed: %s", w.Error)
	}
	return v.mayBeAway(s)
}

func (v *view) defragmentSeat(s cluster.Seat, reason string) *Decision {
	reason += ": have it written anew"
	p := v.projection(0, -1)
	if s.RaftLeader && p.Voters > 1 {
		return v.handOver(s, reason, nil)
	}
	g := v.roster.Guard()
	g.NotLeader = p.Voters > 1
	return &Decision{
		Reason: reason,
		Again:  later,
		Action: &Action{Kind: ActHosts, Projection: &p, Command: "etcdadm defrag " + seatName(s), Ops: []HostOp{
			onHost(s.Host, g, cluster.Op{Kind: cluster.OpDefragment, Host: s.HostID, Member: s.ID, Cluster: v.roster.Cluster})}},
	}
}

// optionOf finds an option in arguments such as --name=value.
func optionOf(args []string, name string) (value string, set bool) {
	for _, a := range args {
		if n, val, _ := strings.Cut(strings.TrimLeft(a, "-"), "="); n == name {
			value, set = val, true
		}
	}
	return value, set
}

// bytesWords is a size for people.
func bytesWords(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
