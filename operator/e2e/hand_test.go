package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/act"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/reconcile"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// hand plays the rest of Kubernetes for one cluster, and its daemons: pods of StatefulSets are there at once, and what the
// spec asks for is done at once. It is no model of the engine: what is shown here is what the operator writes.
type hand struct {
	t      *testing.T
	c      client.Client
	ns     string
	name   string
	silent map[string]bool // hosts that the leading daemon does not hear
	proven bool            // the last backup was found good
	worn   string          // the host that a person wants exchanged
	kept   *cluster.Intent // what the hosts remember

	skip, pace time.Duration             // how far its clock is ahead, and how much further after each turn
	bad        string                    // an image that is nowhere
	idle       string                    // an image whose voter runs and does not serve
	idles      map[string]bool           // hosts with such a voter
	drained    int32                     // pods that somebody else is about to evict
	runs16     bool                      // members run 3.6.16, whatever is wanted
	lets       bool                      // its authorities ended, and a person lets all pods go
	granted    map[string]cluster.HostID // pauses that hosts were granted
	uids       map[string]types.UID      // of the pods that serve
	rolled     []string                  // hosts whose pods were replaced, in their order
	real       *machines                 // of its pods; nil: the hand plays the daemons, too
	tells      func(*control.Status)     // what else its daemons tell
	issuer     *issuer                   // cert-manager's; nil: there is none
}

func (h *hand) time() time.Time { return time.Now().Add(h.skip) }

func (h *hand) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: h.ns, Name: name}
}

// turn does what is to be done once.
func (h *hand) turn(ctx context.Context) error {
	if err := h.issuer.turn(ctx, h); err != nil {
		return fmt.Errorf("the issuer: %w", err)
	}
	sets, pods, claims := &appsv1.StatefulSetList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}
	mine := []client.ListOption{client.InNamespace(h.ns), client.MatchingLabels{shape.LabelCluster: h.name}}
	for _, l := range []client.ObjectList{sets, pods, claims} {
		if err := h.c.List(ctx, l, mine...); err != nil {
			return err
		}
	}
	var running []string
	for _, s := range sets.Items {
		if *s.Spec.Replicas == 0 || s.DeletionTimestamp != nil {
			continue
		}
		running = append(running, s.Name)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: h.ns, Name: s.Name + "-0", Labels: s.Spec.Template.Labels, Annotations: s.Spec.Template.Annotations}, Spec: s.Spec.Template.Spec}
		if err := h.c.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("the pod of %s: %w", s.Name, err)
		}
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; !slices.Contains(running, strings.TrimSuffix(p.Name, "-0")) {
			if err := h.c.Delete(ctx, p, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	serving, err := h.kubelet(ctx, running)
	if err != nil {
		return err
	}
	for i := range claims.Items { // nobody uses it any more, as its controller would find
		c := &claims.Items[i]
		if c.DeletionTimestamp != nil && slices.Contains(c.Finalizers, "kubernetes.io/pvc-protection") {
			c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == "kubernetes.io/pvc-protection" })
			if err := h.c.Update(ctx, c); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	if err := h.disruptions(ctx); err != nil {
		return err
	}
	if err := h.work(ctx); err != nil {
		return err
	}
	h.skip += h.pace
	if h.real != nil {
		return h.real.run(ctx, running)
	}
	return h.daemons(ctx, serving)
}

// tells has a kubelet say what its container does.
func tells(pod *corev1.Pod, state corev1.ContainerStatus) {
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}
	if state.Ready {
		ready.Status = corev1.ConditionTrue
	}
	if pod.Status.ContainerStatuses, pod.Status.Conditions = []corev1.ContainerStatus{state}, []corev1.PodCondition{ready}; state.State.Running != nil {
		pod.Status.Phase = corev1.PodRunning
	}
}

// disruptions counts for the budgets, as their controller does.
func (h *hand) disruptions(ctx context.Context) error {
	budgets, pods := &policyv1.PodDisruptionBudgetList{}, &corev1.PodList{}
	for _, l := range []client.ObjectList{budgets, pods} {
		if err := h.c.List(ctx, l, client.InNamespace(h.ns), client.MatchingLabels{shape.LabelCluster: h.name}); err != nil {
			return err
		}
	}
	healthy := int32(0)
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
			healthy++
		}
	}
	for i := range budgets.Items {
		b := &budgets.Items[i]
		least := int32(b.Spec.MinAvailable.IntValue())
		now := policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, ExpectedPods: int32(len(pods.Items)), CurrentHealthy: healthy, DesiredHealthy: least, DisruptionsAllowed: max(0, healthy-least-h.drained)}
		if was := b.Status; was.ObservedGeneration == now.ObservedGeneration && was.CurrentHealthy == healthy && was.DisruptionsAllowed == now.DisruptionsAllowed && was.ExpectedPods == now.ExpectedPods {
			continue
		}
		b.Status = now
		if err := h.c.Status().Update(ctx, b); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// kubelet runs the containers of pods, and gives the hosts whose container runs. A pod that was replaced has to have been let
