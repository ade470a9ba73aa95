package tables

import (
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func status() control.Status {
	return control.Status{
		Cluster: "etcd", Leader: "b", At: now.Add(-12 * time.Second), Rule: "steady", Reason: "all is well", Command: "etcdadm member add d",
		Spec:       &cluster.Spec{MemberCount: 3, EtcdVersion: cluster.Version{Major: 3, Minor: 7, Patch: 3}, Hold: true},
		Generation: 2,
		Members: []control.MemberStatus{
			{Host: "c", Member: 3, Up: false, Condition: "silent", Why: "no answer"},
			{Host: "b", Member: 2, Up: true, Leads: true, Version: cluster.Version{Major: 3, Minor: 7, Patch: 3}},
			{Host: "a", Member: 1, Up: true, Learner: true, Quarantined: true},
		},
		Hosts:    []control.HostStatus{{Host: "b", Data: cluster.DataMember}, {Host: "d", Data: cluster.DataNone}, {Host: "e", Data: cluster.DataOther}},
		Pauses:   []control.PauseStatus{{Host: "c", MayGo: true}},
		Backup:   &cluster.Backup{Name: "new", At: now.Add(-time.Minute)},
		Proven:   &cluster.Backup{Name: "old", At: now.Add(-time.Hour)},
		Blockers: []control.BlockerStatus{{Code: "member-down", Sentence: "all is well"}, {Code: "no-space", Sentence: "it is full", Command: "etcdadm defrag"}},
		Commands: []control.CommandStatus{{Command: "x", Kind: cluster.CommandBackup, What: "backup", For: "a quorum"}},
	}
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	View{Status: status(), Now: now, Again: func(c string) string { return "sudo " + c }}.Print(&out)
	const want = `cluster etcd, its daemons led by host b, which told this 12s ago
wanted: 3 members of etcd 3.7.3 (on hold)

HOST  MEMBER  ROLE                STATE                   VERSION
a     1       learner             healthy, in quarantine
b     2       voter, raft leader  healthy                 3.7.3
c     3       voter               silent: no answer
d     -       -                   free
e     -       -                   not free
host c may be taken down by its pause: no other voter is restarted or removed meanwhile

all is well
  ! member-down (docs/operations/member-down.md)
  ! no-space: it is full (docs/operations/no-space.md)
    → sudo etcdadm defrag

last backup: new, 1m0s old, not proven; old is, 1h0m0s old
generation: 2
queue:
  x  backup backup
    waits for: a quorum
`
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.TrimRight(line, " \n")) // of the last column
	}
	if got := strings.Join(lines, "\n") + "\n"; got != want {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
}

func TestPlan(t *testing.T) {
	var out strings.Builder
	View{Status: status(), Now: now}.Plan(&out)
	if !strings.HasPrefix(out.String(), "all is well  (rule steady)\n  command: etcdadm member add d\n  ! member-down") {
		t.Errorf("it prints %s", out.String())
	}
}
