package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/reconcile"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
)

// kubectlExec stands in for kubectl exec, into the name spaces of the kubelet's containers; while the file patience is there, what runs
// longer than it says is killed.
func (k *kubelet) kubectlExec(t *testing.T) (patience string) {
	t.Helper()
	dir := t.TempDir()
	patience = filepath.Join(dir, "patience")
	must(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte(`#!/bin/sh
while [ "$1" != exec ]; do shift; done
host=${3%-0}
shift 7
for a in "$@"; do
  case $a in --data-dir=*) a=--data-dir=`+k.dir+`/$host;; esac
  set -- "$@" "$a"
  shift
done
unshared=$(cat `+k.dir+`/$host.pid)
pid=$(cat /proc/$unshared/task/$unshared/children)
limit=300
[ -f `+patience+` ] && limit=$(cat `+patience+`)
exec timeout --signal=KILL $limit nsenter --target ${pid% } --mount --pid -- `+k.program+` "$@"
`), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return patience
}

// takeOver is a cluster that is being adopted, with its operator and its daemons.
type takeOver struct {
	*hand
	k        *kubelet
	r        *reconcile.Reconciler
	old      *foreign
	patience string // see kubectlExec
	backups  string
}

// takesOver runs the cluster that is to be adopted, with TLS or without, and what is to adopt it.
func takesOver(t *testing.T, secure bool) *takeOver {
	t.Helper()
	_, ns := server(t)
	a := &takeOver{hand: &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}, backups: t.TempDir()}
	a.k = daemons(t, a.hand)
	a.k.store = "file://" + a.backups
	a.old = runsElsewhere(t, a.k, secure)
	a.r, _ = operator(a.c, -1, nil)
	return a
}

// ours are where the hosts serve clients.
func (a *takeOver) ours() (urls []string) {
	for n := 1; n <= 3; n++ {
		urls = append(urls, fmt.Sprintf("https://%s:%d", a.k.address(n), shape.PortClient))
	}
	return urls
}

func (a *takeOver) settled(limit time.Duration, what string, holds func() error) {
	a.t.Helper()
	began := time.Now()
	within(a.t, limit, what, func(ctx context.Context) error {
		if _, err := a.r.Reconcile(ctx, request(a.hand)); err != nil {
			a.t.Logf("%s: %v", what, err)
		}
		if err := a.k.turn(ctx); err != nil && !apierrors.IsConflict(err) {
			return err
		}
		return holds()
	})
	a.t.Logf("%s: %s", what, time.Since(began).Round(time.Second))
}

// adopt runs the plugin, while operator and daemons go on.
func (a *takeOver) adopt(what string, more ...string) (code int, said string) {
	a.t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		is, out, errs := kubectlEtcdadm(a.t, a.ns, "", append([]string{"adopt", a.name, "--endpoints=" + strings.Join(a.old.urls, ","), "--yes", "--wait=1m"}, more...)...)
		code, said = is, out+errs
	}()
	a.settled(6*time.Minute, what, func() error {
		select {
		case <-ended:
			return nil
		default:
			return errors.New("it runs")
		}
	})
	a.t.Logf("%s ends with %d:\n%s", what, code, said)
	return code, said
}

// killed has the plugin's command killed in the middle of it, a little later each time, and another operator go on.
func (a *takeOver) killed() {
	for i := range 4 {
		must(a.t, os.WriteFile(a.patience, []byte(strconv.Itoa(3+i)), 0o600))
		code, said := a.adopt("killed in the middle")
		if code == 0 {
			a.t.Fatal("nothing was killed")
		}
		if a.r, _ = operator(a.c, -1, nil); strings.Contains(said, "Host 2 of 3") {
			break
		}
	}
	must(a.t, os.Remove(a.patience))
}

