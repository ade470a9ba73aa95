package plan

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// The observations below are drawn without regard for sense: hosts that claim
// each other's members, lists of clusters that nobody knows, intents of any
// generation. Few values are drawn from, so that they meet often.

var (
	anyHost    = rapid.SampledFrom([]cluster.HostID{"a", "b", "c", "d", "e"})
	anyDisk    = rapid.SampledFrom([]cluster.DiskID{"da", "db", "dc"})
	anyMember  = rapid.SampledFrom([]cluster.MemberID{0, 1, 2, 3, 4, 5, 6})
	anyCluster = rapid.SampledFrom([]cluster.ClusterID{0, 7, 7, 7, 8})
	anyNonce   = rapid.SampledFrom([]string{"n", "n", "n", "m", ""})
	anyVersion = rapid.SampledFrom([]cluster.Version{{}, {Major: 3, Minor: 3, Patch: 27}, {Major: 3, Minor: 5, Patch: 35}, {Major: 3, Minor: 6, Patch: 16}, {Major: 3, Minor: 6, Patch: 16}})
	anyIndex   = rapid.OneOf(rapid.Uint64Range(0, 20), rapid.Uint64())
	often      = rapid.SampledFrom([]bool{true, true, true, true, true, false})
	seldom     = rapid.SampledFrom([]bool{false, false, false, false, false, true})
	anyFence   = rapid.SampledFrom([]cluster.Fence{{}, {Number: 3, Host: "a"}, {Number: 3, Host: "a"}, {Number: 4, Host: "b"}})
	anyGen     = rapid.SampledFrom([]uint64{0, 1, 1, 1, 1, 2})
)

func anyTime(t *rapid.T, label string) time.Time {
	if seldom.Draw(t, label+" none") {
		return time.Time{}
	}
	return worldEpoch.Add(-time.Duration(rapid.IntRange(-5, 600).Draw(t, label)) * time.Second)
}

func anyURLs(t *rapid.T, own cluster.HostID) []string {
	if seldom.Draw(t, "foreign url") {
		own = anyHost.Draw(t, "url of")
	}
	if seldom.Draw(t, "no url") {
		return nil
	}
	return []string{"https://" + string(own) + ":2380"}
}

func anySpec(t *rapid.T) *cluster.Spec {
	if seldom.Draw(t, "no spec") {
		return nil
	}
	s := &cluster.Spec{
		MemberCount: rapid.SampledFrom([]int{-1, 0, 1, 3, 3, 3, 5, 4}).Draw(t, "count"),
		EtcdVersion: rapid.SampledFrom([]cluster.Version{{Major: 3, Minor: 6, Patch: 16}, {Major: 3, Minor: 5, Patch: 35}, {}}).Draw(t, "version"),
		Hold:        seldom.Draw(t, "hold"),
	}
	if seldom.Draw(t, "named") {
		s.Hosts = rapid.SliceOfDistinct(anyHost, rapid.ID).Draw(t, "hosts")
	}
	if seldom.Draw(t, "patience") {
		s.DeadAfter = 10 * time.Second
	}
	return s
}

func anyVoters(t *rapid.T, label string) []cluster.Voter {
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]cluster.MemberID{1, 2, 3, 4, 5}), 0, 5, rapid.ID).Draw(t, label)
	var out []cluster.Voter
	for _, id := range ids {
		h := hostOf(id)
		out = append(out, cluster.Voter{Host: h, Disk: diskOf(h), Member: id, PeerURLs: []string{"https://" + string(h) + ":2380"}})
	}
	return out
}

// hostOf and diskOf say who would carry what in a world with some sense.
func hostOf(id cluster.MemberID) cluster.HostID {
	return []cluster.HostID{"a", "b", "c", "d", "e"}[(uint64(id)+4)%5]
}
func diskOf(h cluster.HostID) cluster.DiskID { return cluster.DiskID("d" + string(h)) }

func anyIntent(t *rapid.T) *cluster.Intent {
	if seldom.Draw(t, "no intent") {
		return nil
	}
	in := &cluster.Intent{
		Timestamp: anyTime(t, "timestamp").UnixNano(), Name: "test", Generation: anyGen.Draw(t, "generation"), Nonce: anyNonce.Draw(t, "nonce"),
		Token: "t", Version: anyVersion.Draw(t, "version"), Write: rapid.Uint64Range(0, 2).Draw(t, "write"),
		State: rapid.SampledFrom([]cluster.IntentState{cluster.IntentFounded, cluster.IntentFounded, cluster.IntentFounding}).Draw(t, "state"),
	}
	if seldom.Draw(t, "other name") {
		in.Name = "other"
	}
	if in.State == cluster.IntentFounded {
		in.Cluster = anyCluster.Draw(t, "cluster")
	}
	for _, v := range anyVoters(t, "founders") {
		in.Founders = append(in.Founders, cluster.Founder{Host: v.Host, Disk: v.Disk, Member: v.Member, URLs: cluster.URLs{Peer: v.PeerURLs}})
	}
	in.Voters, in.Next = anyVoters(t, "voters"), anyVoters(t, "next")
	if seldom.Draw(t, "history") {
		in.History = []cluster.PastGeneration{{Generation: in.Generation - 1, Cluster: 8, Closed: rapid.Bool().Draw(t, "closed")}}
	}
	return in
}

