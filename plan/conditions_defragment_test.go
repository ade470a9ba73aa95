package plan

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/upkeep"
)

// TestConditionsOfDefragmentation: beside what no member is taken away for its own good.
func TestConditionsOfDefragmentation(t *testing.T) {
	alarm := func(kind string) func(o *cluster.Observation) {
		return of("a", func(h *cluster.HostReport) { h.Status.Alarms = []string{kind + " on " + h.Local.Member.String()} })
	}
	fragmented := then(formedSight, ledBy("a"), of("b", func(h *cluster.HostReport) {
		h.Status.DBSize, h.Status.DBInUse = 10*upkeep.LeastFree, 2*upkeep.LeastFree
	}), func(o *cluster.Observation) {
		o.Upkeep.DefragThreshold = 50
		for _, id := range []cluster.HostID{"a", "b", "c"} {
			ofMember(id, func(m *cluster.MemberMemory) { m.HealthySince = worldEpoch })(o)
		}
	})
	checkConditions(t, []condition{
		{"by itself", fragmented, func(v *step.View) bool { d := upkeep.Defragment(v); return d != nil && d.Action != nil }, []otherwise{
			{"nobody wants it", func(o *cluster.Observation) { o.Upkeep.DefragThreshold = 0 }},
			{"too little is free", of("b", func(h *cluster.HostReport) { h.Status.DBInUse = 9 * upkeep.LeastFree })},
			{"what is free is not worth it", of("b", func(h *cluster.HostReport) { h.Status.DBSize, h.Status.DBInUse = upkeep.LeastFree, 1<<20 })},
			{"nobody knows what is in use", of("b", func(h *cluster.HostReport) { h.Status.DBInUse = 0 })},
			{"that was done a moment ago", of("b", func(h *cluster.HostReport) {
				h.Database = &cluster.DatabaseWork{Member: h.Local.Member, Defragmented: h.Clock.Add(time.Second - upkeep.DefragEvery)}
			})},
			{"members are full", alarm(cluster.AlarmNoSpace)},
			{"keys differ", alarm(cluster.AlarmCorrupt)},
			{"two lines run", of("c", func(h *cluster.HostReport) { h.Local.Version, h.Status.Version = version("3.5.35"), version("3.5.35") })},
			{"the cluster is being founded", inIntent(func(in *cluster.Intent) { in.State = cluster.IntentFounding })},
			{"it is quarantined", inIntent(func(in *cluster.Intent) { in.Quarantined = true })},
			{"a change of the voters is under way", inIntent(func(in *cluster.Intent) { in.Next = in.Voters[:2] })},
			{"one may be on its way", inIntent(func(in *cluster.Intent) { in.Pending = []cluster.VoterChange{{}} })},
			{"a backup is being taken", of("c", func(h *cluster.HostReport) { h.Taken = &cluster.Taken{Running: true, Began: h.Clock} })},
			{"a command is in the queue", queue(*recoverFrom("a"))},
			{"another voter is down", of("c", unhealthy)},
			{"another voter has just come", func(o *cluster.Observation) {
				ofMember("c", func(m *cluster.MemberMemory) { m.HealthySince = o.At.Add(time.Second - sight.Settled) })(o)
			}},
			{"another voter is far behind", func(o *cluster.Observation) {
				for _, id := range []cluster.HostID{"a", "b"} {
					of(id, func(h *cluster.HostReport) {
						h.Status.Index, h.Status.Applied = 2*sight.NearEntries, 2*sight.NearEntries
					})(o)
				}
			}},
			{"there is a learner", func(o *cluster.Observation) {
				for i := range o.Hosts {
					if w := o.Hosts[i].View; w != nil {
						w.Members = append(w.Members, cluster.Member{ID: 99, Learner: true})
					}
				}
			}},
			{"its host has no room", of("b", func(h *cluster.HostReport) { h.FreeSpace = 2 * upkeep.LeastFree })},
			{"a hash of it is being made", of("b", func(h *cluster.HostReport) { h.Hash = &cluster.Hash{Running: true} })},
		}, []otherwise{
			{"that was done a while ago", of("b", func(h *cluster.HostReport) {
				h.Database = &cluster.DatabaseWork{Member: h.Local.Member, Defragmented: h.Clock.Add(-upkeep.DefragEvery)}
			})},
			{"another member was, a moment ago", of("b", func(h *cluster.HostReport) {
				h.Database = &cluster.DatabaseWork{Member: 99, Defragmented: h.Clock}
			})},
			{"a backup is asked for", queue(cluster.Command{Name: "x", Kind: cluster.CommandBackup})},
			{"a command has ended", queue(cluster.Command{Name: "x", Kind: cluster.CommandRecover, Host: "a", Ended: "done"})},
		}},
		{"members compact themselves", then(formedSight, func(o *cluster.Observation) {
			for i := range o.Hosts {
				o.Hosts[i].Local.Options = []string{"--auto-compaction-retention=1h"}
			}
		}), func(v *step.View) bool { return upkeep.CompactsItself(v) }, []otherwise{
			{"one does not", of("b", func(h *cluster.HostReport) { h.Local.Options = nil })},
			{"one is told not to", of("b", func(h *cluster.HostReport) { h.Local.Options = []string{"--auto-compaction-retention=0"} })},
		}, []otherwise{
			{"one is out of sight", away("b", cluster.GapUnreachable)},
		}},
	})
}