// begins makes the EtcdCluster, whose authorities come late, and takes spec.bootstrap away again: nothing is founded.
func (a *takeOver) begins() {
	must(a.t, a.c.Create(a.t.Context(), object(a.t, a.ns, etcdCluster("main", `size: 3, version: 3.7.3, storage: {size: 1Gi}, replaceAfter: 1m, backup: {store: "s3://b/`+a.ns+`", interval: 0s}, bootstrap: `+a.old.begins))))
	a.settled(time.Minute, "the Secret is missing", a.waits("BootstrapWaits", "the Secret old-ca"))
	must(a.t, a.c.Create(a.t.Context(), a.old.secret(a.ns, "old-ca")))
	a.settled(2*time.Minute, "hosts run", func() error {
		return errors.Join(a.waits("Adopting", "kubectl etcdadm adopt main")(), a.k.run(3))
	})
	a.patch(`{"spec":{"bootstrap":null}}`)
	until := time.Now().Add(10 * time.Second)
	a.settled(time.Minute, "nothing is founded", func() error {
		if spec, err := record.Of(a.control(), nil).Folder("").ReadSpec(a.t.Context()); err != nil || spec.Spec != nil {
			a.t.Fatalf("a spec was written: %+v, %v", spec.Spec, err)
		}
		if time.Now().Before(until) {
			return errors.New("not long enough")
		}
		return a.waits("Adopting", "no host has joined")()
	})
}

// A running cluster of three members, which something else runs with TLS, goes over into pods under writes: nothing that was
// acknowledged is lost, and its ID stays. spec.bootstrap is taken away first, the command is killed in the middle, and another
// operator goes on; nobody founds a cluster, and no host is stopped.
func TestAdopt(t *testing.T) {
	a := takesOver(t, true)
	a.begins()
	before, err := a.old.members(a.old.urls[0])
	must(t, err)
	ours := a.ours()
	w := a.old.load(slices.Concat(a.old.urls, ours))
	a.patience = a.k.kubectlExec(t)
	a.wrongVersion()
	a.killed()
	a.patch(`{"spec":{"hibernate":true}}`)
	a.settled(time.Minute, "no host is stopped in the middle", a.waits("Adopting", "spec.hibernate waits"))
	a.asksInVain()
	a.patch(`{"spec":{"hibernate":false}}`)
	if code, _ := a.adopt("all but the removals", "--keep"); code != 0 {
		t.Fatal("not all have joined")
	}
	must(t, os.WriteFile(a.patience, []byte("3"), 0o600))
	a.adopt("killed in the removals")
	must(t, os.Remove(a.patience))
	if code, _ := a.adopt("adopted"); code != 0 {
		t.Fatal("the adoption has not ended")
	}
	a.settled(3*time.Minute, "ready", a.ready(3, 3))
	w.end()
	t.Logf("%d writes were acknowledged, %d were tried again", w.count(), w.retried)
	a.whole(w, before.Header.Cluster, ours)
	if _, is := a.control().Annotations[shape.AnnotationAdopt]; is {
		t.Error("the adoption is not over")
	}
	if made, err := os.ReadDir(a.backups); err != nil || len(made) == 0 {
		t.Errorf("no backup was taken before the change: %v", err)
	}
	if len(a.k.deleted) > 0 {
		t.Errorf("stopped were %v", a.k.deleted)
	}
}

// The same of a cluster without TLS: its members speak without it with the hosts that join, and clients of ours with; once it is ours,
// TLS is turned on between the members.
func TestAdoptWithoutTLS(t *testing.T) {
	a := takesOver(t, false)
	must(t, a.c.Create(t.Context(), object(t, a.ns, etcdCluster("main", `size: 3, version: 3.7.3, storage: {size: 1Gi}, backup: {store: "s3://b/`+a.ns+`", interval: 0s}, bootstrap: `+a.old.begins))))
	a.settled(2*time.Minute, "hosts run", func() error {
		return errors.Join(a.waits("Adopting", "kubectl etcdadm adopt main")(), a.k.run(3))
	})
	before, err := a.old.members(a.old.urls[0])
	must(t, err)
	ours := a.ours()
	w := a.old.load(slices.Concat(a.old.urls, ours))
	a.patience = a.k.kubectlExec(t)
	code, said := a.adopt("all but the removals", "--keep")
	for began := time.Now(); code == 13 && time.Since(began) < time.Minute; { // pods say it, and daemons begin, in a moment
		code, said = a.adopt("all but the removals", "--keep")
	}
	if code != 0 || !strings.Contains(said, "Host 3 of 3") {
		t.Fatal("not all have joined")
	}
	a.r, _ = operator(a.c, -1, nil)
	if code, said := a.adopt("adopted"); code != 0 || !strings.Contains(said, "turn TLS on between the members") {
		t.Fatal("the adoption has not ended, or says nothing of TLS")
	}
	a.settled(3*time.Minute, "ready, with TLS between the members", func() error {
		l, err := a.old.members(ours[0])
		if err != nil {
			return err
		}
		for _, m := range l.Members {
			if !strings.HasPrefix(m.Peers[0], "https:") {
				return fmt.Errorf("%s is listed at %s", m.Name, m.Peers)
			}
		}
		return a.ready(3, 3)()
	})
	w.end()
	t.Logf("%d writes were acknowledged, %d were tried again", w.count(), w.retried)
	a.whole(w, before.Header.Cluster, ours)
	if _, is := a.control().Annotations[shape.AnnotationAdopt]; is || len(a.k.deleted) > 0 {
		t.Errorf("the adoption is not over, or hosts were stopped: %v", a.k.deleted)
	}
}

