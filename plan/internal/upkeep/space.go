package upkeep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/members"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
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

// Space cures NOSPACE: the past is compacted, the members that are beyond their
// limit are defragmented one at a time, and the alarm is taken back once all of
// them are below it. What cannot be cured so is said, and left to the other rules:
// more space needs a higher quota, and only a person raises that.
func Space(v *step.View) *decision.Decision { return v.Unasked(cure(v)) }

func cure(v *step.View) *decision.Decision {
	alarms := v.Roster.Alarms(cluster.AlarmNoSpace)
	if len(alarms) == 0 {
		return nil
	}
	over := overLimit(v)
	if len(over) == 0 {
		a := alarms[0]
		op := cluster.Op{Kind: cluster.OpDisarm, Alarm: a.Kind, Member: a.Member}
		return step.Membership(v, v.Projection(0, 0), op, 0, "etcdadm alarm disarm", words.F("every voter's database is below its quota again: disarm the NOSPACE alarm of member {member}", a.Member))
	}
	if d := notYetAgain(v); d != nil {
		return d
	}
	if d, goOn := compactFirst(v, over); !goOn {
		return d
	}
	return makeRoom(v, over)
}

// overLimit are the voters in sight whose database is so large that the alarm
// would be back at once.
func overLimit(v *step.View) (over []cluster.Seat) {
	for _, s := range v.Roster.Voters() {
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
func notYetAgain(v *step.View) *decision.Decision {
	m := v.Obs.Memory.Upkeep
	if m.FullTimes < 2 {
		return nil
	}
	advice := "something writes faster than etcd's past is compacted"
	if !CompactsItself(v) {
		advice += ", and auto-compaction is off"
	}
	sentence := fmt.Sprintf("NOSPACE has come %d times in an hour: %s", m.FullTimes, advice)
	v.Notice("no-space-again", "etcdadm config set auto-compaction-retention=5m", "{sentence}", sentence)
	if m.FullTimes <= fullFree {
		return nil
	}
	pause := min(fullFirst<<min(m.FullTimes-fullFree-1, 10), fullMost)
	if waited := v.Obs.At.Sub(m.FullSince); waited < pause {
		return &decision.Decision{Reason: words.F("{sentence}; it is cured again in {pause}", sentence, (pause - waited).Round(time.Second)), Again: min(pause-waited, decision.Later)}
	}
	return nil
}

// CompactsItself reports whether every voter in sight was started with auto-compaction.
func CompactsItself(v *step.View) bool {
	for _, s := range v.Roster.Voters() {
		if s.Host == nil {
			continue
		}
		if r, set := OptionOf(s.Host.Local.Options, "auto-compaction-retention"); !set || r == "0" || r == "0s" {
			return false
		}
	}
	return true
}

// compactFirst has the past compacted as far as that is needed, where more than half
// of the limit is in use: at first what is older than kube-apiserver keeps, and all
// of it when that is not enough, since what is written next would be refused else.
// goOn: there is nothing to compact, or no need to.
func compactFirst(v *step.View, over []cluster.Seat) (d *decision.Decision, goOn bool) {
	done, ago := compacted(v)
	past, top := v.Obs.Memory.Upkeep.Past(v.Obs.At), v.Revision()
	if v.Obs.Memory.Upkeep.FullTimes > 1 {
		past = top
	}
	beyond := func(part int64) []cluster.Seat {
		return slices.DeleteFunc(slices.Clone(over), func(s cluster.Seat) bool { return s.Host.Status.DBInUse <= s.Host.Status.Limit()/part })
	}
	full, crowded := beyond(1), beyond(2)
	switch {
	case v.Obs.Upkeep.KeepHistory && len(full) > 0:
		fullOf(v, full[0], "its past is not compacted, because --auto-compact-on-nospace is off", "etcdctl compact REVISION")
		return nil, false
	case v.Obs.Upkeep.KeepHistory, len(crowded) == 0:
		return nil, true
	case done < past && past > 1: // nothing is before the first
		return compact(v, past), false
	}
	if takes := compactsFor + time.Duration(crowded[0].Host.Status.DBSize/compactsForBytes)*time.Second; ago < takes {
		return &decision.Decision{Reason: words.F("etcd refuses writes (NOSPACE): members are compacting; {member} has {dBInUse} in use", words.SeatName(crowded[0]), words.BytesWords(crowded[0].Host.Status.DBInUse)), Again: decision.Later}, false
	}
	if len(full) == 0 {
		return nil, true
	}
	if done < top {
		return compact(v, top), false
	}
	fullOfKeys(v, full[0])
	return nil, false
}

// fullOfKeys says that a person has to raise the quota, or, where one has, what the
// members wait for: they are restarted with it while all the others are up.
func fullOfKeys(v *step.View, s cluster.Seat) {
	held, remove := members.HeldByDead(v)
	if asked := askedQuota(s.Host); asked > s.Host.Status.Capacity() && s.Host.Status.DBInUse <= asked/10*9 {
		fullOf(v, s, fmt.Sprintf("a quota of %s is asked for, with which members are restarted one at a time, each while all the others are up%s", words.BytesWords(asked), held), remove)
		return
	}
	if held != "" {
		held += fmt.Sprintf(" (%s)", remove)
	}
	fullOf(v, s, "compaction would free nothing; raise the quota or delete keys"+held, quotaCommand(v, s))
}

// askedQuota is the quota that the host's member would be started with now; zero:
// etcd's own, or one that cannot be read.
func askedQuota(h *cluster.HostReport) int64 {
	value, _ := OptionOf(h.Options, "quota-backend-bytes")
	n, _ := strconv.ParseInt(value, 10, 64)
	return n
}

// OptionOf finds an option in arguments such as --name=value.
func OptionOf(args []string, name string) (value string, set bool) {
	for _, a := range args {
		if n, val, _ := strings.Cut(strings.TrimLeft(a, "-"), "="); n == name {
			value, set = val, true
		}
	}
	return value, set
}

func fullOf(v *step.View, s cluster.Seat, why, command string) {
	st := s.Host.Status
	v.Notice("no-space", command, "etcd refuses writes (NOSPACE): the database of {member} holds {dBInUse} of a quota of {room}; {why}", words.SeatName(s), words.BytesWords(st.DBInUse), words.BytesWords(st.Capacity()), why)
}

// quotaCommand asks for twice of what is in use. Source: etcd's guide advises no
// more than 8 GiB.
func quotaCommand(v *step.View, s cluster.Seat) string {
	quota := s.Host.Status.Capacity()
	want := max(quota, s.Host.Status.DBInUse) * 2
	if want > 8<<30 && quota < 8<<30 {
		want = 8 << 30
	}
	return fmt.Sprintf("etcdadm config set quota-backend-bytes=%d", want)
}

// compacted is up to where the members' past was compacted through a host in
// sight, and how long ago; what the daemons have forgotten is done again, without harm.
func compacted(v *step.View) (revision int64, ago time.Duration) {
	ago = sight.LongAgo
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if w := h.Database; w != nil && w.Compacted > revision {
			revision, ago = w.Compacted, v.Ago(h, w.CompactedAt)
		}
	}
	return revision, ago
}

func compact(v *step.View, revision int64) *decision.Decision {
	d := step.Membership(v, v.Projection(0, 0), cluster.Op{Kind: cluster.OpCompact, Revision: revision}, 0, fmt.Sprintf("etcdctl compact %d", revision),
		words.F("etcd refuses writes (NOSPACE): compact to revision {revision} of {revision2}", revision, v.Revision()))
	d.Again = decision.Soon
	return d
}

// makeRoom has one of the members defragmented that are beyond their limit, raft's
// leader last. While another voter is not up that would take the quorum away, and
// whatever brings the voters back comes first.
func makeRoom(v *step.View, over []cluster.Seat) *decision.Decision {
	slices.SortStableFunc(over, func(a, b cluster.Seat) int { return sight.LeadsLast(a) - sight.LeadsLast(b) })
	s := over[0]
	reason := words.F("etcd refuses writes (NOSPACE): the database of {member} has {free} of its {size} free", words.SeatName(s), words.BytesWords(s.Host.Status.DBSize-s.Host.Status.DBInUse), words.BytesWords(s.Host.Status.DBSize))
	switch h := mayNotDefragment(v, s); {
	case h == nil:
	case h.Settle:
		return &decision.Decision{Reason: words.F("{what}; {why}", reason, h.Why), Again: h.Again}
	default:
		held, remove := members.HeldByDead(v)
		v.Notice("no-space", remove, "{reason}; it is defragmented later: {why}{held}", reason, h.Why, held)
		return nil
	}
	return defragmentSeat(v, s, reason)
}
