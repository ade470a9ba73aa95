package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/plugin"
	"etcdadm.io/operator/record"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubectlEtcdadm runs the plugin as kubectl does, for a namespace, by a kubeconfig.
func kubectlEtcdadm(t *testing.T, ns, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	own := filepath.Dir(kube.ca)
	must(t, os.WriteFile(file, []byte("apiVersion: v1\nkind: Config\ncurrent-context: test\ncontexts: [{name: test, context: {cluster: test, user: test, namespace: "+ns+"}}]\n"+
		"users: [{name: test, user: {client-certificate: "+own+"/leaf.crt, client-key: "+own+"/leaf.key}}]\n"+
		"clusters: [{name: test, cluster: {server: \""+kube.config.Host+"\", certificate-authority: "+kube.ca+"}}]\n"), 0o600))
	var said, wrong bytes.Buffer
	code = plugin.Main(append(args, "--kubeconfig="+file), strings.NewReader(in), &said, &wrong)
	return code, said.String(), wrong.String()
}

// tell writes what the daemons tell.
func (h *hand) tell(s control.Status) {
	h.t.Helper()
	m := &corev1.ConfigMap{}
	must(h.t, h.c.Get(h.t.Context(), h.key(h.name+"-status"), m))
	view := record.Of(&corev1.ConfigMap{}, m)
	must(h.t, view.Folder("").WriteStatus(h.t.Context(), s))
	must(h.t, h.c.Update(h.t.Context(), view.Status))
}

// age has the daemons have told for the last time so long ago.
func (h *hand) age(d time.Duration) {
	h.t.Helper()
	m := &corev1.ConfigMap{}
	must(h.t, h.c.Get(h.t.Context(), h.key(h.name+"-status"), m))
	s, _, err := record.Of(&corev1.ConfigMap{}, m).Folder("").ReadStatus(h.t.Context())
	must(h.t, err)
	s.At = s.At.Add(-d)
	h.tell(s)
}

func says(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("it does not say %q:\n%s", w, text)
		}
	}
}

