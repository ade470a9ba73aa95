package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/control"
	"etcdadm.io/plan"
)

// A command that waits is listed with who asked, and can be withdrawn once.
func TestQueueListAndCancel(t *testing.T) {
	t.Setenv("ETCDADM_DATA_DIR", "")
	t.Setenv("ETCDADM_STORE", "")
	dir := t.TempDir()
	store, err := file.Open(t.Context(), dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := control.New(store, "")
	const backup = "2026-11-20T22:00:00Z-000001"
	name, err := f.AddRestore(t.Context(), control.RestoreBackup{Backup: backup, By: "root@shell", Lost: []cluster.HostID{"c"}})
	if err != nil {
		t.Fatal(err)
	}
	url := "--store=file://" + dir
	list := func(words ...string) (l listedQueue) {
		t.Helper()
		code, out, errs := runEtcdadm(append([]string{"queue", "list", "-o", "json", url}, words...)...)
		if err := json.Unmarshal([]byte(out), &l); code != ExitOK || err != nil {
			t.Fatalf("%d %s%s", code, out, errs)
		}
		return l
	}
	l := list()
	if len(l.Queue) != 1 || l.Queue[0].Command != name || l.Queue[0].By != "root@shell" || l.Queue[0].State != queueWaits || l.Queue[0].Expires.Sub(l.Queue[0].Queued) != cluster.ConsentLasts || l.Queue[0].What != "restore "+backup+" --lost c" {
		t.Fatalf("%+v", l)
	}

	// The leading daemon knows what it waits for.
	a := &answering{report: healthyReport()}
	a.report.Queue = []plan.Waiting{{Command: name, Running: true, For: "host a makes it ready"}}
	at := []string{"--endpoint=" + a.serve(t, "test", "a"), "--cluster-name=test"}
	if l := list(at...); l.Queue[0].State != queueRuns || l.Queue[0].Why != "host a makes it ready" || !l.Queue[0].Expires.IsZero() {
		t.Errorf("%+v", l.Queue[0])
	}
	if code, out, _ := runEtcdadm(append([]string{"queue", "list", url}, at...)...); code != ExitOK || !strings.Contains(out, "root@shell") || !strings.Contains(out, name+": host a makes it ready") {
		t.Errorf("%d %s", code, out)
	}

	if code, out, errs := runEtcdadm("queue", "cancel", backup, "--dry-run", url); code != ExitOK || !strings.Contains(out, "would be withdrawn") || len(list().Queue) != 1 {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if code, _, errs := runEtcdadm("queue", "cancel", name, url); code != ExitUnsafe || len(list().Queue) != 1 {
		t.Errorf("not confirmed: %d %s", code, errs)
	}
	if code, out, errs := runEtcdadm("queue", "cancel", name, "--yes", url); code != ExitOK || !strings.Contains(out, "withdrawn") || !strings.Contains(errs, "asked for by root@shell") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if l := list("--all"); len(l.Queue) != 0 {
		t.Errorf("%+v", l)
	}
	if code, _, errs := runEtcdadm("queue", "cancel", name, "--yes", url); code != ExitError || !strings.Contains(errs, "no such command") || !strings.Contains(errs, "hint:") {
		t.Errorf("again: %d %s", code, errs)
	}
}

// One that has begun is left alone, and that is said.
func TestQueueDoesNotCancelWhatHasBegun(t *testing.T) {
	t.Setenv("ETCDADM_DATA_DIR", "")
	dir := t.TempDir()
	store, err := file.Open(t.Context(), dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := control.New(store, "c")
	name, err := f.AddRestore(t.Context(), control.RestoreBackup{Backup: "2026-11-20T22:00:00Z-000001"})
	if err != nil {
		t.Fatal(err)
	}
	in := seenCluster().Store.Intent
	in.Nonce, in.Token, in.Timestamp, in.CommandID, in.CommandsRun = "n", "t", time.Now().UnixNano(), name, []string{name}
	if _, err := f.CreateIntent(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	code, _, errs := runEtcdadm("queue", "cancel", name, "--yes", "--store=file://"+dir)
	if code != ExitUnsafe || !strings.Contains(errs, "has begun already: generation 3") || !strings.Contains(errs, "restore --undo") {
		t.Errorf("%d %s", code, errs)
	}
	if all, err := f.Commands(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if code, out, _ := runEtcdadm("queue", "list", "--store=file://"+dir); code != ExitOK || !strings.Contains(out, queueRuns) {
		t.Errorf("%d %s", code, out)
	}
}
