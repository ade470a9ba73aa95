package reconcile

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// actWithin is how old the look may be by which a pod is deleted.
const actWithin = 5 * time.Second

// rolls is what this process alone knows of the pauses that it asked for: nobody else's clock says it.
type rolls struct {
	mu    sync.Mutex
	asked map[string]time.Time                 // by the pause's ID
	open  map[types.NamespacedName]bool        // clusters that have a pause open
	told  map[types.NamespacedName]*lastStatus // of clusters that a pod is replaced in
}

// lastStatus is the last status that was read past the cache.
type lastStatus struct {
	text  string
	read  time.Time // when the last read of it began
	after time.Time // when the last read of another one began; zero: there was none
}

// pauses reads which hosts are paused. While the operator has one paused, or one is behind that does not serve, the status is
// read past the cache.
func (r *Reconciler) pauses(ctx context.Context, s *sight) error {
	if s.control == nil {
		return nil
	}
	w, own := &s.world, s.control.Annotations[shape.AnnotationPause]
	all, err := record.Of(s.control, s.status).Folder(s.shape.ClusterName()).ReadPauses(ctx)
	if err != nil && !errors.Is(err, control.ErrNoPauses) {
		w.PausesUnread = err.Error()
		return nil
	}
	for _, p := range all {
		switch {
		case p.ID != "" && p.ID == own && !p.Ended:
			w.Pause = &decide.Pause{ID: p.ID, Host: string(p.Host), For: p.For, Asked: r.rolls.when(p.ID)}
			w.Pause.Loose = s.loose(p)
		case p.Asked(w.Now) || p.InForce(w.Now):
			w.OthersPause = string(p.Host)
		}
	}
	if w.Pause == nil && !slices.ContainsFunc(w.Hosts, func(h decide.Host) bool { return h.Running && h.OldPod && !h.Serves }) {
		return nil
	}
	status := &corev1.ConfigMap{}
	s.toldBy = r.now()
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: s.shape.Namespace, Name: s.shape.StatusName()}, status)
	if apierrors.IsNotFound(err) {
		s.status = nil
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the status: %w", err)
	}
	s.status = status
	return nil
}

func (r *rolls) when(id string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[id]
}

// loose says whether a deletion of a host's pod by a pause may be on its way: the pod that was to be deleted is there, and was
// not changed since. Each attempt has a word of its own, so that of which attempt the pod was kept from is known, too.
func (s *sight) loose(p cluster.Pause) bool {
	n, _ := s.shape.Number(string(p.Host))
	h, used := s.hosts[n], s.control.Annotations[shape.AnnotationUsed]
	words := strings.Fields(used)
	return len(words) == 3 && words[0] == p.ID && h != nil && h.pod != nil && words[1] == string(h.pod.UID) && h.pod.DeletionTimestamp == nil && h.pod.Annotations[shape.AnnotationKeep] != used
}

// keepPod changes the pod that is deleted by the operator's pause, so that a deletion that comes late is of a former version
// of it, and refused.
func (r *Reconciler) keepPod(ctx context.Context, s *sight, h *hostObjects) error {
	used := s.control.Annotations[shape.AnnotationUsed]
	return r.Writer.Mark(ctx, h.pod, nil, map[string]*string{shape.AnnotationKeep: &used})
}

// date notes when the status that was read past the cache was not there yet.
func (r *rolls) date(s *sight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(s.cluster)
	if s.told == nil || s.toldBy.IsZero() {
		delete(r.told, key)
		return
	}
	text, err := json.Marshal(s.told)
	if err != nil {
		return
	}
	last := r.told[key]
	switch {
	case last == nil:
		last = &lastStatus{}
	case last.text != string(text):
		last.after = last.read
	}
	last.text, last.read = string(text), s.toldBy
	if r.told == nil {
		r.told = map[types.NamespacedName]*lastStatus{}
	}
	r.told[key] = last
	s.world.Told.After = last.after
}

// mostRolls is in how many clusters hosts are asked for at once: so many lose a host to an image that does not come up.
const mostRolls = 10

// note notes whether a cluster has a pause open, and says whether it has none and so many others have.
func (r *rolls) note(key types.NamespacedName, open bool) (full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if open {
		r.opens(key)
		return false
	}
	delete(r.open, key)
	return len(r.open) >= mostRolls
}

// may says whether a cluster may have a pause open, and notes that it has.
func (r *rolls) may(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open[key] && len(r.open) >= mostRolls {
		return false
	}
	r.opens(key)
	return true
}

func (r *rolls) opens(key types.NamespacedName) {
	if r.open == nil {
		r.open = map[types.NamespacedName]bool{}
	}
	r.open[key] = true
}

func (r *rolls) ask(id string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.asked, func(_ string, was time.Time) bool { return at.Sub(was) > cluster.MaxPause })
	if r.asked == nil {
		r.asked = map[string]time.Time{}
	}
	r.asked[id] = at
}

// askPause asks the daemons to let a host go, once the API server would do what follows.
func (r *Reconciler) askPause(ctx context.Context, s *sight, step decide.Step, h *hostObjects) error {
	want, err := s.shape.Set(step.N)
	if err != nil {
		return err
	}
	if !r.rolls.may(client.ObjectKeyFromObject(s.cluster)) { // others were faster since the look
		return apierrors.NewConflict(schema.GroupResource{Resource: "etcdclusters"}, s.cluster.Name, errors.New("pods are replaced in other clusters"))
	}
	if err := r.Writer.TryRoll(ctx, h.set, want.Spec.Template, h.pod); err != nil {
		return err
	}
	p := cluster.Pause{ID: "pod-" + rand.Text(), Host: cluster.HostID(step.Host), For: decide.PauseFor, Reason: step.Why, By: decide.Asker, Outage: step.Outage}
	r.rolls.ask(p.ID, r.now()) // before anybody can read it
	return r.amend(ctx, s, func(f *control.Folder, annotations map[string]string) error {
		return s.writePauses(ctx, f, annotations, &p)
	})
}

