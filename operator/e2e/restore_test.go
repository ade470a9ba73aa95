package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/reconcile"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restoresWithin is for a restore with what comes after it, on a machine with other work.
const restoresWithin = 4 * time.Minute

// settled runs the hand until what is wanted holds; the operator runs by itself.
func (h *hand) settled(limit time.Duration, what string, holds func() error) {
	h.t.Helper()
	within(h.t, limit, what, func(ctx context.Context) error {
		if err := h.turn(ctx); err != nil {
			return fmt.Errorf("the hand: %w", err)
		}
		return holds()
	})
	h.t.Logf("%s: %s", time.Now().Format(time.TimeOnly), what)
}

// restore applies an EtcdRestore, and gives its status once it ended.
func (h *hand) restore(name, spec string) v1alpha1.RequestStatus {
	h.t.Helper()
	return h.restored(fmt.Sprintf("kind: EtcdRestore\nmetadata: {name: %s}\nspec: {cluster: %s, %s}", name, h.name, spec))
}

func (h *hand) restored(text string) v1alpha1.RequestStatus {
	h.t.Helper()
	o := object(h.t, h.ns, text)
	must(h.t, h.c.Create(h.t.Context(), o))
	r, said := &v1alpha1.EtcdRestore{}, []string{}
	h.settled(restoresWithin, "restore "+o.GetName()+" ended", func() error {
		if err := h.c.Get(h.t.Context(), h.key(o.GetName()), r); err != nil {
			return err
		}
		if say := r.Status.Phase + ": " + r.Status.Reason; len(said) == 0 || said[len(said)-1] != say {
			said = append(said, say)
		}
		if r.Status.Phase != v1alpha1.Done && r.Status.Phase != v1alpha1.Failed {
			return fmt.Errorf("%+v", r.Status)
		}
		return nil
	})
	h.t.Logf("%s:\n%s", o.GetName(), strings.Join(said, "\n"))
	return r.Status
}

// withdrawn applies an EtcdRestore, and takes it back before it has begun.
func (h *hand) withdrawn(m *machines, text string) {
	h.t.Helper()
	o, r := object(h.t, h.ns, text), &v1alpha1.EtcdRestore{}
	must(h.t, h.c.Create(h.t.Context(), o))
	for _, phase := range []string{v1alpha1.Queued, v1alpha1.Failed} {
		h.settled(time.Minute, "it is "+phase, func() error {
			if err := h.c.Get(h.t.Context(), h.key(o.GetName()), r); err != nil || r.Status.Phase != phase || r.Status.Command == "" {
				return fmt.Errorf("%+v: %w", r.Status, err)
			}
			return nil
		})
		if phase == v1alpha1.Queued {
			m.exec("main-1", "queue", "cancel", r.Status.Command, "--yes")
		}
	}
	if !strings.Contains(r.Status.Reason, "it was taken out of the queue") {
		h.t.Errorf("%+v", r.Status)
	}
}

// backed takes a backup, and gives its name.
func (h *hand) backed(name string) string {
	h.t.Helper()
	must(h.t, h.c.Create(h.t.Context(), etcdBackup(h.t, h.ns, name)))
	h.settled(time.Minute, "backup "+name, func() error {
		if is := h.backup(name).Status; is.Phase != v1alpha1.Done {
			return fmt.Errorf("%+v", is)
		}
		return nil
	})
	return h.backup(name).Status.Backup
}

func (h *hand) generation(want int64) {
	h.t.Helper()
	h.settled(restoresWithin, fmt.Sprintf("ready in generation %d", want), func() error {
		c := h.condition(v1alpha1.Ready)
		if is := h.see().Status.Generation; is != want || c.Status != "True" {
			return fmt.Errorf("it is generation %d, %s: %s", is, c.Reason, c.Message)
		}
		return nil
	})
}

// offered is the EtcdRestore that the blocker of a code shows.
func (h *hand) offered(limit time.Duration, code string) (text string) {
	h.t.Helper()
	h.settled(limit, "an EtcdRestore is shown", func() error {
		ec := h.see()
		for _, b := range ec.Status.Blockers {
			_, after, found := strings.Cut(b.Command, "<<'END'\n")
			if b.Code == code && found && strings.HasPrefix(b.Command, "kubectl create -f - ") {
				text, _, _ = strings.Cut(after, "\nEND")
				return nil
			}
		}
		return fmt.Errorf("%+v %+v", ec.Status.Blockers, ec.Status.Hosts)
	})
	h.t.Logf("\n%s", text)
	return text
}

// An EtcdRestore is carried out once, although the operator is killed after each of its writes; and while its cluster is paused
// it says so, and nothing begins. So is one whose backup is copied first.
func TestRestoreOnceThoughKilled(t *testing.T) {
	for name, source := range map[string]string{"own": "source: {backup: one}", "from": "source: {backup: one}, from: {store: \"s3://b/other\", credentials: {name: other}}"} {
		t.Run(name, func(t *testing.T) { restoredOnce(t, source) })
	}
}

