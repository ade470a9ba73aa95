package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/reconcile"
	"etcdadm.io/operator/shape"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// daemon is a real one, with the flags of a host's StatefulSet: but for TLS, whose names nobody resolves here, and for where
// it listens and keeps things.
type daemon struct {
	t       *testing.T
	store   string // of the backups
	dir     string
	program string
}

// starts builds the program and runs it until the test ends.
func (d *daemon) starts(h *hand, host string) {
	t := d.t
	t.Helper()
	d.dir = t.TempDir()
	d.store = "file://" + filepath.Join(d.dir, "backups")
	must(t, os.Mkdir(filepath.Join(d.dir, "backups"), 0o700))
	d.program = filepath.Join(d.dir, "etcdadm")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", d.program, "./cmd/etcdadm")
	build.Dir = "../.."
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	set := &appsv1.StatefulSet{}
	must(t, h.c.Get(t.Context(), h.key(host), set))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: h.ns, Name: host + "-0", Labels: set.Spec.Template.Labels, Annotations: set.Spec.Template.Annotations}, Spec: set.Spec.Template.Spec}
	must(t, h.c.Create(t.Context(), pod))
	tells(pod, corev1.ContainerStatus{Name: shape.ContainerName, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}})
	must(t, h.c.Status().Update(t.Context(), pod))
	must(t, kube.server.Token(t.Context(), h.ns, set.Spec.Template.Spec.ServiceAccountName, filepath.Join(d.dir, "account")))
	cmd := exec.Command(d.program, append([]string{"pod"}, d.flags(set)...)...)
	log, err := os.Create(filepath.Join(d.dir, "log"))
	must(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "ETCD_MANAGER_DAILY_BACKUPS_RETENTION=10d")
	must(t, cmd.Start())
	log.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_ = cmd.Wait() // it may end by the signal
		if said, err := os.ReadFile(filepath.Join(d.dir, "log")); t.Failed() && err == nil {
			t.Logf("the daemon:\n%s", said)
		}
	})
}

func (d *daemon) flags(set *appsv1.StatefulSet) []string {
	var ports [5]int
	for i := range ports {
		p, err := testetcd.ReservePort()
		must(d.t, err)
		d.t.Cleanup(p.Release)
		ports[i] = p.Number
	}
	at := func(i int) string { return fmt.Sprintf("http://127.0.0.1:%d", ports[i]) }
	other := map[string]string{
		"--data-dir": filepath.Join(d.dir, "data"), "--address": "127.0.0.1", "--grpc-port": fmt.Sprint(ports[0]), "--discovery": fmt.Sprintf("127.0.0.1:%d", ports[0]),
		"--peer-urls": at(1), "--client-urls": at(2), "--quarantine-client-urls": at(3), "--etcd-manager-metrics-port": fmt.Sprint(ports[4]), "--backup-store": d.store,
	}
	flags := []string{"--insecure", "--etcd-insecure", "--etcd-address=127.0.0.1", "--backup-interval=0"}
	for _, flag := range set.Spec.Template.Spec.Containers[0].Command[2:] {
		name, value, _ := strings.Cut(flag, "=")
		switch {
		case name == "--leaves-dir":
			continue
		case name == "--control-store":
			value += "?server=" + kube.server.URL + "&account=" + filepath.Join(d.dir, "account")
		case other[name] != "":
			value = other[name]
		}
		flags = append(flags, name+"="+value)
	}
	return flags
}

// listed is a backup as etcdadm lists it.
type listed struct {
	Name      string    `json:"name"`
	At        time.Time `json:"at"`
	KeepUntil time.Time `json:"keepUntil"`
}

// backups are those in the daemon's store, newest first.
func (d *daemon) backups() (all []listed) {
	out, err := exec.CommandContext(d.t.Context(), d.program, "backup", "list", "--store", d.store, "-o", "json").Output()
	must(d.t, err)
	must(d.t, json.Unmarshal(out, &all))
	return all
}

