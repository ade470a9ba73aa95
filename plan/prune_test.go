package plan

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/upkeep"
)

// prunable is a world in which what c set aside goes at the next step.
func prunable(t *testing.T) *world {
	t.Helper()
	w := formed(t)
	w.host("c").down, w.host("c").ended = true, w.logOf(w.host("c"))
	w.advance(3 * time.Minute)
	w.steps(t, mostActions)
	w.host("c").down = false
	w.steps(t, mostActions)
	w.now = w.now.Add(25 * time.Hour)
	w.advance(time.Minute)
	w.queue.commands = []cluster.Command{{Name: "cmd", At: w.now, Kind: cluster.CommandBackup}}
	w.steps(t, mostActions)
	w.queue.backups[0].Proven = true
	return w
}

// TestEveryFactOfPruningCounts: SAFETY.md, rule 22, takes all of them.
func TestEveryFactOfPruningCounts(t *testing.T) {
	aside := func(change func(*cluster.SetAside)) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			h, _ := o.Host("c")
			h.SetAside = []cluster.SetAside{h.SetAside[0]}
			change(&h.SetAside[0])
		}
	}
	host := func(id cluster.HostID, change func(h *cluster.HostReport)) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			h, _ := o.Host(id)
			change(h)
		}
	}
	intent := func(change func(*cluster.Intent)) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			forgetKept(o)
			change(o.Store.Intent)
		}
	}
	proof := func(change func(*cluster.Backup)) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			o.Backups.Newest = []cluster.Backup{o.Backups.Newest[0]}
			change(&o.Backups.Newest[0])
		}
	}
	log := prunable(t).host("c").SetAside[0].Log
	for name, take := range map[string]func(o *cluster.Observation){
		"that a quorum removed it":            aside(func(a *cluster.SetAside) { a.Reason = cluster.AsideSuperseded }),
		"its member":                          aside(func(a *cluster.SetAside) { a.Member = 0 }),
		"that its member is not listed":       aside(func(a *cluster.SetAside) { a.Member = 0x101 }),
		"its cluster":                         aside(func(a *cluster.SetAside) { a.Cluster = 0 }),
		"that its cluster serves":             aside(func(a *cluster.SetAside) { a.Cluster = 9 }),
		"its generation":                      aside(func(a *cluster.SetAside) { a.Generation = 0 }),
		"that its generation serves":          aside(func(a *cluster.SetAside) { a.Generation = 2 }),
		"when it was set aside":               aside(func(a *cluster.SetAside) { a.At = time.Time{} }),
		"that nobody doubted its keys":        aside(func(a *cluster.SetAside) { a.Doubt = cluster.DoubtFound }),
		"whether anybody did":                 aside(func(a *cluster.SetAside) { a.Doubt = cluster.DoubtUnknown }),
		"its age":                             aside(func(a *cluster.SetAside) { a.At = a.At.Add(2 * time.Hour) }),
		"a time that was":                     aside(func(a *cluster.SetAside) { a.At = a.At.Add(1000 * time.Hour) }),
		"the end of its log":                  aside(func(a *cluster.SetAside) { a.Log = cluster.Progress{} }),
		"an end that the voters are beyond":   aside(func(a *cluster.SetAside) { a.Log.Index = 1 << 40 }),
		"a term that the voters have reached": aside(func(a *cluster.SetAside) { a.Log.Term = 99 }),
		"how long its host keeps it":          host("c", func(h *cluster.HostReport) { h.PruneAfter = 0 }),
		"a host that keeps it no longer":      host("c", func(h *cluster.HostReport) { h.PruneAfter = 99 * time.Hour }),
		"its host's promise":                  host("c", func(h *cluster.HostReport) { h.UnderFence = false }),
		"its host's clock":                    host("c", func(h *cluster.HostReport) { h.Clock = h.Clock.Add(-24 * time.Hour) }),
		"a host that has not failed to":       host("c", func(h *cluster.HostReport) { h.Problems = []cluster.Problem{{Code: upkeep.NotPruned, Sentence: "x"}} }),
		"that nothing is made of it": host("c", func(h *cluster.HostReport) {
			h.Staged = &cluster.Staged{Source: cluster.Source{Kind: cluster.SourceSetAside, Dir: h.SetAside[0].Name()}}
		}),
		"every voter":                        host("b", func(h *cluster.HostReport) { h.Status.Healthy = false }),
		"every voter's promise":              host("b", func(h *cluster.HostReport) { h.UnderFence = false }),
		"that every voter is beyond its log": host("b", func(h *cluster.HostReport) { h.Status.Applied = log.Index }),
		"that no voter's term is lower":      host("b", func(h *cluster.HostReport) { h.Status.Term = log.Term - 1 }),
		"that there is no alarm":             host("b", func(h *cluster.HostReport) { h.Status.Alarms = []string{"CORRUPT 102"} }),
		"that there is no error":             host("b", func(h *cluster.HostReport) { h.Status.Errors = []string{"x"} }),
		"raft's word":                        hearsay,
		"the store":                          func(o *cluster.Observation) { o.Store.Read = false },
		"that nobody asks for a restore": func(o *cluster.Observation) {
			o.Commands = []cluster.Command{{Kind: cluster.CommandRestore, Name: "x"}}
		},
		"that nobody asks for an undo": func(o *cluster.Observation) { o.Commands = []cluster.Command{{Kind: cluster.CommandUndo, Name: "x"}} },
		"that nobody asks for a recovery": func(o *cluster.Observation) {
			o.Commands = []cluster.Command{{Kind: cluster.CommandRecover, Name: "x"}}
		},
		"that the generation is made":    intent(func(in *cluster.Intent) { in.State = cluster.IntentFounding }),
		"that quarantine is lifted":      intent(func(in *cluster.Intent) { in.Quarantined = true }),
		"that no change is written down": intent(func(in *cluster.Intent) { in.Next = in.Voters[:2] }),
		"that no change is pending":      intent(func(in *cluster.Intent) { in.Pending = []cluster.VoterChange{{Voter: cluster.Voter{Member: 7}}} }),
		"the generation of the intent":   intent(func(in *cluster.Intent) { in.Generation = 2 }),
		"the backup":                     func(o *cluster.Observation) { o.Backups.Newest = nil },
		"a list of the backups":          func(o *cluster.Observation) { o.Backups.At = time.Time{} },
		"a list that is not old":         func(o *cluster.Observation) { o.Backups.At = o.At.Add(-time.Hour) },
		"its proof":                      proof(func(b *cluster.Backup) { b.Proven = false }),
		"the backup's cluster":           proof(func(b *cluster.Backup) { b.Cluster = 9 }),
		"a cluster that is recorded":     proof(func(b *cluster.Backup) { b.Cluster = 0 }),
		"a backup beyond its log":        proof(func(b *cluster.Backup) { b.Index = log.Index }),
		"a backup of no lower term":      proof(func(b *cluster.Backup) { b.Term = log.Term - 1 }),
		"a backup that is younger":       proof(func(b *cluster.Backup) { b.At = b.At.Add(-26 * time.Hour) }),
		"a backup of no such moment, as far as clocks can tell": func(o *cluster.Observation) {
			h, _ := o.Host("c")
			proof(func(b *cluster.Backup) { b.At = h.SetAside[0].At.Add(sight.MaxSkew) })(o)
		},
		"a backup that is not from the future": proof(func(b *cluster.Backup) { b.At = b.At.Add(26 * time.Hour) }),
		"its host's own record":                aside(func(a *cluster.SetAside) { a.Foreign = true }),
	} {
		t.Run(name, func(t *testing.T) {
			w := prunable(t)
			goal := decision.Goal{Kind: decision.Converge}
			if d := Next(goal, w.observe()); !asksFor(d, cluster.OpPrune) {
				t.Fatalf("nothing is pruned even with it: %s", describe(d))
			}
			o := w.observe()
			take(o)
			if d := Next(goal, o); asksFor(d, cluster.OpPrune) {
				t.Errorf("pruned without it: %s", describe(d))
			}
		})
	}
}

// TestPrunedOnAnOlderProof: the proven backup may be older than the newest few,
// and then it counts as well.
func TestPrunedOnAnOlderProof(t *testing.T) {
	w := prunable(t)
	o := w.observe()
	b := o.Backups.Newest[0]
	o.Backups.Newest, o.Backups.Proven = nil, &b
	d := Next(decision.Goal{Kind: decision.Converge}, o)
	if !asksFor(d, cluster.OpPrune) || d.Action.Ops[0].Op.Backup != b.Name {
		t.Fatal(describe(d))
	}
	for _, broken := range brokenLaws(decision.Goal{Kind: decision.Converge}, o, d) {
		t.Error(broken)
	}
}