// What the plugin shows is what the daemons told and what the operator waits for, with the exit codes of etcdadm status.
func TestPluginLooks(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	if code, _, errs := kubectlEtcdadm(t, ns, "", "status", "main"); code != 10 || !strings.Contains(errs, "no EtcdCluster main in namespace "+ns) {
		t.Errorf("of no cluster: %d, %s", code, errs)
	}
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	told := control.Status{
		Cluster: "etcd", Leader: "main-2", At: time.Now(), Rule: "steady", Reason: "all is well", Spec: &cluster.Spec{MemberCount: 3, EtcdVersion: cluster.Version{Major: 3, Minor: 6, Patch: 16}},
		Generation: 4, Backup: &cluster.Backup{Name: "a-backup", At: time.Now().Add(-5 * time.Minute)},
		Members: []control.MemberStatus{{Host: "main-2", Member: 2, Up: true, Leads: true}, {Host: "main-1", Member: 1, Up: true}, {Host: "main-3", Member: 3, Up: true}},
		Hosts:   []control.HostStatus{{Host: "main-4", Data: cluster.DataNone}},
	}
	look := func(command string, want int, words ...string) {
		t.Helper()
		h.tell(told)
		code, out, errs := kubectlEtcdadm(t, ns, "", strings.Fields(command)...)
		if code != want || errs != "" {
			t.Errorf("%s ends with %d, want %d: %s\n%s", command, code, want, errs, out)
		}
		says(t, out, words...)
	}
	look("status main", 0, "EtcdCluster "+ns+"/main: ready\n", "its daemons led by host main-2", "wanted: 3 members of etcd 3.6.16\n",
		"HOST    MEMBER  ROLE                STATE    VERSION\n", "main-2  2       voter, raft leader  healthy", "main-4  -       -                   free",
		"last backup: a-backup, 5m0s old, not proven\n", "generation: 4\n")
	look("plan main", 0, "all is well  (rule steady)\n")

	told.Members[1].Up, told.Members[1].Condition, told.Members[1].Why = false, "silent", "no answer"
	told.Blockers = []control.BlockerStatus{{Code: "member-down", Sentence: "main-1 is down", Command: "etcdadm member replace main-1"}}
	look("status main", 14, "main-1  1       voter               silent: no answer",
		"! member-down: main-1 is down (docs/operations/member-down.md)\n    → kubectl --namespace="+ns+" --kubeconfig=")
	_, out, _ := kubectlEtcdadm(t, ns, "", "status", "main")
	says(t, out, " exec -it main-2-0 -c etcdadm -- etcdadm member replace main-1\n")
	ec := h.see()
	ec.Status.Blockers = []v1alpha1.Blocker{{Code: "member-down", Sentence: "main-1 is down", Command: "kubectl apply this"}}
	must(t, h.c.Status().Update(t.Context(), ec))
	look("status main", 14, "    → kubectl apply this\n")
	told.Members[2].Up = false
	look("status main", 15)
	told.At = told.At.Add(-13 * time.Minute)
	look("status main", 11, "no daemon told anything since")

	forged := told // as a pod of the cluster may have written it
	forged.At, forged.Leader = time.Now(), "other-2"
	h.tell(forged)
	_, out, _ = kubectlEtcdadm(t, ns, "", "status", "main")
	if strings.Contains(out, "other-2-0") {
		t.Errorf("a pod of no host of the cluster is named:\n%s", out)
	}

	h.patch(`{"spec":{"paused":true}}`)
	_, err := r.Reconcile(t.Context(), request(h))
	must(t, err)
	look("plan main", 0, "not ready, Paused: ", "! Paused: spec.paused is true", "docs/operator/reasons.md#paused")
	well := told // but for what the operator says
	well.At, well.Blockers, well.Members = time.Now(), nil, nil
	for _, m := range told.Members {
		m.Up, m.Condition, m.Why = true, "", ""
		well.Members = append(well.Members, m)
	}
	h.tell(well)
	if code, out, _ := kubectlEtcdadm(t, ns, "", "status", "main"); code != 14 {
		t.Errorf("a paused cluster: %d\n%s", code, out)
	}

	h.tell(told)
	_, out, _ = kubectlEtcdadm(t, ns, "", "status", "main", "-o", "json")
	var for1 struct {
		Health string                 `json:"health"`
		Status v1alpha1.ClusterStatus `json:"status"`
		Told   control.Status         `json:"told"`
	}
	if err := json.Unmarshal([]byte(out), &for1); err != nil || for1.Health != "unknown" || for1.Told.Leader != "main-2" || len(for1.Status.Hosts) != 3 {
		t.Errorf("%v\n%s", err, out)
	}

	h.tell(well)
	record := &corev1.ConfigMap{}
	must(t, h.c.Get(t.Context(), h.key("main-control"), record))
	record.Annotations["etcdadm.io/self"] = "another" // as a tool for backups copies it, with what its daemons told
	must(t, h.c.Update(t.Context(), record))
	if code, out, _ := kubectlEtcdadm(t, ns, "", "status", "main", "-o", "json"); code != 10 || strings.Contains(out, "\"told\"") {
		t.Errorf("a copy: %d\n%s", code, out)
	}
}

