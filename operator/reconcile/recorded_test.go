package reconcile

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A proven backup of another cluster, which somebody copied into the store, proves nothing of this one's data: no volume goes by
// it, neither a removed member's nor those of a deleted cluster, and nobody is offered it for the newest. The backup that the
// cluster was made of is offered, and is no proof either; one of before a restore is.
func TestProvenBackupsOfOthers(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	in := &cluster.Intent{Timestamp: 1, Name: "c", Generation: 2, Nonce: "n", Token: "t", State: cluster.IntentFounded, Cluster: 7, Write: 1, Voters: []cluster.Voter{{Host: "main-1", Member: 1}},
		Source: cluster.Source{Kind: cluster.SourceBackup, Backup: "first"}, History: []cluster.PastGeneration{{Generation: 1, Cluster: 6, Closed: true}}}
	for what, test := range map[string]struct {
		backup         cluster.Backup
		offered, proof bool
	}{
		"its own":                       {cluster.Backup{Name: "b", Cluster: 7}, true, true},
		"of before it was restored":     {cluster.Backup{Name: "b", Cluster: 6}, true, true},
		"of another cluster":            {cluster.Backup{Name: "b", Cluster: 8}, false, false},
		"that it was made of":           {cluster.Backup{Name: "first", Cluster: 8}, true, false},
		"of nobody knows which cluster": {cluster.Backup{Name: "b"}, true, false},
	} {
		test.backup.At, test.backup.Proven = now.Add(-time.Minute), true
		ctx, view := context.Background(), record.Of(&corev1.ConfigMap{}, &corev1.ConfigMap{})
		view.Control.Annotations = map[string]string{shape.AnnotationLast: "uid command"}
		ec := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
		s := &sight{cluster: ec, control: view.Control, status: view.Status}
		f := view.Folder(s.shape.ClusterName())
		of := *in
		of.Name = s.shape.ClusterName()
		_, err := f.CreateIntent(ctx, &of)
		if err == nil {
			err = f.WriteSpec(ctx, cluster.Spec{MemberCount: 1, EtcdVersion: cluster.Version{Major: 3, Minor: 6, Patch: 16}, Hosts: []cluster.HostID{"main-1"}})
		}
		if err == nil {
			err = f.EndCommand(ctx, control.Ended{Name: "command", Result: "done", Backup: "last", At: now.Add(-time.Hour)})
		}
		if err == nil {
			err = f.WriteStatus(ctx, control.Status{Cluster: of.Name, At: now, Members: []control.MemberStatus{{Host: "main-1", Up: true}}, Hosts: []control.HostStatus{{Host: "main-1"}}, Proven: &test.backup})
		}
		if err != nil {
			t.Fatal(err)
		}
		s.world.Now = now
		s.record(ctx)
		kept := s.world.Keeps(decide.Host{N: 2, Name: "main-2", Set: true, Claim: decide.ClaimThere, SpentSince: now.Add(-25 * time.Hour)})
		if (kept == "") != test.proof || kept != "" && !strings.HasPrefix(kept, "no proven backup") || s.world.Record.Last.Proven != test.proof {
			t.Errorf("%s: a removed member's volume is kept because %q, and the last backup is proven: %v (%s)", what, kept, s.world.Record.Last.Proven, s.world.Unread)
		}
		if (s.world.Told.ProvenName != "") != test.offered {
			t.Errorf("%s: %q is offered", what, s.world.Told.ProvenName)
		}
	}
}

// For how long a member's host does not answer is what they count.
func TestToldSilent(t *testing.T) {
	got := toldOf(&control.Status{Members: []control.MemberStatus{{Host: "main-1", Up: true}, {Host: "main-2", Silent: time.Minute}}}, nil)
	if got.Silent["main-1"] != 0 || got.Silent["main-2"] != time.Minute {
		t.Errorf("%v", got.Silent)
	}
}

// Why a host that was asked to be let go has to stay is told of that host, and why a voter does not answer is none of it.
func TestToldStays(t *testing.T) {
	facts := func(text string) json.RawMessage { return json.RawMessage(text) }
	got := toldOf(&control.Status{Blockers: []control.BlockerStatus{
		{Code: "host-paused", Subject: "main-1", Facts: facts(`{"host":"main-1","reason":"r","why":"a voter lags"}`)},
		{Code: "host-paused", Subject: "main-2", Facts: facts(`{"voter":"main-2","host":"main-2","why":"it is silent"}`)},
		{Code: "host-paused", Subject: "main-3", Facts: facts(`{`)},
		{Code: "host-paused"},
	}}, nil)
	if len(got.Stays) != 1 || got.Stays["main-1"] != "a voter lags" || len(got.Blockers) != 4 {
		t.Errorf("%+v", got)
	}
}