// go, and is the only one.
func (h *hand) kubelet(ctx context.Context, hosts []string) (run []string, err error) {
	before := len(h.rolled)
	maps.DeleteFunc(h.uids, func(name string, _ types.UID) bool { return !slices.Contains(hosts, name) })
	for _, name := range hosts {
		pod := &corev1.Pod{}
		if err := h.c.Get(ctx, h.key(name+"-0"), pod); err != nil {
			return nil, err
		}
		state := corev1.ContainerStatus{Name: shape.ContainerName, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(h.time().Add(-time.Minute))}}}
		if pod.Spec.Containers[0].Image == h.bad {
			state = corev1.ContainerStatus{Name: shape.ContainerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}
		} else {
			run = append(run, name)
		}
		if h.idles == nil {
			h.idles = map[string]bool{}
		}
		if h.idles[name] = pod.Spec.Containers[0].Image == h.idle; h.idles[name] {
			state.Ready = false
		}
		if len(pod.Status.ContainerStatuses) == 0 {
			tells(pod, state)
			if err := h.c.Status().Update(ctx, pod); err != nil {
				return nil, err
			}
		}
		if was, is := h.uids[name]; is && was != pod.UID {
			h.rolled = append(h.rolled, name)
			if !h.lets && !slices.Contains(slices.Collect(maps.Values(h.granted)), cluster.HostID(name)) {
				h.t.Errorf("%s was replaced, and nobody had let it go", name)
			}
		}
		if h.uids == nil {
			h.uids = map[string]types.UID{}
		}
		if delete(h.uids, name); state.Ready {
			h.uids[name] = pod.UID
		}
	}
	if n := len(h.rolled) - before; n > 1 {
		h.t.Errorf("%d pods were replaced at once", n)
	}
	return run, nil
}

// pauses lets hosts go that somebody asked for, one after the other, and hears of the ends.
func (h *hand) pauses(ctx context.Context, f *control.Folder, running []string) error {
	was, err := f.ReadPauses(ctx)
	if err != nil {
		if errors.Is(err, control.ErrNoPauses) {
			return nil
		}
		return err
	}
	for _, p := range was {
		if p.Ended {
			delete(h.granted, p.ID)
		}
	}
	now := slices.Clone(was)
	for i := range now {
		if p := &now[i]; p.Asked(h.time()) && len(h.granted) == 0 && len(running) == len(h.kept.Voters) {
			p.From, p.Until = h.time().UTC().Round(0), h.time().Add(p.For).UTC().Round(0)
			h.granted = map[string]cluster.HostID{p.ID: p.Host}
		}
	}
	return f.WritePauses(ctx, was, now)
}

// daemons do what the spec says, and tell of it.
func (h *hand) daemons(ctx context.Context, running []string) error {
	record, status := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	err := h.c.Get(ctx, h.key(h.name+"-control"), record)
	if err == nil {
		err = h.c.Get(ctx, h.key(h.name+"-status"), status)
	}
	if err != nil || len(running) == 0 {
		return client.IgnoreNotFound(err)
	}
	return h.lead(ctx, record, status, running)
}