func anyView(t *rapid.T) *cluster.MemberView {
	v := &cluster.MemberView{Cluster: anyCluster.Draw(t, "view of"), Linearizable: often.Draw(t, "linearizable")}
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]cluster.MemberID{1, 2, 3, 4, 5}), 0, 5, rapid.ID).Draw(t, "members") {
		m := cluster.Member{ID: id, PeerURLs: anyURLs(t, hostOf(id)), Learner: seldom.Draw(t, "learner")}
		if often.Draw(t, "started") {
			m.Name = string(hostOf(id))
		}
		v.Members = append(v.Members, m)
	}
	return v
}

func anyReport(t *rapid.T, id cluster.HostID, shared *cluster.MemberView, kept *cluster.Intent) cluster.HostReport {
	h := cluster.HostReport{UnderFence: often.Draw(t, "under fence"), Stamp: "s" + string(id)}
	h.Host, h.Disk, h.Cluster = id, diskOf(id), "test"
	if seldom.Draw(t, "another disk") {
		h.Disk = anyDisk.Draw(t, "disk")
	}
	h.URLs.Peer = anyURLs(t, id)
	h.LowestGeneration = rapid.SampledFrom([]uint64{0, 0, 0, 2}).Draw(t, "lowest")
	h.Releases = rapid.SliceOfDistinct(anyVersion, rapid.ID).Draw(t, "releases")
	h.Options = rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y"}), 0, 1).Draw(t, "options")
	switch rapid.IntRange(0, 4).Draw(t, "keeps") {
	case 0:
		h.Intent = anyIntent(t)
	case 1, 2:
		h.Intent = kept.Clone()
	}
	own := cluster.MemberID(slices.Index([]cluster.HostID{"a", "b", "c", "d", "e"}, id) + 1)
	anyLocal(t, &h, own)
	h.TakesPauses = often.Draw(t, "takes pauses")
	h.KeepsBackups = often.Draw(t, "keeps backups")
	if seldom.Draw(t, "may go") {
		h.Paused = []cluster.Pause{{ID: "p-" + string(id), Host: id, For: time.Minute, Reason: "r"}}
	}
	if seldom.Draw(t, "could not be paused") {
		h.PauseRefused = &cluster.PauseRefused{ID: "p-" + string(id), Why: "no space"}
	}
	if seldom.Draw(t, "foreign data") {
		h.Foreign = []cluster.SetAside{{Dir: "/x", Reason: "?"}}
	}
	if seldom.Draw(t, "problem") {
		h.Problems = []cluster.Problem{{Code: "p", Sentence: "something is wrong", Unfit: rapid.Bool().Draw(t, "unfit")}}
	}
	if often.Draw(t, "sees") {
		if h.View = shared; seldom.Draw(t, "own view") {
			h.View = anyView(t)
		}
	}
	for _, m := range rapid.SliceOfDistinct(anyMember, rapid.ID).Draw(t, "reaches") {
		h.Reaches = append(h.Reaches, cluster.Reach{Member: m, Answers: seldom.Draw(t, "answers")})
	}
	return h
}