func restoredOnce(t *testing.T, source string) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	lives, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", "size: 1, version: 3.6.16, storage: {size: 1Gi}, backup: {store: \"s3://b/"+ns+"\"}"))))
	must(t, h.settle(lives, "create", h.ready(1, 1)))
	must(t, h.c.Create(t.Context(), object(t, ns, "kind: EtcdRestore\nmetadata: {name: r}\nspec: {cluster: main, replaces: 1, "+source+"}")))
	must(t, h.c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "other"}}))
	look := func(r *reconcile.Reconciler) (v1alpha1.RequestStatus, error) {
		_, err := r.Restores().Reconcile(t.Context(), ctrl.Request{NamespacedName: h.key("r")})
		is := &v1alpha1.EtcdRestore{}
		must(t, h.c.Get(t.Context(), h.key("r"), is))
		return is.Status, err
	}
	h.patch(`{"spec":{"paused":true}}`)
	if is, err := look(lives); err != nil || is.Phase != v1alpha1.Queued || is.Command != "" || !strings.Contains(is.Reason, "spec.paused is true") {
		t.Errorf("beside a cluster that is paused: %+v, %v", is, err)
	}
	must(t, h.turn(t.Context()))
	h.patch(`{"spec":{"paused":false}}`)
	killed := 0
	for writes := 0; ; writes++ {
		r, _ := operator(h.c, writes%3, nil)
		is, err := look(r)
		if is.Phase == v1alpha1.Done {
			break
		}
		if errors.Is(err, errKilled) {
			killed++
		} else {
			must(t, err)
		}
		must(t, h.turn(t.Context()))
		if writes > 20 {
			t.Fatalf("%+v", is)
		}
	}
	if killed == 0 {
		t.Error("no operator was killed")
	}
	for range 2 {
		_, err := look(lives)
		must(t, err)
		must(t, h.turn(t.Context()))
	}
	must(t, h.settle(lives, "ready", h.ready(1, 1)))
	if n, is := len(h.ended()), h.see().Status.Generation; n != 1 || is != 2 {
		t.Errorf("%d commands ended, and it is generation %d", n, is)
	}
	if jobs, err := h.jobs(t.Context()); err != nil || len(jobs) != strings.Count(source, "from") {
		t.Errorf("%d Jobs, %v", len(jobs), err)
	}
}

// Of two EtcdRestores for one generation one is asked for. The other one waits until that ended, and is carried out no more,
// whatever the clocks say.
func TestRestoresInTurn(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	r, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, ns, withStore(ns))))
	must(t, h.settle(r, "create", h.ready(1, 1)))
	look := func(name string) v1alpha1.RequestStatus {
		t.Helper()
		_, err := r.Restores().Reconcile(t.Context(), ctrl.Request{NamespacedName: h.key(name)})
		must(t, err)
		is := &v1alpha1.EtcdRestore{}
		must(t, h.c.Get(t.Context(), h.key(name), is))
		return is.Status
	}
	for _, name := range []string{"a", "b"} {
		must(t, h.c.Create(t.Context(), object(t, ns, "kind: EtcdRestore\nmetadata: {name: "+name+"}\nspec: {cluster: main, replaces: 1, source: {backup: of-"+name+"}}")))
	}
	a := look("a")
	if b := look("b"); a.Command == "" || b.Command != "" || b.Phase != v1alpha1.Queued || !strings.Contains(b.Reason, "command "+a.Command+", which asks for a generation too, comes first") {
		t.Fatalf("%+v beside %+v", b, a)
	}
	must(t, h.turn(t.Context()))
	if b := look("b"); b.Phase != v1alpha1.Failed || !strings.Contains(b.Reason, "generation 1 was given up already") {
		t.Errorf("%+v", b)
	}
	if n := len(h.ended()); n != 1 {
		t.Errorf("%d commands ended", n)
	}
}

