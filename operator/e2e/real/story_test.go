package real

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"etcdadm.io/operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// three is a cluster that finds place on three nodes whatever happens.
func three() string { return "size: 3, version: " + *from + ", spread: Preferred" }

// TestLife is the life of a cluster under one load: no write of it may fail after one retry.
func TestLife(t *testing.T) {
	w := begins(t, "life", three())
	w.ready(2*time.Minute, 3, "applied to ready")
	l := w.uses("load")
	var before stats
	for _, s := range []struct {
		name string
		do   func()
	}{
		{"kill", func() {
			w.restarted(w.voter(false))
			w.ready(2*time.Minute, 3, "pod deleted to ready")
		}},
		{"kill the leading daemon", func() {
			kill(t, w.ns, w.voter(true), 0)
			w.ready(2*time.Minute, 3, "the leading daemon's pod killed to ready")
		}},
		{"kill operator and member", func() {
			must(t, kube.c.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(system), client.GracePeriodSeconds(0)))
			kill(t, w.ns, w.voter(false), 0)
			w.ready(2*time.Minute, 3, "both killed to ready")
		}},
		{"grow", func() {
			w.patch(`{"spec":{"size":5}}`)
			w.ready(3*time.Minute, 5, "3 to 5")
		}},
		{"shrink", func() {
			w.patch(`{"spec":{"size":3}}`)
			w.ready(3*time.Minute, 3, "5 to 3")
		}},
		{"upgrade", func() {
			w.patch(`{"spec":{"version":"` + *to + `"}}`)
			w.ready(5*time.Minute, 3, *from+" to "+*to)
		}},
		{"drain", func() {
			for _, node := range nodes(t) {
				w.drain(node)
			}
			w.ready(3*time.Minute, 3, "all nodes drained to ready")
		}},
		{"rotate", func() {
			w.patch(`{"spec":{"tls":{"rotate":1}}}`)
			w.rotated()
		}},
	} {
		s.do()
		before = l.since(before, s.name)
	}
	l.served()
}

// restarted deletes a pod, and says what its member takes beyond Kubernetes: from a container that runs to a pod that is ready.
func (w *world) restarted(name string) {
	w.t.Helper()
	old, now := &corev1.Pod{}, &corev1.Pod{}
	must(w.t, kube.c.Get(w.t.Context(), w.key(name), old))
	kill(w.t, w.ns, name, -1)
	began, runs := time.Now(), time.Time{}
	within(w.t, 2*time.Minute, name+" is ready again", func(ctx context.Context) error {
		if err := kube.c.Get(ctx, w.key(name), now); err != nil {
			return err
		}
		if len(now.Status.ContainerStatuses) == 0 || now.UID == old.UID {
			return errors.New("it is not there again")
		}
		if runs.IsZero() && now.Status.ContainerStatuses[0].State.Running != nil {
			runs = time.Now()
		}
		if !now.Status.ContainerStatuses[0].Ready {
			return errors.New("it is not ready")
		}
		return nil
	})
	w.t.Logf("pod deleted to a container that runs: %.1f s; to ready: %.1f s more", runs.Sub(began).Seconds(), time.Since(runs).Seconds())
}

// voter is the pod of a voter: of the leading daemon's host, or of another one.
func (w *world) voter(leads bool) string {
	w.t.Helper()
	ec, err := w.see(w.t.Context())
	must(w.t, err)
	for _, h := range ec.Status.Hosts {
		if h.Role == "voter" && h.Up && (h.Name == ec.Status.Leader) == leads {
			return h.Name + "-0"
		}
	}
	w.t.Fatalf("no such voter: %+v", ec.Status.Hosts)
	return ""
}