// wrongVersion: an EtcdCluster of another minor release than the members' is refused before anything is written.
func (a *takeOver) wrongVersion() {
	a.patch(`{"spec":{"version":"3.6.16"}}`)
	code, said := a.adopt("another minor release")
	if code != 12 || !strings.Contains(said, "to 3.7.3, adopt, and then change it") {
		a.t.Errorf("another minor release: %d, %s", code, said)
	}
	if j, _, err := record.Of(a.control(), nil).Folder("").ReadJoining(a.t.Context()); j != nil || err != nil {
		a.t.Errorf("something was written: %+v, %v", j, err)
	}
	a.patch(`{"spec":{"version":"3.7.3"}}`)
}

// asksInVain: neither a backup nor a restore is handed to the daemons in the middle.
func (a *takeOver) asksInVain() {
	must(a.t, a.c.Create(a.t.Context(), object(a.t, a.ns, "kind: EtcdBackup\nmetadata: {name: early}\nspec: {cluster: main}")))
	must(a.t, a.c.Create(a.t.Context(), object(a.t, a.ns, "kind: EtcdRestore\nmetadata: {name: early}\nspec: {cluster: main, source: {newestProven: true}}")))
	within(a.t, time.Minute, "the requests wait", func(ctx context.Context) error {
		early := ctrl.Request{NamespacedName: a.key("early")}
		_, err := a.r.Backups().Reconcile(ctx, early)
		_, other := a.r.Restores().Reconcile(ctx, early)
		if err := errors.Join(err, other); err != nil {
			return err
		}
		restore := &v1alpha1.EtcdRestore{}
		must(a.t, a.c.Get(ctx, early.NamespacedName, restore))
		for _, s := range []v1alpha1.RequestStatus{a.backup("early").Status, restore.Status} {
			if s.Phase != v1alpha1.Queued || s.Command != "" || !strings.Contains(s.Reason, "before it is adopted") {
				return fmt.Errorf("%+v", s)
			}
		}
		return nil
	})
	queued, err := record.Of(a.control(), nil).Folder("").Commands(a.t.Context())
	if err != nil || len(queued) > 0 {
		a.t.Errorf("queued are %+v, %v", queued, err)
	}
}

// whole says of each of ours that it has all writes, in the cluster that was, whose members are ours alone.
func (a *takeOver) whole(w *load, id string, ours []string) {
	for _, url := range ours {
		l, err := a.old.members(url)
		must(a.t, err)
		var names []string
		for _, m := range l.Members {
			names = append(names, m.Name)
			if m.Learner {
				a.t.Errorf("%s is a learner", m.Name)
			}
		}
		if slices.Sort(names); l.Header.Cluster != id || strings.Join(names, " ") != "main-1 main-2 main-3" {
			a.t.Errorf("cluster %s of %v, and it was %s", l.Header.Cluster, names, id)
		}
		if lost := w.lost(url); len(lost) > 0 || w.count() < 100 {
			a.t.Errorf("at %s %d of %d writes are lost: %v", url, len(lost), w.count(), lost[:min(5, len(lost))])
		}
	}
}

func (h *hand) control() *corev1.ConfigMap {
	m := &corev1.ConfigMap{}
	must(h.t, h.c.Get(h.t.Context(), h.key(h.name+"-control"), m))
	return m
}

// run says that the containers of so many hosts run.
func (k *kubelet) run(hosts int) error {
	if len(k.runs) != hosts {
		return fmt.Errorf("%d hosts run", len(k.runs))
	}
	return nil
}
