package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// byTimeSpread is the time in which clusters that were made in one day have their authorities replaced unasked, so that not all of
// them restart their members in one hour.
const byTimeSpread = time.Duration(pki.AuthorityLifetime / 20)

// spread is the cluster's own moment after due, within byTimeSpread and well before the authorities end.
func (s *sight) spread(due, ends time.Time) time.Time {
	within := byTimeSpread
	if left := ends.Sub(due); !ends.IsZero() {
		within = min(within, left/4)
	}
	if due.IsZero() || within <= 0 {
		return due
	}
	sum := sha256.Sum256([]byte(s.shape.UID))
	return due.Add(time.Duration(binary.BigEndian.Uint64(sum[:]) % uint64(within)))
}

// outdated says that a host's leaves are of before the step before this one: it was stopped, so that nobody shows them; or, where they
// are of somebody who was dropped, they were put back from a backup, since nobody is before all that run have those of that step.
// What clients have says nothing about it: more people may write that. Likewise after a step that has nobody trust those who ended.
func (s *sight) outdated(n int, leaves client.Object) bool {
	_, step := stamped(leaves)
	return !s.hosts[n].runs() || step < s.signed-1 || s.kept != nil && s.kept.Cut && step < s.kept.Step
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
	if len(all) == 0 && s.keys() == nil && len(s.hosts) == 0 {
		s.world.Authorities = &decide.Authorities{Unmade: true}
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
	if s.asked = k.Asked; s.asked != nil {
		a.Asked = &decide.Asked{Request: s.asked.Request, Issuer: s.asked.Issuer, Rotate: s.asked.Rotate, Tries: s.asked.Tries, Since: s.asked.Since, State: decide.AskedUnread}
	}
	if k.bare() {
		a.Rotate, a.Phase, a.Unmade = max(a.Rotate, k.Rotate), k.Phase, len(all) == 0 && len(s.hosts) == 0
		s.world.Authorities, s.older, s.step = a, k.Older, k.Step
		return
	}
	s.world.Authorities, s.kept, s.step = a, k, k.Step
	*a = decide.Authorities{There: true, Rotate: max(a.Rotate, k.Rotate), Phase: k.Phase, Since: k.Since, ByTime: k.ByTime, Trusts: k.Trusts, Signs: k.Signs, Member: k.Member, Due: s.spread(k.Due, k.Ends), Ends: k.Ends, OtherEnds: k.OtherEnds, Issuer: k.Issuer, Asked: a.Asked}
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

// still: nothing is made or started.
func (s *sight) still() bool {
	want := &s.world.Want
	return want.Hibernate || want.Paused || !want.Deleted.IsZero()
}

// readLeaves finds when the certificates end with which hosts are to start, where nothing can be issued in their place and no pod runs.
func (r *Reconciler) readLeaves(ctx context.Context, s *sight) error {
	if w := &s.world; s.still() || !w.Keyless() || !w.Rests() {
		return nil
	}
	for i := range s.world.Hosts {
		h, leaves := &s.world.Hosts[i], &corev1.Secret{}
		if !h.Leaves {
			continue
		}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.shape.Namespace, Name: s.shape.LeavesName(h.N)}, leaves)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("look at the certificates of %s: %w", h.Name, err)
		}
		h.LeavesEnd = authority.LeavesEnd(leaves.Data)
	}
	return nil
}

// readStamped asks the API server for the time, where authorities or certificates have ended by the operator's clock: one clock alone
// ends nobody's. It dates what is made, and does so in a dry run. Nothing is written, and an answer is of this look alone.
func (r *Reconciler) readStamped(ctx context.Context, s *sight) {
	w := &s.world
	lapsed := func(h decide.Host) bool { return !h.LeavesEnd.IsZero() && w.Now.After(h.LeavesEnd) }
	if ended := s.kept != nil && s.ended(); s.still() || !ended && !slices.ContainsFunc(w.Hosts, lapsed) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.shape.Namespace, Name: s.shape.Name + "-time", Labels: s.shape.Selector()}}
	if err := r.Writer.Client.Create(ctx, o, client.DryRunAll, client.FieldOwner(shape.Manager)); err != nil {
		w.Unstamped = err.Error()
		return
	}
	w.Stamped = o.CreationTimestamp.Time
}

// rotate writes the next step of the authorities, keys and phase in one write.
func (r *Reconciler) rotate(ctx context.Context, s *sight, step decide.Step) error {
	secret, err := r.seenKeys(ctx, s)
	if err != nil {
		return err
	}
	missing := secret == nil
	if missing {
		secret = s.shape.Authorities(nil)
	}
	files, err := r.rotated(ctx, s, step, secret.Data)
	if err != nil {
		return err
	}
	is, err := authority.Describe(files)
	if err != nil {
		return err
	}
	kept := &keptAuthorities{Rotate: step.Rotate, Step: s.step + 1, Phase: step.Phase, Since: s.world.Now.UTC().Round(time.Second), ByTime: step.ByTime, Issuer: step.Issuer, Certificates: is}
	if kept.Cut = s.cuts(step); kept.Cut {
		for _, n := range slices.Sorted(maps.Keys(s.hosts)) {
			if pod := s.hosts[n].pod; pod != nil {
				kept.Pods = append(kept.Pods, pod.UID)
			}
		}
	}
	if err := kept.write(secret, files); err != nil {
		return err
	}
	if missing {
		return r.Writer.Client.Create(ctx, secret, client.FieldOwner(shape.Manager))
	}
	return r.Writer.Update(ctx, secret)
}

// cuts: after the step nobody trusts those any more who signed until now, and the others did not sign before it.
func (s *sight) cuts(step decide.Step) bool {
	return step.Phase == cluster.RotateDrop && (step.Next || s.kept == nil || s.ended() || s.kept.Phase != cluster.RotateSign)
}

// changedSince is the conflict with what was seen.
func changedSince(s *sight) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, s.shape.AuthoritiesName(), errors.New("it was changed since the look"))
}

// rotated are the files of the next step.
func (r *Reconciler) rotated(ctx context.Context, s *sight, step decide.Step, had authority.Files) (authority.Files, error) {
	now := s.world.Now
	if step.Phase == cluster.RotateTrust {
		base, err := r.trusted(ctx, s, had)
		if err != nil {
			return nil, err
		}
		return authority.Next(base, s.signature, now)
	}
	if s.cuts(step) && !step.Next {
		return authority.Anew(had, s.signature, now)
	}
	if is, err := authority.Describe(had); err != nil {
		return nil, err
	} else if !is.Are(s.kept.Certificates) {
		return nil, errAuthorityChanged
	}
	switch step.Phase {
	case cluster.RotateSign:
		return authority.Sign(had), nil
	case cluster.RotateDrop:
		if step.Next {
			had = authority.Sign(had)
		}
		return authority.Drop(had, step.Issuer.Trusted)
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
		is, err := authority.Describe(had)
		ours = err == nil && is.Are(s.kept.Certificates)
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
