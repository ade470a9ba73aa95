package plan

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// Settled is told of a cluster in which nothing is left to be done for the spec, also while a backup is taken or a person asks for
// a step, and of no other one.
func TestSettled(t *testing.T) {
	options := func(id cluster.HostID) func(o *cluster.Observation) {
		return of(id, func(h *cluster.HostReport) { h.Options = []string{"--max-txn-ops=1024"} })
	}
	trusts := func(id cluster.HostID) func(o *cluster.Observation) {
		return func(o *cluster.Observation) {
			in := o.Intent().Clone()
			in.Rotation = nil
			of(id, func(h *cluster.HostReport) {
				h.Authorities = &cluster.HostAuthorities{Etcd: true, All: []cluster.HostAuthority{{Name: "peer-ca", Trusts: []string{"new"}}}}
				h.Process.Trusts = []string{"old"}
			})(o)
		}
	}
	backupDue := func(o *cluster.Observation) {
		o.Backups = cluster.BackupsView{At: o.At, Interval: time.Minute}
	}
	for what, c := range map[string]struct {
		goal    decision.GoalKind
		changes []func(o *cluster.Observation)
		rule    string // that decides
		want    bool
	}{
		"all is as the spec asks":              {"", nil, ruleSteady, true},
		"a backup is due":                      {"", []func(o *cluster.Observation){backupDue}, ruleBackup, true},
		"a backup is due, and options changed": {"", []func(o *cluster.Observation){backupDue, options("b")}, ruleBackup, false},
		"options changed":                      {"", []func(o *cluster.Observation){options("b")}, "converge-options", false},
		"other authorities are trusted":        {"", []func(o *cluster.Observation){trusts("b")}, "converge-options", true},
		"other authorities, on a paused host": {"", []func(o *cluster.Observation){trusts("b"), func(o *cluster.Observation) {
			o.Paused = []cluster.Pause{{ID: "p", Host: "b", Until: o.At.Add(8 * time.Hour), Reason: "by hand"}}
		}}, "converge-options", true},
		"other options, on a paused host": {"", []func(o *cluster.Observation){options("b"), func(o *cluster.Observation) {
			o.Paused = []cluster.Pause{{ID: "p", Host: "b", Until: o.At.Add(8 * time.Hour), Reason: "by hand"}}
		}}, "converge-options", false},
		"other authorities, and other options": {"", []func(o *cluster.Observation){trusts("b"), options("c")}, "converge-options", false},
		"the hosts have not heard of the spec": {"", []func(o *cluster.Observation){func(o *cluster.Observation) { o.SpecUnheard = true }}, ruleSteady, false},
		"a member has a later version": {"", []func(o *cluster.Observation){func(o *cluster.Observation) {
			s := *o.Spec
			s.EtcdVersion = version("3.6.15")
			o.Spec = &s
		}}, "", false},
		"more members are wanted": {"", []func(o *cluster.Observation){func(o *cluster.Observation) {
			s := *o.Spec
			s.MemberCount = 5
			o.Spec = &s
		}}, "", false},
		"a voter is down":                        {"", []func(o *cluster.Observation){of("b", func(h *cluster.HostReport) { h.Status = nil })}, "", false},
		"no spec":                                {"", []func(o *cluster.Observation){func(o *cluster.Observation) { o.Spec = nil }}, "", false},
		"a person's step":                        {decision.MoveLeader, nil, "", true},
		"a person's step, while options changed": {decision.MoveLeader, []func(o *cluster.Observation){options("b")}, "", false},
	} {
		goal := decision.Goal{Kind: decision.Converge}
		if c.goal != "" {
			goal.Kind = c.goal
		}
		d := Next(goal, then(formedSight, c.changes...)(t))
		if d.Settled != c.want || c.rule != "" && d.Rule != c.rule {
			t.Errorf("%s: settled %t by rule %s: %s", what, d.Settled, d.Rule, d.Reason)
		}
	}
}