// drain evicts the cluster's pods from a node, as kubectl drain does, and lets it take pods again.
func (w *world) drain(node string) {
	w.t.Helper()
	cordon := func(ctx context.Context, off bool) error {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		return kube.c.Patch(ctx, n, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, off)))
	}
	must(w.t, cordon(w.t.Context(), true))
	defer func() { must(w.t, cordon(context.WithoutCancel(w.t.Context()), false)) }()
	within(w.t, 3*time.Minute, "drain "+node, func(ctx context.Context) error {
		pods, err := w.pods(ctx)
		if err != nil {
			return err
		}
		var left []error
		for _, p := range pods {
			if p.Spec.NodeName != node {
				continue
			}
			err := kube.c.SubResource("eviction").Create(ctx, &p, &policyv1.Eviction{})
			if !apierrors.IsNotFound(err) {
				left = append(left, fmt.Errorf("%s: evicted: %w", p.Name, err))
			}
		}
		return errors.Join(left...)
	})
	w.t.Logf("%s: drained", node)
}

// rotated waits for the end of a rotation.
func (w *world) rotated() {
	began, seen := time.Now(), false
	within(w.t, 15*time.Minute, "rotate the authorities", func(ctx context.Context) error {
		ec, err := w.see(ctx)
		if err != nil {
			return err
		}
		rotates := meta.IsStatusConditionTrue(ec.Status.Conditions, "Rotating")
		if seen = seen || rotates; !seen || rotates {
			return errors.New(words(ec))
		}
		return nil
	})
	w.t.Logf("rotated: %.0f s", time.Since(began).Seconds())
	w.ready(3*time.Minute, 3, "rotated to ready")
}

// TestBackupAndRestore takes a backup, goes on, and restores it. The same EtcdRestore made again restores nothing.
func TestBackupAndRestore(t *testing.T) {
	w := begins(t, "backup", "")
	w.begin(three() + ", backup: " + w.store())
	w.ready(2*time.Minute, 3, "applied to ready")
	l := w.uses("load")
	w.apply(`{apiVersion: etcdadm.io/v1alpha1, kind: EtcdBackup, metadata: {name: one}, spec: {cluster: main}}`)
	backup := w.done(&v1alpha1.EtcdBackup{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "one"}}, func(o client.Object) v1alpha1.RequestStatus { return o.(*v1alpha1.EtcdBackup).Status })
	l.ends()
	ec, err := w.see(t.Context())
	must(t, err)
	w.apply(fmt.Sprintf(`{apiVersion: etcdadm.io/v1alpha1, kind: EtcdRestore, metadata: {name: one}, spec: {cluster: main, replaces: %d, source: {backup: %q}}}`, ec.Status.Generation, backup))
	w.done(&v1alpha1.EtcdRestore{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "one"}}, func(o client.Object) v1alpha1.RequestStatus { return o.(*v1alpha1.EtcdRestore).Status })
	w.ready(2*time.Minute, 3, "restored to ready")
	w.apply(fmt.Sprintf(`{apiVersion: etcdadm.io/v1alpha1, kind: EtcdRestore, metadata: {name: again}, spec: {cluster: main, replaces: %d, source: {backup: %q}}}`, ec.Status.Generation, backup))
	again := &v1alpha1.EtcdRestore{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "again"}}
	if backup := w.done(again, func(o client.Object) v1alpha1.RequestStatus { return o.(*v1alpha1.EtcdRestore).Status }); backup != "" {
		t.Errorf("what replaces a generation that is gone restored %s: %s", backup, again.Status.Reason)
	}
	if now, err := w.see(t.Context()); err != nil || now.Status.Generation != ec.Status.Generation+1 {
		t.Errorf("generation %d after %d, %v", now.Status.Generation, ec.Status.Generation, err)
	}
}

