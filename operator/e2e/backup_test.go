package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/reconcile"
	"etcdadm.io/operator/record"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
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

const oneWithStore = "size: 1, version: 3.6.16, storage: {size: 1Gi}, backup: {store: \"s3://b/"

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
	h.patch(`{"spec":{"backup":{"store":"s3://b/waits"}}}`)
	must(t, h.settleBackup(r, "b", v1alpha1.Queued, "no host runs that has the store"))
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
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", oneWithStore+"once\"}"))))
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

// A command that a person takes out of the queue is not asked for again.
func TestBackupTakenOut(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", oneWithStore+"out\"}"))))
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
