package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/reconcile"
	"etcdadm.io/operator/record"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func etcdBackup(t *testing.T, ns, name string) *unstructured.Unstructured {
	return object(t, ns, "kind: EtcdBackup\nmetadata: {name: "+name+"}\nspec: {cluster: main}")
}

func (h *hand) backup(name string) *v1alpha1.EtcdBackup {
	b := &v1alpha1.EtcdBackup{}
	must(h.t, h.c.Get(h.t.Context(), h.key(name), b))
	return b
}

// settleBackup runs the operator's loop for an EtcdBackup, and the hand, until it is so far.
func (h *hand) settleBackup(r *reconcile.Reconciler, name, phase, says string) error {
	var is v1alpha1.RequestStatus
	for range 10 {
		if _, err := r.Backups().Reconcile(h.t.Context(), ctrl.Request{NamespacedName: h.key(name)}); err != nil {
			return err
		}
		if is = h.backup(name).Status; is.Phase == phase && strings.Contains(is.Reason, says) {
			return nil
		}
		if err := h.turn(h.t.Context()); err != nil {
			return fmt.Errorf("the hand: %w", err)
		}
	}
	return fmt.Errorf("EtcdBackup %s is not %s (%s): %+v", name, phase, says, is)
}

// ended are the commands that the daemons have ended.
func (h *hand) ended() []control.Ended {
	m := &corev1.ConfigMap{}
	must(h.t, h.c.Get(h.t.Context(), h.key(h.name+"-control"), m))
	all, err := record.Of(m, nil).Folder(clusterName(m, h)).EndedCommands(h.t.Context())
	must(h.t, err)
	return all
}

// withStore is a cluster of one member with a store that no other test's has.
func withStore(ns string) string {
	return etcdCluster("main", "size: 1, version: 3.6.16, storage: {size: 1Gi}, backup: {store: \"s3://b/"+ns+"\"}")
}

// A backup waits for a cluster that is not there yet, for its store, for the end of a pause and of its sleep, and is taken
// then; an EtcdBackup of a cluster that is being deleted fails. Each says why in words.
func TestBackupWaits(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), etcdBackup(t, ns, "b")))
	must(t, h.settleBackup(r, "b", v1alpha1.Queued, "there is no EtcdCluster main in this namespace"))
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", "size: 1, version: 3.6.16, storage: {size: 1Gi}"))))
	must(t, h.settleBackup(r, "b", v1alpha1.Queued, "it is not made yet"))
	must(t, h.settle(r, "create", h.ready(1, 1)))
	must(t, h.settleBackup(r, "b", v1alpha1.Queued, "names no store"))
	h.patch(`{"spec":{"backup":{"store":"s3://b/` + ns + `"}}}`)
	must(t, h.settleBackup(r, "b", v1alpha1.Queued, "until the operator has rolled each host"))
	h.patch(`{"spec":{"paused":true}}`)
	must(t, h.settleBackup(r, "b", v1alpha1.Queued, "spec.paused is true"))
	h.patch(`{"spec":{"paused":false,"hibernate":true}}`)
	must(t, h.settleBackup(r, "b", v1alpha1.Queued, "spec.hibernate is true"))
	if n := len(h.ended()); n > 0 {
		t.Fatalf("%d backups were taken", n)
	}
	h.patch(`{"spec":{"hibernate":false}}`)
	must(t, h.c.Delete(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "main-1"}}))
	must(t, h.settle(r, "a host with the store", h.ready(1, 1)))
	must(t, h.settleBackup(r, "b", v1alpha1.Done, ""))
	must(t, h.c.Delete(t.Context(), h.see()))
	must(t, h.c.Create(t.Context(), etcdBackup(t, ns, "late")))
	must(t, h.settleBackup(r, "late", v1alpha1.Failed, "EtcdCluster main is being deleted"))
}

// An operator that is killed after each of its calls has a backup taken once, and shows it in the end. A deleted EtcdBackup
// takes nothing back.
func TestBackupOnce(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, ns, withStore(ns))))
	must(t, h.settle(r, "create", h.ready(1, 1)))
	killed := 0
	for i := range 3 {
		name := fmt.Sprintf("b%d", i)
		must(t, h.c.Create(t.Context(), etcdBackup(t, ns, name)))
		for lives := i; ; lives++ { // and each one that follows lives for a call more
			mortal, _ := operator(h.c, lives, nil)
			err := h.settleBackup(mortal, name, v1alpha1.Done, "")
			if err == nil {
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			killed++
			must(t, h.turn(t.Context())) // the daemons go on meanwhile
		}
		b := h.backup(name)
		if ended := h.ended(); len(ended) != i+1 || ended[i].Name != b.Status.Command || b.Status.Backup != "a-backup" {
			t.Errorf("%+v shows %+v", ended, b.Status)
		}
		must(t, h.c.Delete(t.Context(), b))
	}
	if killed < 3 {
		t.Errorf("only %d operators were killed", killed)
	}
	if _, err := r.Backups().Reconcile(t.Context(), ctrl.Request{NamespacedName: h.key("b0")}); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
}

