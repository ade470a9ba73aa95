package plan

import (
	"slices"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/members"
	"etcdadm.io/plan/internal/record"
	"etcdadm.io/plan/internal/roll"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// TestConditionsOfTakingOut: what has to be so before a voter is removed, and before one
// is added.
func TestConditionsOfTakingOut(t *testing.T) {
	many := then(formedSight, ledBy("a"), func(o *cluster.Observation) { s := *o.Spec; s.MemberCount = 1; o.Spec = &s })
	goes := func(v *step.View) bool { d := members.Shrink(v); return d != nil && d.Action != nil }
	whoGoes := func(id cluster.HostID) func(v *step.View) bool {
		return func(v *step.View) bool { return members.LeastWanted(*v.Spec, v.Roster.Voters()).HostID == id }
	}
	naming := func(hosts ...cluster.HostID) func(o *cluster.Observation) {
		return func(o *cluster.Observation) { s := *o.Spec; s.Hosts = hosts; o.Spec = &s }
	}
	leadsFromMemory := then(formedSight, ledBy("c"), of("c", func(h *cluster.HostReport) { h.Local.HasData = false }))
	handsOverFirst := func(v *step.View) bool {
		d := step.RemoveDead(v, seatOf(v, "c"), words.F("x"))
		return d.Action != nil && d.Action.Kind == decision.ActHosts && d.Action.Ops[0].Op.Kind == cluster.OpMoveLeader
	}
	free := func(v *step.View) bool { c, _ := v.Candidates(); return len(c) == 1 && c[0].Host == "d" }
	checkConditions(t, []condition{
		{"one too many", many, goes, []otherwise{
			{"as many are wanted", func(o *cluster.Observation) { s := *o.Spec; s.MemberCount = 3; o.Spec = &s }},
			{"there is no spec", noSpec},
		}, nil},
		{"one of many", many, func(v *step.View) bool {
			d := step.TakeOut(v, seatOf(v, "c"), words.F("x"))
			return d != nil && d.Action != nil
		}, []otherwise{
			{"another voter is down", of("b", unhealthy)},
			{"it leads raft, and is not up", func(o *cluster.Observation) { ledBy("c")(o); of("c", unhealthy)(o) }},
		}, []otherwise{
			{"it is not up", of("c", unhealthy)},
			{"it leads raft", ledBy("c")}, // and hands over first
		}},
		{"the last by name", many, whoGoes("c"), []otherwise{
			{"it leads raft", ledBy("c")},
			{"the spec does not name another", naming("a", "c")},
			{"another one is down", of("b", unhealthy)},
		}, nil},
		{"one that the spec does not name, and not raft's leader", then(many, naming("c")), whoGoes("b"), nil, nil},
		{"one that the spec does not name, though it leads raft", then(many, naming("b", "c")), whoGoes("a"), nil, nil},
		{"a dead one that leads raft hands over first", leadsFromMemory, handsOverFirst, []otherwise{
			{"it does not lead raft", ledBy("b")},
			{"its host has not promised", of("c", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"it does not answer", of("c", func(h *cluster.HostReport) { h.Status, h.View = nil, nil })},
			{"its data is there", of("c", func(h *cluster.HostReport) { h.Local.HasData = true })},
			{"its release does not know how", of("c", func(h *cluster.HostReport) { h.Local.Version, h.Status.Version = version("3.2.24"), version("3.2.24") })},
		}, nil},
		{"one with other keys that leads raft hands over first", then(leadsFromMemory, of("c", func(h *cluster.HostReport) { h.Local.HasData = true }), ofMember("c", func(m *cluster.MemberMemory) {
			m.CorruptSince = worldEpoch
		})), handsOverFirst, []otherwise{{"it is not healthy", of("c", unhealthy)}}, nil},
		{"a host is free", formedSight, free, []otherwise{
			{"it has not promised", of("d", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"the spec does not name it", naming("a", "b", "c")},
			{"it holds what nothing accounts for", of("d", func(h *cluster.HostReport) { h.Foreign = []cluster.SetAside{{Dir: "x"}} })},
			{"it holds another program's member", of("d", func(h *cluster.HostReport) { h.Predecessor = &cluster.Predecessor{Waits: "x"} })},
			{"it holds data", of("d", func(h *cluster.HostReport) { h.Local.HasData = true })},
			{"it is starting a member", of("d", func(h *cluster.HostReport) { h.Local.State = cluster.MemberStarting })},
			{"nobody knows where it is", of("d", func(h *cluster.HostReport) { h.URLs.Peer = nil })},
			{"it refuses this generation", of("d", func(h *cluster.HostReport) { h.LowestGeneration = 2 })},
			{"it says that it cannot", of("d", func(h *cluster.HostReport) { h.Problems = []cluster.Problem{{Code: "x", Sentence: "x", Unfit: true}} })},
			{"something runs there", of("d", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessForeign })},
			{"it lacks the release", of("d", func(h *cluster.HostReport) { h.Releases = []cluster.Version{version("3.5.35")} })},
			{"it has no certificates", of("d", func(h *cluster.HostReport) { h.URLs.Peer = []string{"http://d:2380"} })},
		}, []otherwise{
			{"the spec names it", naming("a", "b", "c", "d")},
			{"it has another patch, which is wanted", func(o *cluster.Observation) {
				s := *o.Spec
				s.EtcdVersion = version("3.6.15")
				o.Spec = &s
				of("d", func(h *cluster.HostReport) { h.Releases = []cluster.Version{version("3.6.15")} })(o)
			}},
		}},
		{"two learners at a time", formedSight, func(v *step.View) bool { return v.MostLearners() == 2 }, []otherwise{
			{"a voter runs an older line", of("b", func(h *cluster.HostReport) { h.Local.Version, h.Status.Version = version("3.5.35"), version("3.5.35") })},
			{"a voter runs as another program set it up", of("b", func(h *cluster.HostReport) { h.Local.Adopted = true })},
			{"nobody knows what a voter runs", away("b", cluster.GapUnreachable)},
		}, nil},
		{"raft's leader is asked for a change", then(formedSight, ledBy("b")), asksFirst("b"), []otherwise{
			{"its member refused one", of("b", refused(time.Minute, 0))},
			{"it is not up", of("b", unhealthy)},
		}, []otherwise{
			{"another one refused", of("a", refused(time.Second, 0))},
			{"it refused one a while ago", of("b", refused(time.Minute+time.Second, 0))},
			{"all refused, and it did so first", func(o *cluster.Observation) {
				of("a", refused(time.Second, 0))(o)
				of("b", refused(time.Minute, time.Hour))(o)
				of("c", refused(time.Second, 0))(o)
			}},
		}},
		{"etcd accepts an add", formedSight, func(v *step.View) bool { return v.AcceptsAdd() }, []otherwise{
			{"it would be no quorum of one more", of("b", unhealthy)},
		}, nil},
	})
}

// asksFirst: membership calls are made through the member of that host.
func asksFirst(id cluster.HostID) func(v *step.View) bool {
	return func(v *step.View) bool {
		s, ok := v.Speaker(0)
		return ok && s.Host.Host == id
	}
}

// refused is a host whose member refused a change so long ago, and whose clock is ahead.
func refused(ago, ahead time.Duration) func(h *cluster.HostReport) {
	return func(h *cluster.HostReport) {
		h.Clock = worldEpoch.Add(ahead)
		h.Refused = h.Clock.Add(-ago)
	}
}

// TestConditionsOfSeconds: the voter that was added to a single one is started without
// a quorum, on the disk that was prepared for it and no other.
func TestConditionsOfSeconds(t *testing.T) {
	added := func(t *testing.T) *cluster.Observation {
		w := newWorld()
		w.spec = &cluster.Spec{MemberCount: 1, EtcdVersion: version("3.2.24")}
		w.addHost("a", version("3.2.24"))
		w.addHost("b", version("3.2.24"))
		w.steps(t, mostActions)
		w.spec.MemberCount = 3
		return ripe(t, w, asked(cluster.OpStart))
	}
	// It was started, and has not served yet.
	started := then(added, func(o *cluster.Observation) {
		first, _ := o.Host("a")
		unnamed := slices.IndexFunc(first.View.Members, func(m cluster.Member) bool { return m.Name == "" })
		of("b", func(h *cluster.HostReport) {
			h.Local.State, h.Local.Member = cluster.MemberStarted, first.View.Members[unnamed].ID
			h.Process = cluster.Process{State: cluster.ProcessRunning, Uptime: time.Second}
		})(o)
	})
	starts := func(v *step.View) bool { d := members.StartSecond(v); return d != nil && d.Action != nil }
	checkConditions(t, []condition{
		{"the second voter", added, starts, []otherwise{
			{"the record names another disk", inIntent(func(in *cluster.Intent) {
				for i := range in.Next {
					in.Next[i].Disk = "x"
				}
			})},
			{"the record names another host", inIntent(func(in *cluster.Intent) {
				for i := range in.Next {
					in.Next[i].Host = "x"
				}
			})},
			{"the record names nobody", inIntent(func(in *cluster.Intent) { in.Next = nil })},
			{"it has not promised", of("b", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"the first has not promised", of("a", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"the first does not answer", of("a", func(h *cluster.HostReport) { h.Status = nil })},
			{"the first does not list it", of("a", func(h *cluster.HostReport) {
				h.View.Members = slices.DeleteFunc(h.View.Members, func(m cluster.Member) bool { return m.ID != h.Local.Member })
			})},
			{"it was prepared for others", of("b", func(h *cluster.HostReport) { h.Local.Known = append([]cluster.MemberID{1}, h.Local.Known...) })},
			{"it was prepared for nobody", of("b", func(h *cluster.HostReport) { h.Local.Known = nil })},
			{"it is another cluster", inIntent(func(in *cluster.Intent) { in.Cluster = 9 })},
			{"it holds data", of("b", func(h *cluster.HostReport) { h.Local.HasData = true })},
		}, nil},
		{"the second voter comes", started, func(v *step.View) bool { return members.SecondComes(v) != nil }, []otherwise{
			{"it has had its time", of("b", func(h *cluster.HostReport) { h.Process.Uptime = members.SecondPatience })},
			{"its process does not run", of("b", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessStopped })},
			{"its process is silent", of("b", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessSilent })},
			{"it has not promised", of("b", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"its host is not in sight", away("b", cluster.GapUnreachable)},
			{"it has served, and has a name", of("a", func(h *cluster.HostReport) {
				for i := range h.View.Members {
					h.View.Members[i].Name = "x"
				}
			})},
		}, []otherwise{
			{"it has nearly had its time", of("b", func(h *cluster.HostReport) { h.Process.Uptime = members.SecondPatience - time.Second })},
		}},
	})
}

// TestConditionsOfTLS: TLS between the members is turned on by all together.
func TestConditionsOfTLS(t *testing.T) {
	turning := func(t *testing.T) *cluster.Observation {
		w := small("tls")(t)
		w.advance(10 * time.Minute)
		w.observe()
		w.advance(10 * time.Second)
		return w.observe()
	}
	checkConditions(t, []condition{
		{"certificates", turning, func(v *step.View) bool { d := roll.TLS(v); return d != nil && d.Action != nil }, []otherwise{
			{"one is a learner", func(o *cluster.Observation) {
				for i := range o.Hosts {
					o.Hosts[i].View.Members[2].Learner = true
				}
			}},
			{"a voter is down", of("b", unhealthy)},
			{"a host has not promised", of("b", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"a host is out of sight", away("b", cluster.GapUnreachable)},
			{"one wants none", of("b", func(h *cluster.HostReport) { h.URLs.Peer = []string{"http://b:2380"} })},
			{"one is at another address", of("b", func(h *cluster.HostReport) { h.URLs.Peer = []string{"https://elsewhere:2380"} })},
			{"nobody knows where one is", of("b", func(h *cluster.HostReport) { h.URLs.Peer = nil })},
		}, nil},
	})
}

// TestConditionsOfIdentity: on what nothing at all is done.
func TestConditionsOfIdentity(t *testing.T) {
	fine := func(v *step.View) bool { return record.Identity(v) == nil }
	foreign := of("d", func(h *cluster.HostReport) { h.Status = &cluster.MemberStatus{Cluster: 9, Auth: true} })
	marked := func(t *testing.T) *cluster.Observation { // by the predecessor; nobody here has anything of it
		w := newWorld()
		w.spec = &cluster.Spec{MemberCount: 3, EtcdVersion: version("3.6.16")}
		for _, id := range []cluster.HostID{"a", "b", "c"} {
			w.addHost(id, version("3.6.16"))
		}
		o := w.observe()
		o.Store.Intent, o.Store.Marker = &cluster.Intent{State: cluster.IntentFounded, Timestamp: 1}, true
		o.Commands = []cluster.Command{{Name: "cmd", Kind: cluster.CommandRestore, Backup: "B"}}
		return o
	}
	checkConditions(t, []condition{
		{"our cluster", formedSight, fine, []otherwise{
			{"the store is of another name", inIntent(func(in *cluster.Intent) { in.Name = "x" })},
			{"etcd asks for a credential", of("b", func(h *cluster.HostReport) { h.Status.Auth = true })},
			{"the record has no nonce", inIntent(func(in *cluster.Intent) { in.Nonce = "" })},
			{"the record has no token", inIntent(func(in *cluster.Intent) { in.Token = "" })},
			{"the store has lost it", func(o *cluster.Observation) { o.Store.Intent, o.Store.Marker = nil, false }},
			{"a host remembers another founding", of("d", func(h *cluster.HostReport) { h.Intent = h.Intent.Clone(); h.Intent.Nonce = "x" })},
			{"a host carries a member of an unknown generation", inIntent(func(in *cluster.Intent) { in.Generation = 2 })},
		}, []otherwise{
			{"another cluster's asks for a credential", foreign},
			{"the store is silent", func(o *cluster.Observation) { o.Store = cluster.StoreView{} }},
		}},
		{"a generation over the predecessor's marker", marked, func(v *step.View) bool { stays, _ := record.StaysAdopted(v); return !stays }, []otherwise{
			{"nobody asks for one", func(o *cluster.Observation) { o.Commands = nil }},
			{"only a backup is asked for", func(o *cluster.Observation) { o.Commands[0].Kind = cluster.CommandBackup }},
			{"hosts of ours join that cluster", func(o *cluster.Observation) { o.Store.Joining = true }},
			{"a host holds data", of("b", func(h *cluster.HostReport) { h.Local.HasData = true })},
			{"a host holds what nothing accounts for", of("b", func(h *cluster.HostReport) { h.Foreign = []cluster.SetAside{{Dir: "x"}} })},
			{"something runs on a host", of("b", func(h *cluster.HostReport) { h.Process.State = cluster.ProcessForeign })},
			{"a host is out of sight", func(o *cluster.Observation) {
				o.Gaps = append(o.Gaps, cluster.Gap{Kind: cluster.GapUnreachable, Host: "x"})
			}},
			{"too few have promised", func(o *cluster.Observation) {
				of("b", func(h *cluster.HostReport) { h.UnderFence = false })(o)
				of("c", func(h *cluster.HostReport) { h.UnderFence = false })(o)
			}},
			{"it was run", func(o *cluster.Observation) {
				o.Store.Intent = o.Store.Intent.Clone()
				o.Store.Intent.CommandsRun = []string{"cmd"}
			}},
		}, []otherwise{
			{"one host has not promised", of("c", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"a host that is out of sight is named as lost", func(o *cluster.Observation) {
				o.Gaps = append(o.Gaps, cluster.Gap{Kind: cluster.GapUnreachable, Host: "x"})
				o.Commands[0].Lost = []cluster.HostID{"x"}
			}},
			{"something that is no host is out of sight", func(o *cluster.Observation) { o.Gaps = append(o.Gaps, cluster.Gap{Kind: cluster.GapSpec}) }},
		}},
		{"an end of the world is no reason to recover", formedSight, func(v *step.View) bool { return generation.LostAndAlive(v, recoverFrom("a")) != nil }, []otherwise{
			{"the list may be old", hearsay},
			{"it is another cluster", inIntent(func(in *cluster.Intent) { in.Cluster = 9 })},
		}, nil},
	})
}
