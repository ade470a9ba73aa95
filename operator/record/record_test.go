package record

import (
	"reflect"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	corev1 "k8s.io/api/core/v1"
)

func view() *View { return Of(&corev1.ConfigMap{}, &corev1.ConfigMap{}) }

// What internal/control writes through a view it reads again, and each object lies where the daemons look for it.
func TestFolder(t *testing.T) {
	ctx, v := t.Context(), view()
	f := v.Folder("team.main.6f9619ff")
	version, err := cluster.ParseVersion("3.7.3")
	if err != nil {
		t.Fatal(err)
	}
	want := cluster.Spec{MemberCount: 3, EtcdVersion: version, Hosts: []cluster.HostID{"main-1", "main-2", "main-3"}, Hold: true}
	if err := f.WriteSpec(ctx, want); err != nil {
		t.Fatal(err)
	}
	got, err := v.Folder("team.main.6f9619ff").ReadSpec(ctx)
	if err != nil || got.Spec == nil || !got.Spec.Equal(want) {
		t.Errorf("%+v, %v", got.Spec, err)
	}
	name, err := f.AddWish(ctx, control.Wish{Kind: cluster.CommandBackup, By: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	if all, err := f.Commands(ctx); err != nil || len(all) != 1 || all[0].Name != name {
		t.Errorf("%+v, %v", all, err)
	}
	if err := f.WriteStatus(ctx, control.Status{Cluster: "team.main.6f9619ff"}); err != nil {
		t.Fatal(err)
	}
	if len(v.Status.Data) != 1 || v.Status.Data["control__etcdadm-status.json"] == "" || v.Control.Data["control__etcd-cluster-spec"] == "" {
		t.Errorf("%v\n%v", v.Control.Data, v.Status.Data)
	}
	if in, marker, _, err := f.ReadIntent(ctx); in != nil || marker || err != nil {
		t.Errorf("%v, %v, %v", in, marker, err)
	}
}

// Reading changes nothing, and copies stay apart.
func TestCopies(t *testing.T) {
	control := &corev1.ConfigMap{Data: map[string]string{"x": "y"}}
	v := Of(control, nil)
	if _, err := v.Folder("c").AddWish(t.Context(), controlWish); err != nil {
		t.Fatal(err)
	}
	if len(control.Data) != 1 {
		t.Errorf("%v", control.Data)
	}
	if err := v.Folder("c").WriteStatus(t.Context(), controlStatus); err == nil {
		t.Error("the status was written into a ConfigMap that is missing")
	}
}

// A command that a generation was made for is done, whatever became of the word that tells it.
func TestHearOfWhatRan(t *testing.T) {
	ctx, f := t.Context(), view().Folder("c")
	in := &cluster.Intent{Timestamp: 1, Name: "c", Generation: 2, Nonce: "n", Token: "t", State: cluster.IntentFounded, Cluster: 1, CommandID: "b", CommandsRun: []string{"a", "b"}, Source: cluster.Source{Kind: cluster.SourceBackup, Backup: "x"}}
	if _, err := f.CreateIntent(ctx, in); err != nil {
		t.Fatal(err)
	}
	for command, backup := range map[string]string{"a": "", "b": "x"} {
		if h, err := Hear(ctx, f, command, nil); err != nil || h.Ended == nil || h.Ended.Result != "done" || h.Ended.Backup != backup {
			t.Errorf("%s: %+v, %v", command, h, err)
		}
	}
	if h, err := Hear(ctx, f, "c", nil); err != nil || h.Ended != nil || h.Queued {
		t.Errorf("%+v, %v", h, err)
	}
}

// The progress that daemons raise each minute is no news, and all else is.
func TestNews(t *testing.T) {
	ctx := t.Context()
	was := view()
	if _, err := was.Folder("c").RaiseRecord(ctx, 1, cluster.Progress{Revision: 1}); err != nil {
		t.Fatal(err)
	}
	is := Of(was.Control, was.Status)
	is.Status.ResourceVersion = "2"
	if _, err := is.Folder("c").RaiseRecord(ctx, 1, cluster.Progress{Revision: 2}); err != nil || reflect.DeepEqual(is.Status.Data, was.Status.Data) {
		t.Fatalf("%v, %v", is.Status.Data, err)
	}
	if News(was.Status, is.Status) {
		t.Error("the progress is news")
	}
	if err := is.Folder("c").WriteStatus(ctx, controlStatus); err != nil || !News(was.Status, is.Status) {
		t.Errorf("the status is none: %v", err)
	}
	is.Control.Labels = map[string]string{"x": "y"}
	if News(was.Control, was.Control) || !News(was.Control, is.Control) {
		t.Error("a label is none, or nothing is")
	}
}

var (
	controlWish   = control.Wish{Kind: cluster.CommandBackup}
	controlStatus = control.Status{}
)