func anyLocal(t *rapid.T, h *cluster.HostReport, own cluster.MemberID) {
	if often.Draw(t, "plain member") {
		h.Local = cluster.LocalMember{State: cluster.MemberStarted, Generation: 1, Nonce: "n", Token: "t", Cluster: 7, Member: own, Run: true, Version: cluster.MustVersion("3.6.16"), HasData: true}
		h.Process = cluster.Process{State: cluster.ProcessRunning, PID: 5}
		h.Status = &cluster.MemberStatus{Member: own, Cluster: 7, Leader: 1, Term: 2, Index: 20, Applied: anyIndex.Draw(t, "applied"), Healthy: often.Draw(t, "healthy"), Learner: seldom.Draw(t, "is learner")}
		if seldom.Draw(t, "auth") {
			h.Status.Auth = seldom.Draw(t, "really")
		}
		return
	}
	h.Local = cluster.LocalMember{
		State:      rapid.SampledFrom([]cluster.MemberState{"", "", cluster.MemberPrepared, cluster.MemberPrepared, cluster.MemberStarting, cluster.MemberStarted, cluster.MemberRemoved}).Draw(t, "state"),
		Generation: anyGen.Draw(t, "generation"), Nonce: anyNonce.Draw(t, "nonce"), Cluster: anyCluster.Draw(t, "cluster"), Version: anyVersion.Draw(t, "version"),
	}
	if h.Local.State == cluster.MemberPrepared {
		h.Local.Known = rapid.SliceOfDistinct(anyMember, rapid.ID).Draw(t, "known")
		slices.Sort(h.Local.Known)
	} else if h.Local.State != "" {
		h.Local.Member = anyMember.Draw(t, "member")
		h.Local.HasData = often.Draw(t, "has data")
	}
	h.Process.State = rapid.SampledFrom([]cluster.ProcessState{"", "", "", cluster.ProcessRunning, cluster.ProcessBackoff, cluster.ProcessSilent, cluster.ProcessForeign}).Draw(t, "process")
	if seldom.Draw(t, "answers") {
		h.Status = &cluster.MemberStatus{
			Member: anyMember.Draw(t, "as"), Cluster: anyCluster.Draw(t, "of"), Leader: anyMember.Draw(t, "leader"), Term: anyIndex.Draw(t, "term"),
			Index: anyIndex.Draw(t, "index"), Applied: anyIndex.Draw(t, "applied"), Learner: rapid.Bool().Draw(t, "is learner"), Healthy: rapid.Bool().Draw(t, "healthy"),
		}
	}
}

var anyObservation = rapid.Custom(func(t *rapid.T) *cluster.Observation {
	o := &cluster.Observation{At: worldEpoch, Cluster: "test", Leader: "a", Fence: cluster.Fence{Number: 3, Host: "a"}, Spec: anySpec(t)}
	o.Store = cluster.StoreView{Read: often.Draw(t, "read"), Marker: often.Draw(t, "marker"), Conditional: often.Draw(t, "conditional")}
	in := anyIntent(t)
	if o.Store.Marker {
		o.Store.Intent = in
		o.Store.Joining = in.Adopted() && rapid.Bool().Draw(t, "hosts join it")
	}
	shared := anyView(t)
	for _, id := range rapid.SliceOfDistinct(anyHost, rapid.ID).Draw(t, "hosts in sight") {
		o.Hosts = append(o.Hosts, anyReport(t, id, shared, in))
	}
	for _, id := range rapid.SliceOfDistinct(anyHost, rapid.ID).Draw(t, "gaps") {
		o.Gaps = append(o.Gaps, cluster.Gap{Kind: rapid.SampledFrom([]cluster.GapKind{cluster.GapUnreachable, cluster.GapBusy, cluster.GapRefused}).Draw(t, "gap"), Host: id, Detail: "d",
			Op: rapid.SampledFrom([]cluster.OpKind{"", cluster.OpPromise, cluster.OpRestart, cluster.OpDefragment}).Draw(t, "op"), Late: rapid.Bool().Draw(t, "late")})
		o.Memory.Hosts = append(o.Memory.Hosts, cluster.HostMemory{Host: id, Disk: diskOf(id), Fence: anyFence.Draw(t, "fence"), FenceSince: anyTime(t, "fence since")})
	}
	for _, id := range rapid.SliceOfDistinct(anyMember, rapid.ID).Draw(t, "remembered") {
		o.Memory.Members = append(o.Memory.Members, cluster.MemberMemory{
			Member: id, SilentSince: anyTime(t, "silent"), HealthySince: anyTime(t, "healthy"), LeaderlessSince: anyTime(t, "leaderless"),
			JoiningSince: anyTime(t, "joining"), HostlessSince: anyTime(t, "hostless"), Revived: rapid.IntRange(0, 70).Draw(t, "revived"),
		})
	}
	if seldom.Draw(t, "pauses unread") {
		o.PausesUnread = "no answer"
	}
	drawManual(t, o)
	for _, id := range rapid.SliceOfDistinct(anyHost, rapid.ID).Draw(t, "paused") {
		p := cluster.Pause{Host: id, From: anyTime(t, "paused from"), Until: anyTime(t, "paused until"), Reason: "r"}
		if rapid.Bool().Draw(t, "asked") {
			p.ID, p.For, p.Ended, p.Outage = "p-"+string(id), time.Minute, seldom.Draw(t, "ended"), seldom.Draw(t, "outage")
		}
		o.Paused = append(o.Paused, p)
	}
	if rapid.Bool().Draw(t, "fold") {
		o.Memory = cluster.Fold(o.Memory, o)
	}
	o.Sort()
	return o
})