func (h *hand) lead(ctx context.Context, was, status *corev1.ConfigMap, running []string) error {
	view := record.Of(was, status)
	folder := view.Folder(clusterName(was, h))
	spec, err := folder.ReadSpec(ctx)
	if err != nil {
		return err
	}
	in, _, tag, err := folder.ReadIntent(ctx)
	if err != nil || spec.Spec == nil && (in != nil || h.kept == nil) {
		return err
	}
	if in == nil && h.kept != nil { // the record was lost, and is written back
		if _, err := folder.CreateIntent(ctx, h.kept); err != nil {
			return err
		}
		return h.c.Update(ctx, view.Control)
	}
	next := in.Clone()
	if next == nil {
		next = &cluster.Intent{Timestamp: 1, Name: clusterName(was, h), Generation: 1, Nonce: "n", Token: "t", State: cluster.IntentFounded, Cluster: 0xabc}
	}
	h.vote(next, spec.Spec, running)
	h.kept = next
	if in == nil {
		_, err = folder.CreateIntent(ctx, next)
	} else if fmt.Sprint(in.Voters) != fmt.Sprint(next.Voters) {
		next.Write++
		_, err = folder.ReplaceIntent(ctx, tag, next)
	}
	if err == nil {
		err = h.commands(ctx, folder)
	}
	if err == nil {
		err = h.pauses(ctx, folder, running)
	}
	if err == nil {
		err = h.report(ctx, view, folder, next, spec.Spec, running)
	}
	if err != nil {
		return err
	}
	for _, m := range []struct{ now, was *corev1.ConfigMap }{{view.Control, was}, {view.Status, status}} {
		if maps.Equal(m.now.Data, m.was.Data) {
			continue
		}
		if err := h.c.Update(ctx, m.now); err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

func clusterName(control *corev1.ConfigMap, h *hand) string {
	return shape.Cluster{Namespace: h.ns, Name: h.name, UID: control.Labels[shape.LabelUID]}.ClusterName()
}

// vote has as many voters as are wanted, on hosts that are named and heard; those that are there stay where they may.
func (h *hand) vote(in *cluster.Intent, spec *cluster.Spec, running []string) {
	may := func(host cluster.HostID) bool {
		return slices.Contains(spec.Hosts, host) && slices.Contains(running, string(host)) && !h.silent[string(host)]
	}
	var voters []cluster.Voter
	for _, v := range in.Voters {
		if may(v.Host) && len(voters) < spec.MemberCount {
			voters = append(voters, v)
		}
	}
	for _, host := range spec.Hosts {
		if len(voters) < spec.MemberCount && may(host) && !slices.ContainsFunc(voters, func(v cluster.Voter) bool { return v.Host == host }) {
			n := strings.TrimPrefix(string(host), h.name+"-")
			id, _ := cluster.ParseMemberID(n)
			voters = append(voters, cluster.Voter{Host: host, Disk: cluster.DiskID("d" + n), Member: id})
		}
	}
	if len(voters) < spec.MemberCount { // nobody is removed before another one is there
		for _, v := range in.Voters {
			if len(voters) < spec.MemberCount && !slices.ContainsFunc(voters, func(o cluster.Voter) bool { return o.Host == v.Host }) {
				voters = append(voters, v)
			}
		}
	}
	slices.SortFunc(voters, func(a, b cluster.Voter) int { return cmp.Compare(a.Host, b.Host) })
	in.Voters = voters
}

// commands runs those that are asked for: backups are taken, and each restore makes a generation.
func (h *hand) commands(ctx context.Context, f *control.Folder) error {
	all, err := f.Commands(ctx)
	for _, c := range all {
		end := control.Ended{Name: c.Name, Kind: c.Kind(), Backup: "a-backup", Result: "done", At: time.Now()}
		if c.Restore != nil {
			end.Backup = c.Restore.Backup
			in, _, tag, rerr := f.ReadIntent(ctx)
			if rerr != nil || in == nil {
				return rerr
			}
			in.Generation, in.CommandID, in.Source = in.Generation+1, c.Name, cluster.Source{Kind: cluster.SourceBackup, Backup: end.Backup}
			in.CommandsRun, in.Write = append(in.CommandsRun, c.Name), in.Write+1
			_, rerr = f.ReplaceIntent(ctx, tag, in)
			err, h.kept = errors.Join(err, rerr), in
		}
		err = errors.Join(err, f.EndCommand(ctx, end))
	}
	return err
}

func (h *hand) report(ctx context.Context, view *record.View, f *control.Folder, in *cluster.Intent, spec *cluster.Spec, running []string) error {
	told := control.Status{Cluster: in.Name, Leader: in.Voters[0].Host, At: h.time().UTC(), Rule: "steady", Version: spec.EtcdVersion}
	for id, host := range h.granted {
		told.Pauses = append(told.Pauses, control.PauseStatus{ID: id, Host: host, By: "the operator", MayGo: !h.idles[string(host)] && slices.Contains(running, string(host))})
	}
	if ended, err := f.EndedCommands(ctx); err == nil && len(ended) > 0 {
		told.Backup = &cluster.Backup{Name: "a-backup", At: time.Now().UTC(), Cluster: in.Cluster}
		told.Proven = &cluster.Backup{Name: "an-older-one", At: told.At.Add(-time.Hour), Cluster: in.Cluster}
		if h.proven {
			told.Proven = told.Backup
		}
	}
	version := spec.EtcdVersion
	if h.runs16 {
		version, _ = cluster.ParseVersion("3.6.16")
	}
	for _, v := range in.Voters {
		told.Members = append(told.Members, control.MemberStatus{Member: v.Member, Host: v.Host, Version: version, Up: !h.idles[string(v.Host)] && !h.silent[string(v.Host)] && slices.Contains(running, string(v.Host)), Leads: v.Host == in.Voters[0].Host})
	}
	for _, host := range running {
		if h.silent[host] {
			continue
		}
		data := cluster.DataNone
		if slices.ContainsFunc(in.Voters, func(v cluster.Voter) bool { return string(v.Host) == host }) {
			data = cluster.DataMember
		}
		trust, err := h.trust(ctx, host)
		if err != nil {
			return err
		}
		told.Hosts = append(told.Hosts, control.HostStatus{Host: cluster.HostID(host), Data: data, Trust: trust})
	}
	if h.tells != nil {
		h.tells(&told)
	}
	data, err := json.Marshal(told)
	if err == nil {
		_, err = blob.PutBytes(ctx, view, "control/etcdadm-status.json", data, blob.Any)
	}
	return err
}

// errKilled is what an operator sees that is killed: none of its writes arrive any more.
var errKilled = errors.New("killed")

// operator is one, without a cache. After so many writes that took effect it is killed, and none of its writes arrive any more;
// negative: it lives.
func operator(c client.Client, lives int, now func() time.Time) (*reconcile.Reconciler, func() int) {
	writes := 0
	write := func(do func() error) error {
		if lives >= 0 && writes >= lives {
			return errKilled
		}
		err := do()
		if err == nil {
			writes++
		}
		return err
	}
	counted := interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return write(func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return write(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o applyConfiguration, opts ...client.ApplyOption) error {
			return write(func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, made client.Object, opts ...client.SubResourceCreateOption) error {
			return write(func() error { return c.SubResource(sub).Create(ctx, o, made, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
	return &reconcile.Reconciler{Cached: counted, Live: counted, Writer: &act.Writer{Client: counted, Live: counted}, Image: "localhost/etcdadm:1", Now: now,
		Issuers: reconcile.Issuers{{Kind: "Issuer", Name: "*", Group: shape.IssuerGroup}, {Kind: "ClusterIssuer", Name: "other", Group: shape.IssuerGroup}}}, func() int { return writes }
}

// settle runs operator and hand in turn until what is wanted holds.
func (h *hand) settle(r *reconcile.Reconciler, what string, holds func() error) error {
	var last error
	for range 60 {
		_, err := r.Reconcile(h.t.Context(), ctrl.Request{NamespacedName: h.key(h.name)})
		if errors.Is(err, errKilled) {
			return err
		}
		last = err
		if err := h.turn(h.t.Context()); err != nil {
			return fmt.Errorf("the hand: %w", err)
		}
		if last == nil {
			if last = holds(); last == nil {
				return nil
			}
		}
	}
	return fmt.Errorf("%s: %w", what, last)
}

// see reads the cluster's EtcdCluster; nil: there is none.
func (h *hand) see() *v1alpha1.EtcdCluster {
	ec := &v1alpha1.EtcdCluster{}
	err := h.c.Get(h.t.Context(), h.key(h.name), ec)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(h.t, err)
	return ec
}

func (h *hand) condition(kind string) metav1.Condition {
	ec := h.see()
	if ec == nil {
		return metav1.Condition{Reason: "there is no EtcdCluster"}
	}
	for _, c := range ec.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{Reason: "nothing yet"}
}

// ready says why the cluster does not have so many voters, all up, on so many hosts that run.
func (h *hand) ready(voters, hosts int) func() error {
	return func() error {
		if c := h.condition(v1alpha1.Ready); c.Status != metav1.ConditionTrue {
			return fmt.Errorf("it is not ready: %s: %s", c.Reason, c.Message)
		}
		ec := h.see()
		run := len(h.runs())
		if int(ec.Status.Voters) != voters || run != hosts || h.budget() != h.least(voters) {
			return fmt.Errorf("%d voters, %d hosts run, the budget is %d", ec.Status.Voters, run, h.budget())
		}
		return nil
	}
}

// runs are the hosts that are to run.
func (h *hand) runs() (all []string) {
	sets := &appsv1.StatefulSetList{}
	must(h.t, h.c.List(h.t.Context(), sets, client.InNamespace(h.ns)))
	for _, s := range sets.Items {
		if *s.Spec.Replicas > 0 {
			all = append(all, s.Name)
		}
	}
	return all
}

func (h *hand) least(voters int) int {
	if voters == 1 {
		return 0
	}
	return voters/2 + 1
}

func (h *hand) budget() int {
	b := &policyv1.PodDisruptionBudget{}
	if err := h.c.Get(h.t.Context(), h.key(h.name), b); err != nil {
		return 0
	}
	return b.Spec.MinAvailable.IntValue()
}

func (h *hand) patch(text string) {
	h.t.Helper()
	must(h.t, h.c.Patch(h.t.Context(), h.see(), client.RawPatch(types.MergePatchType, []byte(text))))
}

func request(h *hand) ctrl.Request { return ctrl.Request{NamespacedName: h.key(h.name)} }
