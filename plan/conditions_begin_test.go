package plan

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/generation"
	"etcdadm.io/plan/internal/roll"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
)

// TestConditionsOfBeginning: the first member of a generation is started where its
// source lies ready, and the generation is above all that hosts refuse.
func TestConditionsOfBeginning(t *testing.T) {
	ready := then(formedSight, inIntent(func(in *cluster.Intent) {
		old := in.Clone()
		in.Generation, in.Nonce, in.Token, in.Cluster, in.State = 2, "n2", "t2", 0xc2, cluster.IntentFounding
		in.Source, in.Founders = cluster.Source{Kind: cluster.SourceBackup, Backup: "B"}, in.Founders[:1]
		in.Founders[0].Member = 0xc2a
		in.History = []cluster.PastGeneration{{Generation: 1, Cluster: old.Cluster, Voters: old.VoterSets(), Closed: true}}
	}), func(o *cluster.Observation) {
		for i := range o.Hosts {
			stopped(2, 5)(&o.Hosts[i])
			o.Hosts[i].LowestGeneration = 2
		}
		of("a", func(h *cluster.HostReport) {
			h.Local, h.Process = cluster.LocalMember{}, cluster.Process{}
			h.Staged = &cluster.Staged{Token: "t2", State: cluster.StageReady, Source: o.Store.Intent.Source, Member: 0xc2a, Cluster: 0xc2}
		})(o)
	})
	second := &cluster.Command{Name: "cmd", Kind: cluster.CommandRestore, Backup: "B", At: time.Unix(100, 0)}
	first := cluster.Command{Name: "x", Kind: cluster.CommandRestore, Backup: "B", At: time.Unix(101, 0), Lost: []cluster.HostID{"c"}}
	starts := func(v *step.View) bool {
		d := generation.FinishGeneration(v)
		return d.Action != nil && len(d.Action.Ops) == 1 && d.Action.Ops[0].Op.Kind == cluster.OpStart
	}
	checkConditions(t, []condition{
		{"a founder begins with what lies ready", ready, starts, []otherwise{
			{"it has another disk", of("a", func(h *cluster.HostReport) { h.Disk = "another" })},
			{"it refuses this generation as well", of("a", func(h *cluster.HostReport) { h.LowestGeneration = 3 })},
			{"it has not promised", of("a", func(h *cluster.HostReport) { h.UnderFence = false })},
			{"it is of another token", of("a", func(h *cluster.HostReport) { h.Staged.Token = "t3" })},
			{"it is not ready", of("a", func(h *cluster.HostReport) { h.Staged.State = cluster.StageBuilding })},
		}, nil},
		{"the next generation is one above", formedSight, func(v *step.View) bool { return v.NextGeneration() == 2 }, []otherwise{
			{"a host refuses it", of("b", func(h *cluster.HostReport) { h.LowestGeneration = 7 })},
		}, nil},
		{"a later command that gives up more takes another one's place", then(formedSight, queue(first)), func(v *step.View) bool { return generation.Replaced(v, second) != nil }, []otherwise{
			{"it was there before", func(o *cluster.Observation) { o.Commands[0].At = time.Unix(99, 0) }},
			{"it gives up no more", func(o *cluster.Observation) { o.Commands[0].Lost = nil }},
			{"it asks for something else", func(o *cluster.Observation) { o.Commands[0].Backup = "B2" }},
		}, nil},
	})
}

// TestConditionsOfAnotherRelease: when a voter is restarted with it.
func TestConditionsOfAnotherRelease(t *testing.T) {
	settledSight := then(formedSight, func(o *cluster.Observation) {
		for i := range o.Memory.Members {
			o.Memory.Members[i].HealthySince = worldEpoch.Add(-time.Hour)
		}
	})
	next := roll.Stage{To: version("3.5.35"), Why: "it is to be so", Move: func(r cluster.Version) bool { return r != version("3.5.35") }}
	restarts := func(v *step.View) bool {
		s, _ := v.Roster.Seat(v.Roster.Voters()[2].ID)
		d := roll.RestartWith(v, s, next)
		return d != nil && d.Action != nil
	}
	agreedLower := then(settledSight, func(o *cluster.Observation) {
		for i := range o.Hosts {
			if st := o.Hosts[i].Status; st != nil {
				st.ClusterVersion, st.StorageVersion = version("3.5.0"), version("3.5.0")
			}
			o.Hosts[i].Releases = append(o.Hosts[i].Releases, version("3.5.35"))
		}
	})
	checkConditions(t, []condition{
		{"a voter is given the line below", agreedLower, restarts, []otherwise{
			{"its data has the format of its own", of("c", func(h *cluster.HostReport) { h.Status.StorageVersion = version("3.6.0") })},
			{"another one's process began a moment ago", of("b", func(h *cluster.HostReport) { h.Process.Uptime = sight.Settled - time.Second })},
			{"another one is down", of("b", unhealthy)},
			{"another one, whose process is old, was down a moment ago", func(o *cluster.Observation) {
				of("b", func(h *cluster.HostReport) { h.Process.Uptime = time.Hour })(o)
				ofMember("b", func(m *cluster.MemberMemory) { m.HealthySince = o.At.Add(time.Second - sight.Settled) })(o)
				for i := range o.Memory.Hosts {
					o.Memory.Hosts[i].FenceSince = o.At.Add(-time.Minute)
				}
			}},
		}, nil},
	})
}