// Backups and restores are objects; a restore asks, and names the generation that it gives up.
func TestPluginAsks(t *testing.T) {
	c, ns := server(t)
	must(t, c.Create(t.Context(), object(t, ns, etcdCluster("main", plain))))
	ec := &v1alpha1.EtcdCluster{}
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "main"}, ec))
	ec.Status.Generation, ec.Status.ClusterID = 4, "ab"
	must(t, c.Status().Update(t.Context(), ec))

	if code, out, errs := kubectlEtcdadm(t, ns, "", "backup", "main", "--dry-run"); code != 0 || out != "the API server would take this EtcdBackup; nothing was made\n" {
		t.Errorf("%d, %s%s", code, out, errs)
	}
	if _, out, _ := kubectlEtcdadm(t, ns, "", "backup", "main", "--dry-run", "-o", "yaml"); !strings.Contains(out, "apiVersion: etcdadm.io/v1alpha1\nkind: EtcdBackup\n") {
		t.Error(out)
	}
	all := &v1alpha1.EtcdBackupList{}
	must(t, c.List(t.Context(), all, client.InNamespace(ns)))
	if len(all.Items) != 0 {
		t.Error("a dry run made something")
	}
	code, out, errs := kubectlEtcdadm(t, ns, "", "backup", "main", "--keep-for=90d", "--wait=1s")
	must(t, c.List(t.Context(), all, client.InNamespace(ns)))
	if code != 13 || len(all.Items) != 1 || all.Items[0].Spec != (v1alpha1.BackupSpec{Cluster: "main", KeepFor: "90d"}) || !strings.HasPrefix(out, "made EtcdBackup main-") {
		t.Errorf("%d, %s%s, %+v", code, out, errs, all.Items)
	}

	restores := &v1alpha1.EtcdRestoreList{}
	code, _, errs = kubectlEtcdadm(t, ns, "n\n", "restore", "main", "a-backup")
	must(t, c.List(t.Context(), restores, client.InNamespace(ns)))
	if code != 12 || len(restores.Items) != 0 {
		t.Errorf("%d, %s", code, errs)
	}
	says(t, errs, "Restore "+ns+"/main from backup a-backup? Generation 4 is given up", "not confirmed; nothing was changed")
	ended := make(chan error, 1)
	go func() { ended <- answer(c, ns) }()
	code, out, errs = kubectlEtcdadm(t, ns, "", "restore", "main", "--survivor=main-2", "--lost=main-1", "--lost=main-3", "--yes", "--wait=1m")
	must(t, <-ended)
	must(t, c.List(t.Context(), restores, client.InNamespace(ns)))
	if code != 0 || len(restores.Items) != 1 {
		t.Fatalf("%d, %s%s", code, out, errs)
	}
	says(t, errs, "done: a-backup\n")
	if s := restores.Items[0].Spec; s.Replaces != 4 || s.ClusterID != "ab" || s.Source.Survivor != "main-2" || strings.Join(s.Lost, " ") != "main-1 main-3" {
		t.Errorf("%+v", s)
	}
	if code, _, errs = kubectlEtcdadm(t, ns, "", "restore", "main", "a-backup", "--newest-proven", "--yes"); code != 1 || !strings.Contains(errs, "source has one of") {
		t.Errorf("two sources: %d, %s", code, errs)
	}
}

// answer ends the restore of a namespace as the operator would.
func answer(c client.Client, ns string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		all := &v1alpha1.EtcdRestoreList{}
		if err := c.List(ctx, all, client.InNamespace(ns)); err != nil {
			return err
		}
		if len(all.Items) > 0 {
			all.Items[0].Status = v1alpha1.RequestStatus{Phase: v1alpha1.Done, Backup: "a-backup"}
			return c.Status().Update(ctx, &all.Items[0])
		}
		time.Sleep(50 * time.Millisecond) // no event
	}
}

// What only a daemon can do is asked of the etcdadm in the leading daemon's pod; its exit code is the plugin's.
func TestPluginRunsKubectl(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\necho \"$@\"\nexit 12\n"), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for command, want := range map[string]string{
		"defrag main main-2 --dry-run --yes": "exec -i main-1-0 -c etcdadm -- /usr/bin/etcdadm defrag main-2 --wait=10m0s --dry-run --yes --data-dir=/var/lib/etcdadm",
		"promote main main-4":                "exec -i main-1-0 -c etcdadm -- /usr/bin/etcdadm member promote main-4 --timeout=1m0s --data-dir=/var/lib/etcdadm",
		"logs main main-2 -f --since=10m":    "logs --selector=etcdadm.io/cluster=main,etcdadm.io/host=main-2 --prefix --max-log-requests=20 --container=etcdadm --tail=100 --since=10m0s --follow",
	} {
		code, out, errs := kubectlEtcdadm(t, ns, "", strings.Fields(command)...)
		if code != 12 || !strings.HasPrefix(out, "--namespace="+ns+" --kubeconfig=") || !strings.Contains(out, " --context=test exec ") && !strings.Contains(out, " --context=test logs ") || !strings.HasSuffix(out, " "+want+"\n") || errs != "" {
			t.Errorf("%s: %d\n%s%s", command, code, out, errs)
		}
	}
}