// A cache that lags has no EtcdBackup fail: that is for ever, and is said after a look past the cache.
func TestBackupCacheLags(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, ns, withStore(ns))))
	must(t, h.settle(r, "create", h.ready(1, 1)))
	old := 0
	r.Cached = interceptor.NewClient(r.Cached.(client.WithWatch), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		err := c.Get(ctx, key, o, opts...)
		if ec, is := o.(*v1alpha1.EtcdCluster); is { // the one before, of the same name
			old++
			ec.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		return err
	}})
	must(t, h.c.Create(t.Context(), etcdBackup(t, ns, "b")))
	must(t, h.settleBackup(r, "b", v1alpha1.Done, ""))
	if old == 0 {
		t.Error("the cache was not asked")
	}
}

// A command that a person takes out of the queue is not asked for again.
func TestBackupTakenOut(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, ns, withStore(ns))))
	must(t, h.settle(r, "create", h.ready(1, 1)))
	must(t, h.c.Create(t.Context(), etcdBackup(t, ns, "b")))
	must(t, h.settleBackup(r, "b", v1alpha1.Queued, "have not begun it"))
	m := &corev1.ConfigMap{}
	must(t, h.c.Get(t.Context(), h.key("main-control"), m))
	view := record.Of(m, nil)
	_, err := control.Withdraw(t.Context(), view.Folder(clusterName(m, h)), h.backup("b").Status.Command)
	must(t, err)
	must(t, h.c.Update(t.Context(), view.Control))
	must(t, h.settleBackup(r, "b", v1alpha1.Failed, "somebody took it out"))
	must(t, h.turn(t.Context()))
	if n := len(h.ended()); n > 0 {
		t.Errorf("%d backups were taken", n)
	}
}

func (h *hand) schedule() *v1alpha1.EtcdBackupSchedule {
	s := &v1alpha1.EtcdBackupSchedule{}
	must(h.t, h.c.Get(h.t.Context(), h.key("often"), s))
	return s
}

// scheduled are the EtcdBackups of the namespace, by their names, which sort by time.
func (h *hand) scheduled() (names []string) {
	all := &v1alpha1.EtcdBackupList{}
	must(h.t, h.c.List(h.t.Context(), all, client.InNamespace(h.ns)))
	for _, b := range all.Items {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return names
}

// A schedule has one backup taken at each of its times; one for all that passed while no operator ran, whenever that was
// killed; none while it is suspended, and none for then; and keeps a few of its objects. What is no schedule says so.
func TestSchedule(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	now := time.Now()
	clock := func() time.Time { return now }
	r, _ := operator(h.c, -1, clock)
	look := func(r *reconcile.Reconciler) error {
		for range 3 {
			if _, err := (&reconcile.Schedules{Reconciler: r}).Reconcile(t.Context(), ctrl.Request{NamespacedName: h.key("often")}); err != nil {
				return err
			}
		}
		return nil
	}
	must(t, h.c.Create(t.Context(), object(t, ns, withStore(ns))))
	must(t, h.settle(r, "create", h.ready(1, 1)))
	must(t, h.c.Create(t.Context(), object(t, ns, "kind: EtcdBackupSchedule\nmetadata: {name: often}\nspec: {cluster: main, schedule: \"* * * * *\", timeZone: Europe/Berlin, keepFor: 90d}")))
	now = h.schedule().CreationTimestamp.Time
	must(t, look(r))
	if s := h.schedule().Status; s.Phase != v1alpha1.ScheduleActive || s.NextTime == nil || len(h.scheduled()) > 0 {
		t.Fatalf("%+v, %v", s, h.scheduled())
	}
	for i := range 8 {
		now = now.Add(time.Duration(i+1) * time.Minute) // at first each time, then after ever longer absences
		for lives := 0; ; lives++ {
			mortal, _ := operator(h.c, lives, clock)
			err := look(mortal)
			if err == nil {
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
		}
		all := h.scheduled()
		if want := min(i+1, 6); len(all) != want {
			t.Fatalf("after %d absences there are %v", i+1, all)
		}
		newest := all[len(all)-1]
		if want := now.UTC().Truncate(time.Minute).Format("often-20060102-1504"); newest != want || h.backup(newest).Spec.KeepFor != "90d" {
			t.Errorf("made %s at %s: %+v", newest, now, h.backup(newest).Spec)
		}
		must(t, h.settleBackup(r, newest, v1alpha1.Done, ""))
		must(t, look(r))
	}
	if n := len(h.ended()); n != 8 {
		t.Errorf("%d backups were taken", n)
	}
	if all := h.scheduled(); len(all) != 5 {
		t.Errorf("there are %v", all)
	}

	set := func(spec string, phase, says string) {
		t.Helper()
		must(t, h.c.Patch(t.Context(), h.schedule(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{`+spec+`}}`))))
		must(t, look(r))
		if s := h.schedule().Status; s.Phase != phase || !strings.Contains(s.Reason, says) {
			t.Errorf("%s: %+v", spec, s)
		}
	}
	before := h.scheduled()
	set(`"suspend":true`, v1alpha1.ScheduleSuspended, "spec.suspend is true")
	now = now.Add(time.Hour)
	must(t, look(r))
	set(`"suspend":false`, v1alpha1.ScheduleActive, "")
	set(`"timeZone":"Europe/Bielefeld"`, v1alpha1.ScheduleRefused, "no time zone")
	set(`"timeZone":"UTC","schedule":"61 * * * *"`, v1alpha1.ScheduleRefused, "spec.schedule")
	if after := h.scheduled(); !slices.Equal(after, before) {
		t.Errorf("there were %v, and are %v", before, after)
	}
}
