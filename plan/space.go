package plan

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"etcdadm.io/cluster"
)

const (
	// compactsFor is how long members may take to carry a compaction out before
	// what they still have in use counts as what they cannot do without: a time, and
	// as long again for each so many bytes. Source: etcd deletes a thousand revisions
	// at a time, with pauses of ten milliseconds, in a compaction of 3.5 and later.
	compactsFor      = 3 * time.Second
	compactsForBytes = 100 << 20 // a second each

	// Of a NOSPACE alarm that comes again and again, the first few are cured at once,
	// and each later one after twice the time, up to the longest.
	fullFree  = 3
	fullFirst = 10 * time.Second
	fullMost  = 5 * time.Minute
)

// space cures NOSPACE: the past is compacted, the members that are beyond their
// limit are defragmented one at a time, and the alarm is taken back once all of
// them are below it. What cannot be cured so is said, and left to the other rules:
// more room comes with a higher quota, which is a person's word.
func space(v *view) *Decision {
	alarms := v.roster.Alarms(cluster.AlarmNoSpace)
	if len(alarms) == 0 {
		return nil
	}
	over := v.overLimit()
	if len(over) == 0 {
		a := alarms[0]
		op := cluster.Op{Kind: cluster.OpDisarm, Alarm: a.Kind, Member: a.Member}
		return v.membership(v.projection(0, 0), op, 0, "etcdadm alarm disarm", fmt.Sprintf("every voter's database is below its quota again: take the NOSPACE alarm of member %s back", a.Member))
	}
	if d := v.notYetAgain(); d != nil {
		return d
	}
	if d, goOn := v.compactFirst(over); !goOn {
		return d
	}
	return v.makeRoom(over)
}

// overLimit are the voters in sight whose database is so large that the alarm
// would be back at once.
func (v *view) overLimit() (over []cluster.Seat) {
	for _, s := range v.roster.Voters() {
		if s.Host == nil || s.Host.Status == nil {
			continue
		}
		if l := s.Host.Status.Limit(); l > 0 && s.Host.Status.DBSize > l {
			over = append(over, s)
		}
	}
	return over
}

// notYetAgain slows the cure down of an alarm that comes again and again, and says
// what would keep it away; nil: it is cured now.
func (v *view) notYetAgain() *Decision {
	m := v.obs.Memory.Upkeep
	if m.FullTimes < 2 {
		return nil
	}
	advice := "something writes faster than etcd's past is compacted"
	if !v.compactsItself() {
		advice += ", and auto-compaction is off"
	}
	sentence := fmt.Sprintf("NOSPACE has come %d times in an hour: %s", m.FullTimes, advice)
	v.aside("no-space-again", "etcdadm config set auto-compaction-retention=5m", "%s", sentence)
	if m.FullTimes <= fullFree {
		return nil
	}
	pause := min(fullFirst<<min(m.FullTimes-fullFree-1, 10), fullMost)
	if waited := v.obs.At.Sub(m.FullSince); waited < pause {
		return &Decision{Reason: fmt.Sprintf("%s; it is cured again in %s", sentence, (pause - waited).Round(time.Second)), Again: min(pause-waited, later)}
	}
	return nil
}

// compactsItself: every voter in sight was started with auto-compaction.
func (v *view) compactsItself() bool {
	for _, s := range v.roster.Voters() {
		if s.Host == nil {
			continue
		}
		if r, set := optionOf(s.Host.Local.Options, "auto-compaction-retention"); !set || r == "0" || r == "0s" {
			return false
		}
	}
	return true
}

// compactFirst has the past compacted as far as that is needed, where more than half
// of the limit is in use: at first what is older than kube-apiserver keeps, and all
// of it when that is not enough, since what is written next would be refused else.
// goOn: there is nothing to compact, or no need to.
func (v *view) compactFirst(over []cluster.Seat) (d *Decision, goOn bool) {
	done, ago := v.compacted()
	past, top := v.obs.Memory.Upkeep.Past(v.obs.At), v.revision()
	if v.obs.Memory.Upkeep.FullTimes > 1 {
		past = top
	}
	beyond := func(part int64) []cluster.Seat {
		return slices.DeleteFunc(slices.Clone(over), func(s cluster.Seat) bool { return s.Host.Status.DBInUse <= s.Host.Status.Limit()/part })
	}
	full, crowded := beyond(1), beyond(2)
	switch {
	case v.obs.Upkeep.KeepHistory && len(full) > 0:
		v.fullOf(full[0], "its past is not compacted, because --auto-compact-on-nospace is off", "etcdctl compact REVISION")
		return nil, false
	case v.obs.Upkeep.KeepHistory, len(crowded) == 0:
		return nil, true
	case done < past && past > 1: // nothing is before the first
		return v.compact(past), false
	}
	if takes := compactsFor + time.Duration(crowded[0].Host.Status.DBSize/compactsForBytes)*time.Second; ago < takes {
		return &Decision{Reason: fmt.Sprintf("etcd refuses writes (NOSPACE): the members carry out a compaction; %s has %s in use", seatName(crowded[0]), bytesWords(crowded[0].Host.Status.DBInUse)), Again: later}, false
	}
	if len(full) == 0 {
		return nil, true
	}
	if done < top {
		return v.compact(top), false
	}
	v.fullOfKeys(full[0])
	return nil, false
}

