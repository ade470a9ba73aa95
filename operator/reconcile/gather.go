package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sight is all that is seen of one cluster: the world that is decided by, and the objects that it was made of.
type sight struct {
	cluster *v1alpha1.EtcdCluster
	shape   shape.Cluster
	world   decide.World
	told    *control.Status

	control, status *corev1.ConfigMap
	hosts           map[int]*hostObjects
	secrets         []client.Object // those that are no host's; metadata only
	needsKeys       bool            // something is issued now
	// kept is what the Secret with the authorities' keys says; nil: nothing that counts. older: what it says is of before step, which
	// is the last one that anything was written by.
	kept          *keptAuthorities
	older         bool
	asked         *keptAsked        // the request for the clients' authority that is out; nil: none is
	signature     *authority.Signed // what came of it; nil: nothing yet that serves
	step, signed  int               // of the authorities: the last that is known of, and by keys and certificates alone
	shared        []client.Object   // by kind and name, whatever is there
	began, toldBy time.Time         // the look, and the read of the status past the cache
	copying       copying           // what a request has copied; zero: nothing

	// Of a cluster on bare hosts: what is seen of it, its record (nil: it cannot be read) and the spec as it was read there.
	outside *decide.Outside
	folder  *control.Folder
	spec    control.SpecRead
}

// hostObjects are the objects of a host; nil: there is none.
type hostObjects struct {
	set    *appsv1.StatefulSet
	claim  *corev1.PersistentVolumeClaim
	leaves *metav1.PartialObjectMetadata
	pod    *corev1.Pod
}

// runs says that there is to be a pod.
func (o *hostObjects) runs() bool {
	return o.set != nil && (o.set.Spec.Replicas == nil || *o.set.Spec.Replicas > 0)
}

// secretList is for the metadata of Secrets: nothing else is read of them all the time.
func secretList() *metav1.PartialObjectMetadataList {
	l := &metav1.PartialObjectMetadataList{}
	l.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	return l
}