// done waits for a backup or a restore, and says of which backup it was.
func (w *world) done(o client.Object, status func(client.Object) v1alpha1.RequestStatus) string {
	w.t.Helper()
	began := time.Now()
	within(w.t, 3*time.Minute, fmt.Sprintf("%T %s", o, o.GetName()), func(ctx context.Context) error {
		err := kube.c.Get(ctx, client.ObjectKeyFromObject(o), o)
		s := status(o)
		if s.Phase == v1alpha1.Failed {
			w.t.Fatalf("%s: %s", o.GetName(), s.Reason)
		}
		if err == nil && s.Phase != v1alpha1.Done {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})
	w.t.Logf("%T %s: %.1f s", o, o.GetName(), time.Since(began).Seconds())
	return status(o).Backup
}

// store runs an object store with an empty bucket, which is a directory that the second mount makes, and is what spec.backup says of it.
func (w *world) store() string {
	w.t.Helper()
	if *storeImage == "" {
		w.t.Skip("no -store-image: no store for backups")
	}
	w.apply(`{apiVersion: v1, kind: Secret, metadata: {name: store}, stringData: {AWS_ACCESS_KEY_ID: user, AWS_SECRET_ACCESS_KEY: password-of-a-test}}`)
	w.apply(`{apiVersion: v1, kind: Service, metadata: {name: store}, spec: {selector: {app: store}, ports: [{port: 7070}]}}`)
	w.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: store, labels: {app: store}}, spec: {terminationGracePeriodSeconds: 0,
  automountServiceAccountToken: false, securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}},
  containers: [{name: store, image: %q, imagePullPolicy: IfNotPresent, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}},
    args: ["--access=user", "--secret=password-of-a-test", "--port=:7070", "posix", "/store"],
    readinessProbe: {tcpSocket: {port: 7070}, periodSeconds: 1},
    volumeMounts: [{name: store, mountPath: /store}, {name: store, subPath: backups, mountPath: /bucket}]}],
  volumes: [{name: store, emptyDir: {}}]}}`, *storeImage))
	return `{store: "s3://backups/main?endpoint=http://store.` + w.ns + `.svc:7070&region=us-east-1&style=path", credentials: {name: store}, drillInterval: 1d}`
}

// TestQuorumLost takes a majority away: the pods alone, then with their volumes.
func TestQuorumLost(t *testing.T) {
	w := begins(t, "quorum", three())
	w.ready(2*time.Minute, 3, "applied to ready")
	l := w.uses("load")
	ec, err := w.see(t.Context())
	must(t, err)
	lost := ec.Status.Hosts[1:3]
	for _, h := range lost {
		kill(t, w.ns, h.Name+"-0", 0)
	}
	w.ready(2*time.Minute, 3, "two pods killed to ready")
	l.ends()
	for _, h := range lost { // the claim goes once its pod does
		must(t, kube.c.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: h.Name}}))
		kill(t, w.ns, h.Name+"-0", 0)
	}
	w.wayOut(6 * time.Minute)
	w.ready(8*time.Minute, 3, "survivor to three voters")
}

// wayOut makes the EtcdRestore that the cluster's status offers, as a person pastes it, and waits for its end.
func (w *world) wayOut(limit time.Duration) {
	w.t.Helper()
	began, manifest := time.Now(), ""
	within(w.t, limit, "it offers a way out", func(ctx context.Context) error {
		ec, err := w.see(ctx)
		if err != nil {
			return err
		}
		for _, b := range ec.Status.Blockers {
			if _, text, found := strings.Cut(b.Command, "kubectl create -f - <<'END'\n"); found {
				manifest = strings.TrimSuffix(strings.TrimSpace(text), "END")
				w.t.Logf("%s, after %.0f s: %s\n%s", b.Code, time.Since(began).Seconds(), b.Sentence, manifest)
				return nil
			}
		}
		return errors.New(words(ec))
	})
	restore := &v1alpha1.EtcdRestore{}
	must(w.t, yaml.UnmarshalStrict([]byte(manifest), restore))
	must(w.t, kube.c.Create(w.t.Context(), restore))
	w.done(restore, func(o client.Object) v1alpha1.RequestStatus { return o.(*v1alpha1.EtcdRestore).Status })
}