var anyGoal = rapid.Custom(func(t *rapid.T) decision.Goal {
	g := decision.Goal{Kind: rapid.SampledFrom([]decision.GoalKind{decision.Converge, decision.Converge, decision.Converge, decision.Join, decision.Leave, decision.Replace, decision.Promote, decision.MoveLeader, decision.Defragment, decision.Disarm, decision.Restart, decision.RestartAnyway, decision.Pause, decision.Resume, decision.AutoManage, decision.Apply, "absurd"}).Draw(t, "goal")}
	if g.Kind == decision.Converge {
		return g
	}
	if rapid.Bool().Draw(t, "by member") {
		g.Member = anyMember.Draw(t, "goal member")
	} else {
		g.Host = anyHost.Draw(t, "goal host")
	}
	if g.Kind == decision.Defragment && seldom.Draw(t, "all voters") {
		g.Member, g.Host = 0, ""
	}
	if g.Kind == decision.Disarm {
		g.Alarm = rapid.SampledFrom([]string{"", cluster.AlarmNoSpace, cluster.AlarmCorrupt}).Draw(t, "alarm")
		g.AcceptDifference = seldom.Draw(t, "accept difference")
	}
	if g.Kind == decision.AutoManage {
		g.Manage = &decision.ManageAsked{On: rapid.Bool().Draw(t, "on")}
	}
	if g.Kind == decision.Apply {
		g.Rule = rapid.SampledFrom([]string{"backup", "quorum", "replace-dead", "revive", "space", "fragmentation", "generation", "prune", "downgrading", "absurd"}).Draw(t, "rule")
	}
	if g.Kind == decision.Pause && often.Draw(t, "pause") {
		g.Pause = &decision.PauseAsked{For: time.Duration(rapid.IntRange(-1, 30).Draw(t, "hours")) * time.Hour, Reason: rapid.SampledFrom([]string{"", "r"}).Draw(t, "reason"), Force: seldom.Draw(t, "force")}
	}
	if g.Kind == decision.Replace && seldom.Draw(t, "by") {
		g.By = anyHost.Draw(t, "successor")
	}
	g.Hold, g.NoStore, g.Acted = seldom.Draw(t, "goal hold"), rapid.Bool().Draw(t, "goal no store"), seldom.Draw(t, "acted")
	return g
})

func copyOf(t *rapid.T, o *cluster.Observation) *cluster.Observation {
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	c := new(cluster.Observation)
	if err := json.Unmarshal(b, c); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	return c
}

func TestLawsHoldForAbsurdObservations(t *testing.T) {
	rules := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		o, g := anyObservation.Draw(t, "observation"), anyGoal.Draw(t, "goal")
		before := copyOf(t, o)
		d := Next(g, o)
		for _, broken := range brokenLaws(g, o, d) {
			t.Errorf("%s", broken)
		}
		if diff := cmp.Diff(before, copyOf(t, o)); diff != "" {
			t.Errorf("the decision changed its observation: %s", diff)
		}
		mustDecideThe(t, "same", d, Next(g, o))
		mustDecideThe(t, "same after a JSON round trip", d, Next(g, before))
		mustDecideThe(t, "same of a permutation", d, Next(g, permuted(t, before)))
		key := d.Rule
		if d.Action != nil {
			key += " acts"
		}
		rules[key]++
	})
	t.Logf("decided by: %v", rules)
}

// mustDecideThe compares what decisions say: an empty list is an absent one.
func mustDecideThe(t *rapid.T, what string, a, b decision.Decision) {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	if !reflect.DeepEqual(x, y) {
		t.Errorf("not the %s decision:\n%s\n%s", what, x, y)
	}
}

// permuted shuffles every list whose order means nothing, and sorts again.
func permuted(t *rapid.T, o *cluster.Observation) *cluster.Observation {
	n := 0
	order := func(length int) []int {
		n++
		idx := make([]int, length)
		for i := range idx {
			idx[i] = i
		}
		return rapid.Permutation(idx).Draw(t, fmt.Sprintf("order %d", n))
	}
	o.Hosts = shuffled(o.Hosts, order)
	o.Gaps = shuffled(o.Gaps, order)
	o.Memory.Hosts = shuffled(o.Memory.Hosts, order)
	o.Memory.Members = shuffled(o.Memory.Members, order)
	for i := range o.Hosts {
		h := &o.Hosts[i]
		h.Releases, h.Reaches, h.Problems, h.Local.Known = shuffled(h.Releases, order), shuffled(h.Reaches, order), shuffled(h.Problems, order), shuffled(h.Local.Known, order)
		if h.View != nil {
			h.View.Members = shuffled(h.View.Members, order)
		}
	}
	o.Sort()
	return o
}

func shuffled[T any](s []T, order func(int) []int) []T {
	var out []T
	for _, i := range order(len(s)) {
		out = append(out, s[i])
	}
	return out
}
