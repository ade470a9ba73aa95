package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/pki"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The Secret with the authorities' keys: what it says of itself, whether it is the cluster's own of now, and what is told where it
// is not.

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
	// Cut: whom the step before had sign had ended, and is trusted by nobody any more: leaves of before count for nothing.
	Cut bool `json:"cut,omitempty"`
	// Issuer is who signed the clients' authority, the next one where there is one, and Asked the request for another one.
	Issuer decide.Issuer `json:"issuer,omitzero"`
	Asked  *keptAsked    `json:"asked,omitempty"`
	// Older: what else lies there is not that of the last step.
	Older bool `json:"older,omitempty"`
	authority.Certificates
}

// bare: it has the key alone for which an issuer is asked. There were no authorities before, or they are lost.
func (k *keptAuthorities) bare() bool { return len(k.Trusts) == 0 }

// stamp is the annotation of what is written by this step.
func (k *keptAuthorities) stamp() string { return fmt.Sprintf("%d %d", k.Rotate, k.Step) }

// stamped are the number and the step by which an object was written; zero: it does not say.
func stamped(o client.Object) (rotate, step int) {
	if _, err := fmt.Sscanf(o.GetAnnotations()[shape.AnnotationStep], "%d %d", &rotate, &step); err != nil {
		return 0, 0
	}
	return rotate, step
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

// compareKeys looks, while a rotation is under way, whether the keys are those of its step: a step that goes on from others would fail
// for ever. It looks before the first pod starts, too, since hosts may need others than the certificates that they have. What was edited
// is as good as gone. Of those that have ended the next ones alone matter.
func (r *Reconciler) compareKeys(ctx context.Context, s *sight) error {
	wakes := len(s.hosts) > 0 && !s.still() && s.world.Rests()
	if s.kept == nil || s.kept.Phase == cluster.RotateDone && !wakes || s.ended() && s.kept.Phase != cluster.RotateTrust {
		return nil
	}
	secret := &corev1.Secret{}
	switch err := r.Live.Get(ctx, s.keysName(), secret); {
	case apierrors.IsNotFound(err):
		if wakes { // else the next look sees it
			s.lose(false)
		}
		return nil
	case err != nil:
		return err
	case s.keys().GetResourceVersion() != secret.ResourceVersion:
		return nil
	}
	is, err := authority.Describe(secret.Data)
	if err == nil && s.kept.Phase == cluster.RotateTrust { // the keys of the next ones are to fit, too
		_, err = authority.Describe(authority.Sign(secret.Data))
	}
	if err == nil && is.Are(s.kept.Certificates) {
		return nil
	}
	if s.ended() {
		s.world.Authorities.OtherEnds = time.Time{}
		return nil
	}
	s.lose(true)
	return nil
}

// lose: the keys are as good as gone. older: something lies in their place.
func (s *sight) lose(older bool) {
	s.world.Authorities = &decide.Authorities{Rotate: s.world.Authorities.Rotate, Phase: s.kept.Phase}
	s.kept, s.older = nil, older
}

// errAuthorityGone says that the authorities' keys are not there any more. They are not made again.
var errAuthorityGone = errors.New("the Secret with the authorities' keys is gone: hosts go on with the certificates that they have, until these end. Put it back if there is a backup")

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
	case s.world.Want.Issuer != (decide.Issuer{}): // nobody signs in its place
		return nil, changedSince(s)
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
	switch {
	case kept.bare() && (bundle != nil || len(s.hosts) > 0):
		return nil, errAuthorityGone
	case kept.bare():
		return nil, changedSince(s)
	case kept.ended(s.world.Now):
		return nil, errAuthorityEnded
	}
	is, err := authority.Describe(secret.Data)
	if err != nil {
		return nil, err
	}
	if kept.Step < s.step || !is.Are(kept.Certificates) {
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
	is, err := authority.Describe(files)
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
	is, err := authority.Describe(secret.Data)
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
