package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/pki"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// keptAuthorities is what the Secret with the authorities' keys says of them in its annotation, which is written together with
// them.
type keptAuthorities struct {
	// Rotate is the number of spec.tls.rotate that was begun, and Step counts all steps and never goes back.
	Rotate int                   `json:"rotate"`
	Step   int                   `json:"step"`
	Phase  cluster.RotationPhase `json:"phase"`
	Since  time.Time             `json:"since,omitzero"`
	ByTime bool                  `json:"byTime,omitempty"`
	// Pods are those that are to end, by their UIDs: they were started with authorities that have ended.
	Pods []types.UID `json:"pods,omitempty"`
	authority.Certificates
}

// stamp is the annotation of what is written by this step.
func (k *keptAuthorities) stamp() string { return fmt.Sprintf("%d %d", k.Rotate, k.Step) }

// stamped are the number and the step by which an object was written; zero: it does not say.
func stamped(o client.Object) (rotate, step int) {
	if _, err := fmt.Sscanf(o.GetAnnotations()[shape.AnnotationStep], "%d %d", &rotate, &step); err != nil {
		return 0, 0
	}
	return rotate, step
}

// byTimeSpread is the time in which clusters that were made in one day have their authorities replaced unasked, so that not all of
// them restart their members in one hour.
const byTimeSpread = pki.AuthorityLifetime / 20

// spread is the cluster's own moment within byTimeSpread after due.
func (s *sight) spread(due time.Time) time.Time {
	if due.IsZero() {
		return due
	}
	sum := sha256.Sum256([]byte(s.shape.UID))
	return due.Add(time.Duration(binary.BigEndian.Uint64(sum[:]) % uint64(byTimeSpread)))
}

// outdated says that a host's leaves are of before the step before this one: it was stopped, so that nobody shows them; or, where they
// are of somebody who was dropped, they were put back from a backup, since nobody is before all that run have those of that step.
// What clients have says nothing about it: more people may write that.
func (s *sight) outdated(n int, leaves client.Object) bool {
	_, step := stamped(leaves)
	return !s.hosts[n].runs() || step < s.signed-1
}

func (k *keptAuthorities) write(secret *corev1.Secret, files authority.Files) error {
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[shape.AnnotationAuthorities], secret.Data = string(text), files
	return nil
}

func keptBy(o client.Object) *keptAuthorities {
	k := &keptAuthorities{}
	if err := json.Unmarshal([]byte(o.GetAnnotations()[shape.AnnotationAuthorities]), k); err != nil || k.Step == 0 {
		return nil
	}
	return k
}

// keys is the Secret with the authorities' keys, as far as its metadata go; nil: there is none.
func (s *sight) keys() client.Object {
	for _, o := range s.secrets {
		if o.GetName() == s.shape.AuthoritiesName() {
			return o
		}
	}
	return nil
}

// rotation reads how far the authorities are rotated.
func (s *sight) rotation() {
	a := &decide.Authorities{}
	all := []client.Object{}
	if bundle := s.find(s.shape.Bundle(nil)); bundle != nil {
		all = append(all, bundle)
	}
	for _, h := range s.hosts {
		if h.leaves != nil {
			all = append(all, h.leaves)
			_, step := stamped(h.leaves)
			s.signed = max(s.signed, step)
		}
	}
	if len(all) == 0 && s.keys() == nil {
		return
	}
	for _, o := range all {
		rotate, step := stamped(o)
		a.Rotate, s.step = max(a.Rotate, rotate), max(s.step, step)
	}
	secret, k := s.keys(), (*keptAuthorities)(nil)
	if secret != nil {
		k = keptBy(secret)
	}
	if k != nil {
		s.signed = max(s.signed, k.Step)
	}
	switch {
	case secret != nil && k == nil && s.step == 0: // of an earlier release, and described soon
		return
	case k == nil || k.Step < s.step:
		s.world.Authorities, s.older = a, secret != nil
		return
	}
	s.world.Authorities, s.kept, s.step = a, k, k.Step
	*a = decide.Authorities{There: true, Rotate: max(a.Rotate, k.Rotate), Phase: k.Phase, Since: k.Since, ByTime: k.ByTime, Trusts: k.Trusts, Signs: k.Signs, Member: k.Member, Due: s.spread(k.Due), Ends: k.Ends}
	for i := range s.world.Hosts {
		h := &s.world.Hosts[i]
		if leaves := s.hosts[h.N].leaves; leaves != nil {
			_, step := stamped(leaves)
			h.OldLeaves = step != k.Step
		}
		pod := s.hosts[h.N].pod
		h.Outlived = pod != nil && slices.Contains(k.Pods, pod.UID)
	}
}