// A cluster of real daemons: a backup is restored into it while it runs, and that is undone; the same EtcdRestore again does
// nothing, nor does one that names another generation; all data is lost, and comes back by what the EtcdCluster shows; two of
// three hosts are lost, and it goes on from the third.
func TestRestores(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	m := withDaemons(h)
	_, leads := manager(t, kube.config, ns, "one")
	<-leads
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", plain+`, replaceAfter: 30s, backup: {store: "s3://b/`+ns+`"}`))))
	h.generation(1)
	m.put("k", "kept")
	name := h.backed("first")
	m.put("k", "undone")

	if s := h.restore("back", "replaces: 1, source: {backup: "+name+"}"); s.Phase != v1alpha1.Done || s.Backup != name {
		t.Fatalf("%+v", s)
	}
	m.has("k", "kept")
	h.generation(2)
	status := m.exec("main-2", "status")
	aside := regexp.MustCompile(`(?m)^set aside on (main-[0-9]): (\S+) \(superseded`).FindAllStringSubmatch(status, -1)
	if len(aside) != 3 || !strings.Contains(m.exec("main-3", "backup", "list"), name) {
		t.Fatalf("not all hosts set their data aside, or no backup is listed:\n%s", status)
	}
	undo := ""
	for _, a := range aside { // only what goes furthest is gone back to
		undo = fmt.Sprintf("replaces: 2, source: {setAside: {host: %s, dir: %s}}", a[1], a[2])
		s := h.restore("undo-"+a[1], undo)
		if s.Phase == v1alpha1.Done {
			break
		}
		if !strings.Contains(s.Reason, "goes further") {
			t.Fatalf("%+v", s)
		}
	}
	m.has("k", "undone")
	h.generation(3)
	m.put("k", "later")

	must(t, h.c.DeleteAllOf(t.Context(), &v1alpha1.EtcdRestore{}, client.InNamespace(ns)))
	if s := h.restore("again", undo); s.Phase != v1alpha1.Done || !strings.Contains(s.Reason, "nothing is done") {
		t.Errorf("applied again: %+v", s)
	}
	for what, test := range map[string]struct{ spec, says string }{
		"former":  {"replaces: 1, source: {survivor: main-1}", "replaces: 3"},
		"missing": {"source: {backup: " + name + "}", "replaces: 3"},
		"future":  {"replaces: 7, source: {newestProven: true}", "replaces: 3"},
		"other":   {"replaces: 3, source: {backup: 2020-01-01T00:00:00Z-000001}", "there is no backup"},
	} {
		if s := h.restore(what, test.spec); s.Phase != v1alpha1.Failed || !strings.Contains(s.Reason, test.says) {
			t.Errorf("%s: %+v", what, s)
		}
	}
	m.has("k", "later")
	h.generation(3)

	name = h.backed("second")
	m.put("k", "undone")
	for _, host := range []string{"main-1", "main-2", "main-3"} {
		m.off[host] = true
		m.kill(host)
		m.wipe(host)
	}
	clear(m.off)
	text := h.offered(2*time.Minute, "no-members")
	if s := h.restored(text); s.Phase != v1alpha1.Done || s.Backup != name {
		t.Fatalf("%+v", s)
	}
	m.has("k", "later")
	h.generation(4)

	m.put("k", "survives")
	for _, host := range []string{"main-2", "main-3"} {
		m.off[host] = true
		m.lose(host)
	}
	text = h.offered(restoresWithin, "no-quorum")
	if !strings.Contains(text, `survivor: "main-1"`) || !strings.Contains(text, `lost: ["main-2", "main-3"]`) || !strings.Contains(text, "replaces: 4") {
		t.Errorf("it is\n%s", text)
	}
	h.withdrawn(m, text)
	if s := h.restored(text); s.Phase != v1alpha1.Done {
		t.Fatalf("%+v", s)
	}
	m.has("k", "survives")
	h.generation(5)
}

// Every volume is gone. Another host takes the place, holds nothing, and the EtcdCluster shows the backup to restore and whom
// to give up.
func TestAllVolumesLost(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	m := withDaemons(h)
	_, leads := manager(t, kube.config, ns, "one")
	<-leads
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", "size: 1, version: 3.7.3, storage: {size: 8Gi}, backup: {store: \"s3://b/"+ns+"\"}"))))
	h.generation(1)
	m.put("k", "kept")
	name := h.backed("first")
	m.off["main-1"] = true
	m.lose("main-1")
	text := h.offered(restoresWithin, "no-quorum")
	if !strings.Contains(text, `source: {backup: "`+name+`"}`) || !strings.Contains(text, `lost: ["main-1"]`) {
		t.Errorf("it is\n%s", text)
	}
	if c := h.condition(v1alpha1.Available); c.Reason != "NoQuorum" && c.Reason != "NoMembers" || !strings.Contains(c.Message, "status.blockers has what to do") {
		t.Errorf("%+v", c)
	}
	if s := h.restored(text); s.Phase != v1alpha1.Done || s.Backup != name {
		t.Fatalf("%+v", s)
	}
	m.has("k", "kept")
	h.generation(2)
}