// ours finds the operator's own objects, in the cache and past it alike.
func ours(more ...string) client.MatchingLabels {
	m := client.MatchingLabels{"app.kubernetes.io/managed-by": shape.Manager}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

// gather reads all of a cluster by the labels of its objects.
func (r *Reconciler) gather(ctx context.Context, from client.Reader, ec *v1alpha1.EtcdCluster) (*sight, error) {
	s := &sight{cluster: ec, hosts: map[int]*hostObjects{}, began: time.Now()}
	s.world.Now, s.world.Namespace, s.world.Name = r.now(), ec.Namespace, ec.Name
	s.shape = shape.Cluster{Namespace: ec.Namespace, Name: ec.Name, Spec: ec.Spec, Image: r.Image}
	records, sets, claims, pods, secrets := &corev1.ConfigMapList{}, &appsv1.StatefulSetList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PodList{}, secretList()
	var shared []client.Object
	lists := []client.ObjectList{records, sets, claims, pods, secrets, &corev1.ServiceList{}, &corev1.ServiceAccountList{},
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &networkingv1.NetworkPolicyList{}, &policyv1.PodDisruptionBudgetList{}}
	for _, l := range lists {
		if err := from.List(ctx, l, client.InNamespace(ec.Namespace), ours(shape.LabelCluster, ec.Name), by{byCluster, ec.Name}); err != nil {
			return nil, fmt.Errorf("look at the cluster: %w", err)
		}
		shared = append(shared, objectsOf(l)...)
	}
	s.identify(records.Items, sets.Items, claims.Items)
	w := &s.world
	for _, o := range shared {
		if o.GetLabels()[shape.LabelUID] != s.shape.UID {
			w.Taken = append(w.Taken, o.GetName())
			continue
		}
		s.shared = append(s.shared, o)
	}
	for i := range sets.Items {
		if h := s.host(&sets.Items[i]); h != nil {
			h.set = &sets.Items[i]
		}
	}
	for i := range claims.Items {
		if h := s.host(&claims.Items[i]); h != nil {
			h.claim = &claims.Items[i]
		}
	}
	for i := range pods.Items {
		if h := s.host(&pods.Items[i]); h != nil {
			h.pod = &pods.Items[i]
		}
	}
	for i := range secrets.Items {
		if h := s.host(&secrets.Items[i]); h != nil {
			h.leaves = &secrets.Items[i]
		} else if secrets.Items[i].Labels[shape.LabelUID] == s.shape.UID {
			s.secrets = append(s.secrets, &secrets.Items[i])
		}
	}
	w.Since = ec.CreationTimestamp.Time
	s.want(r.Issuers)
	w.Want.RotationGrace = r.RotationGrace
	s.describe()
	s.rotation()
	if err := r.pauses(ctx, s); err != nil {
		return nil, err
	}
	w.Full = r.rolls.note(client.ObjectKeyFromObject(ec), w.Pause != nil && !ec.Spec.Paused)
	s.record(ctx)
	if s.shape.Adopting = w.Adopting(); s.control != nil {
		s.shape.Adopts = s.adopts()
	}
	if err := r.compareKeys(ctx, s); err != nil {
		return nil, err
	}
	r.readAsked(ctx, s)
	r.date(s, w)
	r.rolls.date(s)
	s.hear()
	err := r.readLeaves(ctx, s)
	r.readStamped(ctx, s)
	return s, err
}

// date notes when this process saw come what is told.
func (r *Reconciler) date(s *sight, w *decide.World) {
	if seen := r.beats.seen(s.cluster, s.told, w.Now); s.told != nil {
		w.Told.Seen = seen
	}
}

// identify finds the identity of the cluster: by its control object, else by what is left of it, else it is a new one.
func (s *sight) identify(configMaps []corev1.ConfigMap, sets []appsv1.StatefulSet, claims []corev1.PersistentVolumeClaim) {
	for i := range configMaps {
		switch m := &configMaps[i]; m.Name {
		case s.shape.ControlName():
			s.control = m
		case s.shape.StatusName():
			s.status = m
		}
	}
	uid := ""
	if s.control != nil {
		uid = s.control.Labels[shape.LabelUID]
	}
	for i := range claims {
		uid = cmp.Or(uid, claims[i].Labels[shape.LabelUID])
	}
	for i := range sets {
		uid = cmp.Or(uid, sets[i].Labels[shape.LabelUID])
	}
	s.shape.UID = cmp.Or(uid, string(s.cluster.UID))
}

// host is that of an object; nil: the object is no host's of this cluster.
func (s *sight) host(o client.Object) *hostObjects {
	n, ok := s.shape.Number(o.GetLabels()[shape.LabelHost])
	if !ok || o.GetLabels()[shape.LabelUID] != s.shape.UID {
		return nil
	}
	if s.hosts[n] == nil {
		s.hosts[n] = &hostObjects{}
	}
	return s.hosts[n]
}

// want reads what the EtcdCluster asks for, by an operator that has this on and may ask those.
func (s *sight) want(may Issuers) {
	spec, w := s.cluster.Spec, &s.world.Want
	w.Spec = cluster.Spec{MemberCount: int(spec.Size), Options: shape.Options(spec), DeadAfter: spec.ReplaceAfter.Or(defaultReplaceAfter)}
	if v, err := cluster.ParseVersion(spec.Version); err == nil {
		w.Spec.EtcdVersion = v
	}
	if r := spec.Recovery; r != nil && r.Mode == v1alpha1.RecoverAutomatically {
		w.Spec.AutoRecoverAfter = r.After.Or(0)
	}
	if u := spec.Upgrade; u != nil {
		w.Spec.PauseBeforeLast, w.Spec.AcceptOutage = u.PauseBeforeLast, u.AcceptOutageTo
		if u.AcceptLoss != "" {
			w.Spec.AcceptLoss = spec.Version + " " + u.AcceptLoss
		}
	}
	w.Spare, w.ReplaceAfter, w.Paused, w.Hibernate = int(spec.SpareHosts), w.Spec.DeadAfter, spec.Paused, spec.Hibernate
	w.Volumes, w.Store, w.Backup = decide.KeepUnproven, spec.Backup != nil, spec.Backup != nil
	if d := spec.Deletion; d != nil {
		w.Volumes = cmp.Or(decide.Volumes(d.Volumes), decide.KeepUnproven)
		w.Backup = d.FinalBackup == "Always" || w.Backup && d.FinalBackup != "Never"
	}
	if spec.TLS != nil {
		w.Rotate = int(spec.TLS.Rotate)
	}
	w.Issuer = issuerOf(spec.TLS)
	w.IssuerBarred = w.Issuer != (decide.Issuer{}) && !may.allow(w.Issuer)
	if b := spec.Bootstrap; b != nil && b.Restore != nil {
		w.From = &decide.Origin{Backup: string(b.Restore.Backup), NewestProven: b.Restore.NewestProven}
	}
	if c := s.bootCopy(); c != nil {
		w.From = &decide.Origin{Backup: c.Backup, Elsewhere: true, Claims: c.From == nil}
	}
	if b := spec.Bootstrap; b != nil && b.Adopt != nil {
		w.Adopt = &decide.Adopt{}
		if id, err := strconv.ParseUint(b.Adopt.ClusterID, 16, 64); err == nil {
			w.Adopt.Cluster = cluster.ClusterID(id)
		}
	}
	if at := s.cluster.DeletionTimestamp; at != nil {
		w.Deleted = at.Time
	}
	if b := spec.Backup; b != nil { // hosts have no identity that opens what was encrypted
		w.DrillEvery = b.DrillInterval.Or(0)
		w.Drills = w.DrillEvery > 0 && len(b.Recipients) == 0
	}
	if w.ReplaceAfter < leastReplaceAfter {
		w.Refused = fmt.Sprintf("spec.replaceAfter is less than %s, in which a host may start anew", leastReplaceAfter)
	}
	if _, err := s.shape.Set(1); err != nil {
		w.Refused = err.Error()
	}
}

// defaultReplaceAfter is how long a host is silent before another one is made, and leastReplaceAfter the least that is taken.
const (
	defaultReplaceAfter = 5 * time.Minute
	leastReplaceAfter   = 30 * time.Second
)

// describe says what is there of each host.
func (s *sight) describe() {
	w := &s.world
	for _, n := range slices.Sorted(maps.Keys(s.hosts)) {
		o := s.hosts[n]
		h := decide.Host{N: n, Name: s.shape.Host(n), Claim: s.claimOf(o.claim), Unbound: unbound(o.claim), Leaves: o.leaves != nil}
		o.tellPod(&h, w.Now)
		o.tellClaim(&h)
		if o.claim != nil {
			_, h.Kept = o.claim.Labels[shape.LabelKept]
			said, adopts := o.claim.Annotations[shape.AnnotationAdopt]
			h.Adopts, h.AdoptsID = adopts, adoptsID(said)
		}
		if o.leaves != nil {
			due, err := time.Parse(time.RFC3339, o.leaves.Annotations[shape.AnnotationRenew])
			h.LeavesDue = err != nil || !w.Now.Before(due)
		}
		if o.set != nil {
			h.Set, h.Running = true, o.runs()
			_, h.Replace = o.set.Annotations[shape.AnnotationReplace]
			h.SpentSince, _ = time.Parse(time.RFC3339, o.set.Annotations[shape.AnnotationSpent])
			if want, err := s.shape.Set(n); err == nil {
				store := shape.Store(&o.set.Spec.Template)
				h.NoStore = store == "" || store != shape.Store(&want.Spec.Template)
				made := want.Spec.Template.Annotations[shape.AnnotationTemplate]
				h.OldSet = o.set.Spec.Template.Annotations[shape.AnnotationTemplate] != made
				h.OldPod = o.pod != nil && o.pod.Annotations[shape.AnnotationTemplate] != made && (h.OldSet || !o.current())
			}
		}
		w.Hosts = append(w.Hosts, h)
	}
	for _, o := range s.shared {
		if b, ok := o.(*policyv1.PodDisruptionBudget); ok && b.Name == s.shape.Name && b.Spec.MinAvailable != nil {
			w.Budget = b.Spec.MinAvailable.IntValue()
		}
		w.Shared = w.Shared || s.isShared(o)
	}
}

// current says that the pod was made by the set's template, by the word of the set's controller: the annotations of pods may be
// taken away by others.
func (o *hostObjects) current() bool {
	s := &o.set.Status
	return s.UpdateRevision != "" && s.ObservedGeneration == o.set.Generation && o.pod.Labels[appsv1.StatefulSetRevisionLabel] == s.UpdateRevision
}

// hear says of each host since when nobody hears it, by what was shown and what is told; and what release it loses.
func (s *sight) hear() {
	silent := s.silentSince()
	for i := range s.world.Hosts {
		h := &s.world.Hosts[i]
		h.SilentSince = s.world.SilentSince(*h, silent[h.Name])
		h.Loses = s.loses(h)
	}
}

// silentSince is since when each host was shown to be silent.
func (s *sight) silentSince() map[string]time.Time {
	silent := map[string]time.Time{}
	for _, h := range s.cluster.Status.Hosts {
		if h.SilentSince != nil {
			silent[h.Name] = h.SilentSince.Time
		}
	}
	return silent
}

// loses is the release that a host runs out of an image which no wanted pod mounts, while it is to run another one.
func (s *sight) loses(h *decide.Host) string {
	pod := s.hosts[h.N].pod
	want, err := s.shape.Set(h.N)
	if s.told == nil || pod == nil || err != nil {
		return ""
	}
	for _, m := range s.told.Members {
		if string(m.Host) == h.Name && m.Version != s.world.Want.Spec.EtcdVersion && shape.Mounts(&pod.Spec, m.Version) && !shape.Mounts(&want.Spec.Template.Spec, m.Version) {
			return m.Version.String()
		}
	}
	return ""
}

// unbound says whether a claim has no volume, and may get one on any machine.
func unbound(c *corev1.PersistentVolumeClaim) bool {
	return c != nil && c.Spec.VolumeName == "" && c.Annotations["volume.kubernetes.io/selected-node"] == ""
}

func (s *sight) claimOf(c *corev1.PersistentVolumeClaim) decide.Claim {
	storage := s.cluster.Spec.Storage
	switch {
	case c == nil:
		return decide.ClaimNone
	case c.DeletionTimestamp != nil:
		return decide.ClaimLeaving
	case c.Status.Phase == corev1.ClaimLost:
		return decide.ClaimLost
	case storage == nil:
		return decide.ClaimThere
	case storage.Class != "" && (c.Spec.StorageClassName == nil || *c.Spec.StorageClassName != storage.Class):
		return decide.ClaimOther
	case c.Spec.Resources.Requests.Storage().Cmp(storage.Size) != 0:
		return decide.ClaimOther
	}
	return decide.ClaimThere
}

// isShared says whether an object is one that a deleted cluster leaves to EndShared.
func (s *sight) isShared(o client.Object) bool {
	switch o.(type) {
	case *corev1.Service, *corev1.ServiceAccount, *rbacv1.Role, *rbacv1.RoleBinding, *networkingv1.NetworkPolicy, *policyv1.PodDisruptionBudget:
		return true
	case *corev1.ConfigMap:
		return o.GetName() == s.shape.BundleName()
	}
	return false
}

// ending says whether namespace or CRD are on their way out. It is asked about deleted clusters alone.
func (r *Reconciler) ending(ctx context.Context, s *sight) error {
	ns, crd := &corev1.Namespace{}, &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(crdKind)
	if err := r.Live.Get(ctx, client.ObjectKey{Name: s.cluster.Namespace}, ns); err != nil {
		return fmt.Errorf("look at the namespace: %w", err)
	}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: crdName}, crd); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("look at the CRD: %w", err)
	}
	s.world.NamespaceEnds, s.world.KindEnds = ns.DeletionTimestamp != nil, crd.DeletionTimestamp != nil
	return nil
}