// compareKeys looks, while a rotation is under way, whether the keys are those of its step: a step that goes on from others would fail
// for ever. What was edited is as good as gone.
func (r *Reconciler) compareKeys(ctx context.Context, s *sight) error {
	if s.kept == nil || s.kept.Phase == cluster.RotateDone || s.ended() {
		return nil
	}
	secret := &corev1.Secret{}
	switch err := r.Live.Get(ctx, s.keysName(), secret); {
	case apierrors.IsNotFound(err): // which the next look sees
		return nil
	case err != nil:
		return err
	case s.keys().GetResourceVersion() != secret.ResourceVersion:
		return nil
	}
	is, err := authority.Describe(secret.Data, s.world.Now)
	if err == nil && s.kept.Phase == cluster.RotateTrust { // the keys of the next ones are to fit, too
		_, err = authority.Describe(authority.Sign(secret.Data), s.world.Now)
	}
	if err == nil && is.Equal(s.kept.Certificates) {
		return nil
	}
	s.world.Authorities = &decide.Authorities{Rotate: s.world.Authorities.Rotate, Phase: s.kept.Phase}
	s.kept, s.older = nil, true
	return nil
}

// errAuthorityGone says that the authorities' keys are not there any more. They are not made again.
var errAuthorityGone = errors.New("the Secret with the authorities' keys is gone: leaves last for months yet. Put it back if there is a backup")

// errAuthorityChanged says that they are others than those of the last step.
var errAuthorityChanged = errors.New("the Secret with the authorities' keys is not that of the last step: it was edited, or put back from an earlier time. Nothing is issued by it. Put the last one back if there is a backup")

// errAuthorityStray says that a Secret of that name is there, and is not known to be this cluster's.
var errAuthorityStray = errors.New("a Secret has the name of the one with the authorities' keys, and not its labels and annotations: nothing is issued by it, and nothing is written to it. If it was put back, put it back with its labels and annotations; otherwise save it elsewhere, and delete it")

// errAuthorityEnded says that nothing can be issued by them any more; decide says what helps.
var errAuthorityEnded = errors.New("no certificate can be issued: the authorities' life is over")

// authorities are the files of the cluster's authorities: read when they are needed, made when there never were any. Nil:
// nothing needs them now.
func (r *Reconciler) authorities(ctx context.Context, s *sight) (authority.Files, error) {
	bundle := s.find(s.shape.Bundle(nil))
	if s.older {
		return nil, errAuthorityChanged
	}
	if bundle != nil && s.kept != nil && !s.needsKeys && bundle.GetAnnotations()[shape.AnnotationStep] == s.kept.stamp() {
		return nil, nil
	}
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, s.keysName(), secret)
	switch {
	case err == nil:
	case !apierrors.IsNotFound(err):
		return nil, err
	case bundle != nil || len(s.hosts) > 0:
		return nil, errAuthorityGone
	default:
		if secret, err = r.makeAuthorities(ctx, s); err != nil {
			return nil, err
		}
	}
	if secret.Labels[shape.LabelUID] != s.shape.UID {
		return nil, errAuthorityStray
	}
	kept := keptBy(secret)
	if kept == nil {
		if kept, err = r.describeAuthorities(ctx, s, secret); err != nil {
			return nil, err
		}
	}
	if kept.ended(s.world.Now) {
		return nil, errAuthorityEnded
	}
	is, err := authority.Describe(secret.Data, s.world.Now)
	if err != nil {
		return nil, err
	}
	if kept.Step < s.step || !is.Equal(kept.Certificates) {
		return nil, errAuthorityChanged
	}
	s.kept, s.step = kept, kept.Step
	return secret.Data, nil
}

func (k *keptAuthorities) ended(now time.Time) bool { return !k.Ends.IsZero() && now.After(k.Ends) }

func (s *sight) ended() bool { return s.kept.ended(s.world.Now) }

func (s *sight) keysName() client.ObjectKey {
	return client.ObjectKey{Namespace: s.shape.Namespace, Name: s.shape.AuthoritiesName()}
}

func (r *Reconciler) makeAuthorities(ctx context.Context, s *sight) (*corev1.Secret, error) {
	files, err := r.firstAuthorities(ctx, s)
	if err != nil {
		return nil, err
	}
	is, err := authority.Describe(files, s.world.Now)
	if err != nil {
		return nil, err
	}
	made := s.shape.Authorities(nil)
	kept := &keptAuthorities{Rotate: s.world.Want.Rotate, Step: 1, Phase: cluster.RotateDone, Certificates: is}
	if err := kept.write(made, files); err != nil {
		return nil, err
	}
	if err := r.Writer.Create(ctx, s.shape, made); err != nil {
		return nil, err
	}
	secret := &corev1.Secret{}
	return secret, r.Live.Get(ctx, s.keysName(), secret) // another operator may have been first
}

// describeAuthorities writes on a Secret of an earlier release what it has. That of a cluster which has seen a step since was put
// back without what said so.
func (r *Reconciler) describeAuthorities(ctx context.Context, s *sight, secret *corev1.Secret) (*keptAuthorities, error) {
	if s.step > 0 {
		return nil, errAuthorityChanged
	}
	is, err := authority.Describe(secret.Data, s.world.Now)
	if err != nil {
		return nil, err
	}
	kept := &keptAuthorities{Step: 1, Phase: cluster.RotateDone, Certificates: is}
	if trust, sign := authority.Rotating(secret.Data); trust {
		kept.Phase = cluster.RotateTrust
	} else if sign {
		kept.Phase = cluster.RotateSign
	}
	if err := kept.write(secret, secret.Data); err != nil {
		return nil, err
	}
	return kept, r.Writer.Update(ctx, secret)
}

