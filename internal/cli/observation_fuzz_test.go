package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/testlater"
	"etcdadm.io/plan"
)

// seenCluster is an observation with something of everything in it.
func seenCluster() *cluster.Observation {
	at := time.Date(2026, 11, 20, 23, 8, 18, 0, time.UTC)
	v := cluster.MustVersion("3.6.16")
	o := &cluster.Observation{
		Cluster: "c", At: at,
		Spec: &cluster.Spec{MemberCount: 3, EtcdVersion: v},
	}
	for i, h := range []cluster.HostID{"a", "b", "c"} {
		id := cluster.MemberID(i + 1)
		o.Hosts = append(o.Hosts, cluster.HostReport{HostState: cluster.HostState{
			Host: h, Disk: cluster.DiskID("d" + h), URLs: cluster.URLs{Peer: []string{"https://" + string(h) + ":2380"}, Client: []string{"https://" + string(h) + ":2379"}},
			Status: &cluster.MemberStatus{Member: id, Cluster: 7, Version: v, Leader: 1, Term: 2, Index: 9, Applied: 9, Healthy: true},
			Local:  cluster.LocalMember{Run: true}, Process: cluster.Process{State: cluster.ProcessRunning},
			SetAside: []cluster.SetAside{{Dir: "/d/data-trashcan/old", Reason: "superseded", Bytes: 12 << 20}},
		}})
	}
	o.Store = cluster.StoreView{Read: true, Conditional: true, Intent: &cluster.Intent{
		Name: "c", Generation: 3, State: cluster.IntentFounded, Cluster: 7, Version: v, Source: cluster.Source{Kind: cluster.SourceBackup, Backup: "n1"},
	}}
	o.Commands = []cluster.Command{{Name: "2026-11-21T11:00:00Z-000000", Kind: cluster.CommandUndo, Host: "a", Dir: "old"}}
	o.Backups = cluster.BackupsView{At: at, Newest: []cluster.Backup{{Name: "2026-11-20T22:08:18Z-000001", At: at.Add(-time.Hour)}}}
	o.Gaps = []cluster.Gap{{Host: "d", Detail: "no sign of it"}}
	return o
}

// FuzzObservation: whatever is in a file that is given as an observation, and whatever
// step is asked for beside it, a decision is made, twice the same, and can be printed.
func FuzzObservation(f *testing.F) {
	whole, err := json.Marshal(seenCluster())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, []byte(`{"kind":"converge"}`))
	f.Add([]byte(`{"observation":`+string(whole)+`}`), []byte(`{"kind":"remove","host":"b","hold":true}`))
	f.Add([]byte(`{"cluster":"c","hosts":[{},{"status":null,"intent":{}},{"host":"a","view":{"members":[{}]}}],"spec":{},"gaps":[{}]}`), []byte(`{"kind":"defragment","before":{"1":"2026-11-20T23:08:18Z"}}`))
	f.Add([]byte(`{"observation":null,"cluster":"c"}`), []byte(`{"kind":"disarm","alarm":"NOSPACE"}`))
	f.Add([]byte(`[]`), []byte(`{"kind":"join","member":"ffffffffffffffff"}`))
	f.Fuzz(func(t *testing.T, data, wish []byte) {
		var goal plan.Goal
		if json.Unmarshal(wish, &goal) != nil {
			return
		}
		o, err := parseObservation(data, "a file")
		if err != nil {
			if o != nil || err.Error() == "" {
				t.Fatalf("%s: %v", data, err)
			}
			return
		}
		d := plan.Next(goal, o)
		if again := plan.Next(goal, o); !reflect.DeepEqual(d, again) {
			t.Fatalf("%s: %+v, and then %+v", data, d, again)
		}
		if d.Reason.String() == "" || d.Action != nil && d.Action.String() == "" {
			t.Fatalf("%s: %+v", data, d)
		}
		var out bytes.Buffer
		printDecision(&out, d)
		report := console.Report{
			Cluster: o.Cluster, Observation: o, Decision: &d, Steps: plan.Progress(o), Queue: plan.Queue(o, d), Backups: console.BackupsOf(o, o.At), Aside: plan.Asides(o),
		}
		printReport(io.Discard, report)
		if _, err := json.Marshal(report); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
	})
}

// An observation of a later release is not decided on by what is left of it.
func TestObservationOfALaterRelease(t *testing.T) {
	for at, data := range testlater.Forms(t, map[string]any{"observation": seenCluster()}, "/intent/") {
		o, err := parseObservation(data, "a file")
		var said interface{ Hint() string }
		if o != nil || !errors.As(err, &said) || !strings.Contains(said.Hint(), "update etcdadm") {
			t.Errorf("with a field more at %s: %v, %v", at, o, err)
		}
	}
}