// The machine of the only voter burned with its volume, and the claim is Bound for all that Kubernetes knows. What the EtcdCluster
// shows has a person give the claim up first, and then restores the backup; the claim goes after that.
func TestVolumesLostBehindClaims(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	m := withDaemons(h)
	_, leads := manager(t, kube.config, ns, "one")
	<-leads
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", "size: 1, version: 3.7.3, storage: {size: 8Gi}, replaceAfter: 30s, backup: {store: \"s3://b/"+ns+"\"}"))))
	h.generation(1)
	m.put("k", "kept")
	name := h.backed("first")
	h.settled(time.Minute, "the backup is told", func() error {
		if is := h.see().Status.LastBackup; is == nil || is.Name != name {
			return fmt.Errorf("%+v", is)
		}
		return nil
	})
	m.off["main-1"] = true
	m.kill("main-1")
	m.wipe("main-1")
	pod := &corev1.Pod{}
	must(t, h.c.Get(t.Context(), h.key("main-1-0"), pod))
	tells(pod, corev1.ContainerStatus{Name: shape.ContainerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}})
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable})
	must(t, h.c.Status().Update(t.Context(), pod))
	h.settled(time.Minute, "the pod does not run", func() error {
		is := h.see().Status
		if slices.ContainsFunc(is.Blockers, func(b v1alpha1.Blocker) bool { return strings.Contains(b.Command, "delete") }) {
			t.Fatalf("words of a moment ago are enough to give a volume up: %+v", is.Blockers)
		}
		if !slices.ContainsFunc(is.Blockers, func(b v1alpha1.Blocker) bool { return strings.Contains(b.Sentence, corev1.PodReasonUnschedulable) }) {
			return fmt.Errorf("%+v", is.Blockers)
		}
		return nil
	})
	h.age(20 * time.Minute)
	h.settled(time.Minute, "it is asked whether the volume is gone", func() error {
		for _, b := range h.see().Status.Blockers {
			if b.Code == "no-quorum" && b.Command == "kubectl --namespace="+ns+" delete --wait=false persistentvolumeclaims main-1" && strings.Contains(b.Sentence, "gone for good, and only then") {
				return nil
			}
		}
		return fmt.Errorf("%+v %+v", h.see().Status.Blockers, h.see().Status.Hosts)
	})
	claim := &corev1.PersistentVolumeClaim{}
	must(t, h.c.Get(t.Context(), h.key("main-1"), claim))
	must(t, h.c.Delete(t.Context(), claim))
	text := h.offered(2*time.Minute, "no-quorum")
	if s := h.restored(text); s.Phase != v1alpha1.Done || s.Backup != name || !strings.Contains(text, `lost: ["main-1"]`) {
		t.Fatalf("%+v by\n%s", s, text)
	}
	m.has("k", "kept")
	h.generation(2)
	h.settled(time.Minute, "the claim is gone", func() error {
		if err := h.c.Get(t.Context(), h.key("main-1"), claim); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// A new cluster begins with a backup of another one, by name or with the newest that is proven; it does not begin empty where
// there is none.
func TestBeginsWithABackup(t *testing.T) {
	_, ns := server(t)
	h := &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
	m := withDaemons(h)
	_, leads := manager(t, kube.config, ns, "one")
	<-leads
	const one = "size: 1, version: 3.7.3, storage: {size: 8Gi}"
	must(t, h.c.Create(t.Context(), object(t, ns, etcdCluster("main", one+`, backup: {store: "s3://b/`+ns+`", drillInterval: 2s}`))))
	h.generation(1)
	m.put("k", "kept")
	name := h.backed("first")
	h.settled(time.Minute, "it is proven", func() error {
		if is := h.see().Status.ProvenBackup; is == nil || is.Name != name {
			return fmt.Errorf("%+v", is)
		}
		return nil
	})
	for host := range m.pods {
		m.kill(host)
	}

	for to, from := range map[string]string{"named": "backup: 2020-01-01T00:00:00Z-000001", "proven": "newestProven: true"} {
		n := &hand{t: t, c: h.c, ns: ns, name: to, silent: map[string]bool{}}
		nm := withDaemons(n)
		must(t, os.MkdirAll(filepath.Join(nm.dir, "stores", "b"), 0o700))
		must(t, exec.CommandContext(t.Context(), "cp", "-r", filepath.Join(m.dir, "stores", "b", ns), filepath.Join(nm.dir, "stores", "b", ns+to)).Run())
		must(t, n.c.Create(t.Context(), object(t, ns, etcdCluster(to, strings.Replace(one, "1", "3", 1)+fmt.Sprintf(", backup: {store: \"s3://b/%s\"}, bootstrap: {restore: {%s}}", ns+to, from)))))
		if to == "named" { // a wrong name first
			n.settled(time.Minute, "the backup is not there", n.blocked("BootstrapFailed"))
			if is := n.see().Status.Generation; is != 0 {
				t.Errorf("it began as generation %d", is)
			}
			must(t, n.c.Patch(t.Context(), n.see(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"bootstrap":{"restore":{"backup":"`+name+`"}}}}`))))
		}
		n.generation(1)
		nm.has("k", "kept")
	}
}