// ages gives a backup another, older self, which is kept for a time or not.
func (d *daemon) ages(name, older string, kept bool) {
	t := d.t
	t.Helper()
	to := filepath.Join(d.dir, "backups", older)
	must(t, os.CopyFS(to, os.DirFS(filepath.Join(d.dir, "backups", name))))
	if kept {
		return
	}
	file := filepath.Join(to, backup.FileManifest)
	data, err := os.ReadFile(file)
	must(t, err)
	m, err := backup.ParseManifest(data)
	must(t, err)
	m.KeepUntil = time.Time{}
	must(t, os.WriteFile(file, m.Encode(), 0o600))
}

// A real daemon takes the backup that an EtcdBackup asks for once, and that of a schedule at its time, although its operators
// are killed; and its retention leaves a backup alone that is kept for longer, whose twin goes.
func TestBackupByDaemon(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", `size: 1, version: 3.7.3, storage: {size: 1Gi}, backup: {store: "s3://b/`+ns+`"}`))))
	d := &daemon{t: t}
	turn := func(ctx context.Context) error {
		_, err := r.Reconcile(ctx, request(h))
		return err
	}
	within(t, time.Minute, "the host is made", func(ctx context.Context) error {
		return errors.Join(turn(ctx), h.c.Get(ctx, h.key("main-1"), &appsv1.StatefulSet{}))
	})
	d.starts(h, "main-1")
	within(t, 2*time.Minute, "the cluster serves", func(ctx context.Context) error {
		if err := turn(ctx); err != nil {
			return err
		}
		return h.ready(1, 1)()
	})

	must(t, h.c.Create(t.Context(), object(t, ns, "kind: EtcdBackup\nmetadata: {name: b}\nspec: {cluster: main, keepFor: 90d}")))
	lives := 0
	done := func(name string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			mortal, _ := operator(h.c, lives, nil)
			lives++
			_, err := mortal.Backups().Reconcile(ctx, ctrl.Request{NamespacedName: h.key(name)})
			if is := h.backup(name).Status; err != nil || is.Phase != v1alpha1.Done {
				return errors.Join(err, fmt.Errorf("it is %+v", is))
			}
			return nil
		}
	}
	within(t, time.Minute, "the backup is taken", done("b"))
	all := d.backups()
	if len(all) != 1 || all[0].Name != h.backup("b").Status.Backup || all[0].KeepUntil.Sub(all[0].At).Round(time.Minute) != 90*24*time.Hour {
		t.Fatalf("there are %+v, and the status is %+v", all, h.backup("b").Status)
	}

	past := time.Now().UTC().AddDate(0, -1, 0)
	older := func(day int) string { return past.AddDate(0, 0, -day).Format(time.RFC3339) + "-000001" }
	d.ages(all[0].Name, older(0), true)
	d.ages(all[0].Name, older(1), false)
	must(t, h.c.Create(t.Context(), object(t, ns, "kind: EtcdBackupSchedule\nmetadata: {name: often}\nspec: {cluster: main, schedule: \"* * * * *\"}")))
	later := time.Now().Add(time.Minute)
	soon, _ := operator(h.c, -1, func() time.Time { return later })
	_, err := (&reconcile.Schedules{Reconciler: soon}).Reconcile(t.Context(), ctrl.Request{NamespacedName: h.key("often")})
	must(t, err)
	made := h.scheduled()
	if len(made) != 2 {
		t.Fatalf("there are the EtcdBackups %v", made)
	}
	within(t, time.Minute, "the scheduled backup is taken", done(made[1]))
	within(t, time.Minute, "the twin is pruned", func(context.Context) error {
		var names []string
		for _, b := range d.backups() {
			names = append(names, b.Name)
		}
		if slices.Contains(names, older(1)) {
			return fmt.Errorf("there are %v", names)
		}
		if len(names) != 3 || !slices.Contains(names, older(0)) {
			t.Errorf("there are %v", names)
		}
		return nil
	})
}