// rotate writes the next step of the authorities, keys and phase in one write.
func (r *Reconciler) rotate(ctx context.Context, s *sight, step decide.Step) error {
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, s.keysName(), secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	if !missing && secret.Labels[shape.LabelUID] != s.shape.UID {
		return errAuthorityStray
	}
	if seen := s.keys(); missing != (seen == nil) || seen != nil && seen.GetResourceVersion() != secret.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, s.shape.AuthoritiesName(), errors.New("it was changed since the look"))
	}
	files, err := r.rotated(ctx, s, step, secret.Data)
	if err != nil {
		return err
	}
	is, err := authority.Describe(files, s.world.Now)
	if err != nil {
		return err
	}
	kept := &keptAuthorities{Rotate: step.Rotate, Step: s.step + 1, Phase: step.Phase, Since: s.world.Now.UTC().Round(time.Second), ByTime: step.ByTime, Certificates: is}
	if step.Phase == cluster.RotateDrop && s.ended() {
		for _, n := range slices.Sorted(maps.Keys(s.hosts)) {
			if pod := s.hosts[n].pod; pod != nil {
				kept.Pods = append(kept.Pods, pod.UID)
			}
		}
	}
	if missing {
		secret = s.shape.Authorities(nil)
	}
	if err := kept.write(secret, files); err != nil {
		return err
	}
	if missing {
		return r.Writer.Client.Create(ctx, secret, client.FieldOwner(shape.Manager))
	}
	return r.Writer.Update(ctx, secret)
}

// rotated are the files of the next step.
func (r *Reconciler) rotated(ctx context.Context, s *sight, step decide.Step, had authority.Files) (authority.Files, error) {
	now := s.world.Now
	if step.Phase == cluster.RotateTrust {
		base, err := r.trusted(ctx, s, had)
		if err != nil {
			return nil, err
		}
		return authority.Next(base, now)
	}
	if step.Phase == cluster.RotateDrop && s.ended() {
		return authority.Anew(had, now)
	}
	if is, err := authority.Describe(had, now); err != nil {
		return nil, err
	} else if !is.Equal(s.kept.Certificates) {
		return nil, errAuthorityChanged
	}
	switch step.Phase {
	case cluster.RotateSign:
		return authority.Sign(had), nil
	case cluster.RotateDrop:
		return authority.Drop(had, now)
	default:
		return authority.Forget(had), nil
	}
}

// trusted are the files that a rotation begins with: the authorities as they are, where they are those that hosts trust and show.
// Else whom they trust is taken from the Secrets of those that run; what clients have, which more people may write, counts where
// none does.
func (r *Reconciler) trusted(ctx context.Context, s *sight, had authority.Files) (authority.Files, error) {
	var with []authority.Files
	ours := s.kept != nil
	if ours {
		is, err := authority.Describe(had, s.world.Now)
		ours = err == nil && is.Equal(s.kept.Certificates)
	}
	for _, n := range slices.Sorted(maps.Keys(s.hosts)) {
		leaves := &corev1.Secret{}
		if s.hosts[n].leaves == nil || s.outdated(n, s.hosts[n].leaves) {
			continue
		}
		if err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.shape.Namespace, Name: s.shape.LeavesName(n)}, leaves); err != nil {
			return nil, err
		}
		with = append(with, leaves.Data)
		ours = ours && authority.Vouch(had, leaves.Data, s.world.Now) == nil
	}
	if ours {
		return had, nil
	}
	if bundle, is := s.find(s.shape.Bundle(nil)).(*corev1.ConfigMap); is && len(with) == 0 {
		files := authority.Files{}
		for name, text := range bundle.Data {
			files[name] = []byte(text)
		}
		with = append(with, files)
	}
	return authority.Regain(had, with...)
}

// lostKeys says that a step fails for a key that is lost, or for others than those that hosts know.
func lostKeys(w *decide.World, err error) *decide.Wait {
	other := func(code decide.Code, is error) *decide.Wait {
		out := w.Renewed(code, is.Error())
		return &out
	}
	switch {
	case errors.Is(err, errAuthorityGone):
		return other(decide.AuthorityGone, errAuthorityGone)
	case errors.Is(err, pki.ErrNoKey):
		return &decide.Wait{Code: decide.AuthorityGone, Sentence: "a key of the authorities is lost, and until the rotation that makes up for it has the next ones sign, no host is made: see the condition Rotating"}
	case errors.Is(err, errAuthorityEnded):
		return &decide.Wait{Code: decide.AuthorityEnded, Sentence: errAuthorityEnded.Error()}
	case errors.Is(err, errAuthorityStray):
		return other(decide.AuthorityChanged, errAuthorityStray)
	case errors.Is(err, errAuthorityChanged), errors.Is(err, authority.ErrForeign):
		return other(decide.AuthorityChanged, errAuthorityChanged)
	}
	return nil
}