// writePauses ends the operator's pause, and adds another one; nil: none.
func (s *sight) writePauses(ctx context.Context, f *control.Folder, annotations map[string]string, add *cluster.Pause) error {
	was, err := f.ReadPauses(ctx)
	if err != nil && !errors.Is(err, control.ErrNoPauses) {
		return err
	}
	own := annotations[shape.AnnotationPause]
	delete(annotations, shape.AnnotationPause)
	delete(annotations, shape.AnnotationUsed)
	now := slices.DeleteFunc(slices.Clone(was), func(p cluster.Pause) bool {
		switch {
		case p.ID == own && own != "":
			return p.Until.IsZero() // nobody was granted it
		case p.By == decide.Asker && p.Ended && add != nil && p.Host == add.Host:
			// The host has heard of its end before it was granted the next one.
			return slices.ContainsFunc(was, func(o cluster.Pause) bool { return o.Host == p.Host && o.By == decide.Asker && o.From.After(p.Until) })
		}
		return p.Ended && p.Over(s.world.Now)
	})
	for i := range now {
		if p := &now[i]; p.ID == own && own != "" && !p.Ended {
			p.Ended, p.Until = true, s.world.Now.UTC().Round(0)
		}
	}
	if add != nil {
		now = append(now, *add)
		annotations[shape.AnnotationPause] = add.ID
	}
	return f.WritePauses(ctx, was, now)
}

// rollHost has a pod that was made by another template than is wanted made anew.
func (r *Reconciler) rollHost(ctx context.Context, s *sight, step decide.Step, h *hostObjects) error {
	want, err := s.shape.Set(step.N)
	if err != nil {
		return err
	}
	pod := h.pod
	for _, o := range s.world.Hosts {
		if o.N == step.N && !o.OldPod {
			pod = nil
		}
	}
	if p := s.world.Pause; p != nil && pod != nil { // who ended it before has this fail; who ends it from now on keeps the pod first
		if err := r.amend(ctx, s, func(_ *control.Folder, annotations map[string]string) error {
			annotations[shape.AnnotationUsed] = fmt.Sprintf("%s %s %s", p.ID, pod.UID, rand.Text())
			return nil
		}); err != nil {
			return err
		}
	}
	return r.Writer.Roll(ctx, h.set, want.Spec.Template, pod, step.Evict, s.began.Add(actWithin))
}

// short is a sentence of Kubernetes in one line, and not beyond what is read.
func short(sentence string) string {
	const most = 300
	words := []rune(strings.Join(strings.Fields(sentence), " "))
	if len(words) > most {
		return string(words[:most-1]) + "…"
	}
	return strings.TrimSuffix(string(words), ".")
}

// tellClaim says which volume a host's claim waits for. Whether that class is there, and makes volumes, the claim's events say, which are
// not read here. What a kubelet says of a container is said once the volumes are there.
func (o *hostObjects) tellClaim(h *decide.Host) {
	early := slices.Contains([]string{"", decide.Unschedulable, decide.NotStarted}, h.Stuck)
	if c := o.claim; c == nil || c.Spec.VolumeName != "" || c.DeletionTimestamp != nil || !h.Runs.IsZero() || !early {
		return
	}
	class := "the default StorageClass"
	if name := o.claim.Spec.StorageClassName; name != nil && *name != "" {
		class = "StorageClass " + *name
	}
	waits := fmt.Sprintf("claim %s waits for a volume of %s", o.claim.Name, class)
	if h.Says != "" {
		waits = h.Says + "; " + waits
	}
	h.Says = waits
}

// tellPod says what the kubelet tells of a host's pod. A word of it that is none of a normal start is why it is stuck, and so is
// one of a start that takes too long, as for a volume; its sentences may have anything in them, and are not shown. The scheduler's are
// about machines and claims alone.
func (o *hostObjects) tellPod(h *decide.Host, now time.Time) {
	if o.pod == nil {
		return
	}
	h.Pod, h.Going = true, o.pod.DeletionTimestamp != nil
	status := &o.pod.Status
	if status.Phase == corev1.PodFailed || status.Phase == corev1.PodSucceeded {
		h.Stuck = string(status.Phase)
	}
	h.ReadySince = o.pod.CreationTimestamp.Time
	for _, c := range status.Conditions {
		switch {
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			h.Stuck, h.Says = c.Reason, short(c.Message)
		case c.Type == corev1.PodReady:
			h.Ready, h.ReadySince = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	if h.Stuck == "" && now.Sub(o.pod.CreationTimestamp.Time) > decide.Slow {
		h.Stuck = decide.NotStarted
	}
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		state := c.State
		switch own := c.Name == shape.ContainerName; {
		case state.Waiting != nil && !slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, state.Waiting.Reason):
			if own || !c.Ready && h.Runs.IsZero() {
				h.Stuck = state.Waiting.Reason
			}
		case own && state.Terminated != nil:
			h.Stuck = fmt.Sprintf("%s with exit code %d", state.Terminated.Reason, state.Terminated.ExitCode)
		case own && state.Running != nil:
			h.Says = ""
			h.Runs, h.Serves, h.Stuck = state.Running.StartedAt.Time, c.Ready, ""
		}
	}
}