// fullOfKeys says that more room is a person's word, or that the word was given and
// what its members wait for: they are restarted with it while all the others are up.
func (v *view) fullOfKeys(s cluster.Seat) {
	held, remove := v.heldByDead()
	if asked := askedQuota(s.Host); asked > s.Host.Status.Room() && s.Host.Status.DBInUse <= asked/10*9 {
		v.fullOf(s, fmt.Sprintf("a quota of %s is asked for, with which members are restarted one at a time, each while all the others are up%s", bytesWords(asked), held), remove)
		return
	}
	if held != "" {
		held += fmt.Sprintf(" (%s)", remove)
	}
	v.fullOf(s, "nothing of it is of the past, so only a higher quota or fewer keys help"+held, v.quotaCommand(s))
}

// askedQuota is the quota that the host's member would be started with now; zero:
// etcd's own, or one that cannot be read.
func askedQuota(h *cluster.HostReport) int64 {
	value, _ := optionOf(h.Options, "quota-backend-bytes")
	n, _ := strconv.ParseInt(value, 10, 64)
	return n
}

// heldByDead names the dead voter that holds the cure of a full database up: it has
// no successor, so that it stays listed, and beside it no member is taken away
// (SAFETY.md, rules 1 and 4). Empty: there is none.
func (v *view) heldByDead() (words, command string) {
	for _, s := range v.roster.Voters() {
		if dead, _ := v.dead(s); dead && v.withoutSuccessor(s) {
			return fmt.Sprintf("; none is restarted or defragmented beside voter %s, which is dead and has no successor: bring its host back, start another daemon, or remove it, which puts the spec on hold until etcdadm seed STORE --nodes N", seatName(s)), removeHeld(s)
		}
	}
	return "", ""
}

// orRemove offers the removal of a dead voter that has no successor where it keeps
// etcd from writing; otherwise whoever comes back late still counts.
func (v *view) orRemove(s cluster.Seat) (words, command string) {
	if len(v.roster.Alarms(cluster.AlarmNoSpace)) == 0 {
		return "", ""
	}
	return "; or remove it, which puts the spec on hold until etcdadm seed STORE --nodes N: etcd refuses writes (NOSPACE), and no member is restarted or defragmented beside it", removeHeld(s)
}

func removeHeld(s cluster.Seat) string { return "etcdadm member remove --hold " + s.ID.String() }

func (v *view) fullOf(s cluster.Seat, why, command string) {
	st := s.Host.Status
	v.aside("no-space", command, "etcd refuses writes (NOSPACE): the database of %s holds %s of a quota of %s; %s", seatName(s), bytesWords(st.DBInUse), bytesWords(st.Room()), why)
}

// quotaCommand asks for twice of what is in use. Source: etcd's guide advises no
// more than 8 GiB.
func (v *view) quotaCommand(s cluster.Seat) string {
	quota := s.Host.Status.Room()
	want := max(quota, s.Host.Status.DBInUse) * 2
	if want > 8<<30 && quota < 8<<30 {
		want = 8 << 30
	}
	return fmt.Sprintf("etcdadm config set quota-backend-bytes=%d", want)
}

// compacted is up to where the members' past was compacted through a host in
// sight, and how long ago; what the daemons have forgotten is done again, without harm.
func (v *view) compacted() (revision int64, ago time.Duration) {
	ago = longAgo
	for i := range v.obs.Hosts {
		h := &v.obs.Hosts[i]
		if w := h.Database; w != nil && w.Compacted > revision {
			revision, ago = w.Compacted, v.ago(h, w.CompactedAt)
		}
	}
	return revision, ago
}

// revision is the newest that a voter has.
func (v *view) revision() (top int64) {
	for _, s := range v.roster.Up() {
		top = max(top, s.Host.Status.Revision)
	}
	return top
}

func (v *view) compact(revision int64) *Decision {
	d := v.membership(v.projection(0, 0), cluster.Op{Kind: cluster.OpCompact, Revision: revision}, 0, fmt.Sprintf("etcdctl compact %d", revision),
		fmt.Sprintf("etcd refuses writes (NOSPACE): have it forget its past up to revision %d of %d", revision, v.revision()))
	d.Again = soon
	return d
}

// makeRoom has one of the members defragmented that are beyond their limit, raft's
// leader last. While another voter is not up that would take the quorum away, and
// whatever brings the voters back comes first.
func (v *view) makeRoom(over []cluster.Seat) *Decision {
	slices.SortStableFunc(over, func(a, b cluster.Seat) int { return leadsLast(a) - leadsLast(b) })
	s := over[0]
	reason := fmt.Sprintf("etcd refuses writes (NOSPACE): the database of %s has %s of its %s free", seatName(s), bytesWords(s.Host.Status.DBSize-s.Host.Status.DBInUse), bytesWords(s.Host.Status.DBSize))
	switch h := v.mayNotDefragment(s); {
	case h == nil:
	case h.settle:
		return &Decision{Reason: reason + "; " + h.why, Again: h.again}
	default:
		held, remove := v.heldByDead()
		v.aside("no-space", remove, "%s; it is defragmented later: %s%s", reason, h.why, held)
		return nil
	}
	return v.defragmentSeat(s, reason)
}

func leadsLast(s cluster.Seat) int {
	if s.RaftLeader {
		return 1
	}
	return 0
}
