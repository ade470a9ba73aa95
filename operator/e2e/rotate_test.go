package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/pki"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func certificates(t *testing.T, text []byte) (all []*x509.Certificate) {
	t.Helper()
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all
		}
		c, err := x509.ParseCertificate(block.Bytes)
		must(t, err)
		all = append(all, c)
	}
}

// trust is whom a host trusts, which has its Secret at once, and whose member is restarted at once; nil: it has none.
func (h *hand) trust(ctx context.Context, host string) (*control.TrustStatus, error) {
	secret := &corev1.Secret{}
	if err := h.c.Get(ctx, h.key(host+"-leaves"), secret); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	is, err := authority.Describe(secret.Data)
	valid := func(c *x509.Certificate) bool { return h.time().Before(c.NotAfter) }
	if err != nil || !slices.ContainsFunc(certificates(h.t, secret.Data[pki.ClientsCA+".crt"]), valid) { // they have ended, and nobody hears it
		return nil, nil
	}
	out := &control.TrustStatus{Daemon: is.Trusts, Member: is.Member}
	for name, by := range map[string]string{"daemon": pki.ManagerCA, "operator": pki.ManagerCA, "peer": pki.PeersCA, "server": pki.ClientsCA, "client": pki.ClientsCA} {
		signer := ""
		for _, a := range certificates(h.t, secret.Data[by+".crt"]) {
			if certificates(h.t, secret.Data[name+".crt"])[0].CheckSignatureFrom(a) == nil {
				signer = pki.Fingerprint(a)
			}
		}
		out.Signed = append(out.Signed, signer)
	}
	slices.Sort(out.Signed)
	out.Signed = slices.Compact(out.Signed)
	return out, nil
}

// authorities are the files and what is said of them.
func (h *hand) authorities() (authority.Files, struct {
	Rotate, Step int
	Phase        string
}) {
	secret, said := &corev1.Secret{}, struct {
		Rotate, Step int
		Phase        string
	}{}
	must(h.t, h.c.Get(h.t.Context(), h.key(h.name+"-authorities"), secret))
	if text := secret.Annotations[shape.AnnotationAuthorities]; text != "" {
		must(h.t, json.Unmarshal([]byte(text), &said))
	}
	return secret.Data, said
}

// rotated says why a rotation is not over: of a number, with hosts that trust and show the next authorities alone.
func (h *hand) rotated(n int, former authority.Files) func() error {
	return func() error {
		files, said := h.authorities()
		if said.Rotate != n || said.Phase != "done" {
			return fmt.Errorf("it is at %+v: %+v", said, h.condition(v1alpha1.Rotating))
		}
		is, err := authority.Describe(files)
		if err != nil {
			return err
		}
		var was []string
		for _, name := range []string{pki.ManagerCA, pki.PeersCA, pki.ClientsCA} {
			for _, c := range certificates(h.t, former[name+".crt"]) {
				was = append(was, pki.Fingerprint(c))
			}
		}
		maps.DeleteFunc(files, func(name string, _ []byte) bool { return strings.Contains(name, ".aside.") })
		if len(is.Trusts) != 3 || len(files) != 6 || slices.ContainsFunc(is.Trusts, func(c string) bool { return slices.Contains(was, c) }) {
			return fmt.Errorf("trusted are %v, before were %v, of %v", is.Trusts, was, slices.Sorted(maps.Keys(files)))
		}
		for _, host := range h.runs() {
			told, err := h.trust(h.t.Context(), host)
			if err != nil || told == nil || !slices.Equal(told.Daemon, is.Trusts) || !slices.Equal(told.Signed, is.Signs) {
				return fmt.Errorf("%s trusts others: %+v, %w", host, told, err)
			}
		}
		bundle := &corev1.ConfigMap{}
		must(h.t, h.c.Get(h.t.Context(), h.key(h.name+"-ca"), bundle))
		if !maps.Equal(bundle.Data, authority.Bundle(files)) {
			return errors.New("clients are told to trust others")
		}
		return nil
	}
}

func newHand(t *testing.T) *hand {
	_, ns := server(t)
	return &hand{t: t, c: watching(t), ns: ns, name: "main", silent: map[string]bool{}}
}

// One more than before replaces the authorities, and a number that was there from the start does not. What is told of it stays.
func TestRotate(t *testing.T) {
	h := newHand(t)
	r, writes := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, h.ns, etcdCluster(h.name, "size: 3, version: 3.6.16, storage: {size: 1Gi}, tls: {rotate: 4}"))))
	must(t, h.settle(r, "create", h.ready(3, 3)))
	first, said := h.authorities()
	if said.Rotate != 4 || said.Step != 1 || said.Phase != "done" || len(first) != 6 {
		t.Fatalf("%+v of %d files", said, len(first))
	}
	h.silent["main-2"] = true
	h.patch(`{"spec":{"tls":{"rotate":5}}}`)
	waits := func(reason, text string) func() error {
		return func() error {
			if c := h.condition(v1alpha1.Rotating); c.Status != metav1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, text) {
				return fmt.Errorf("%+v", c)
			}
			return nil
		}
	}
	must(t, h.settle(r, "waits for a host", waits("TrustBoth", "the daemons do not hear main-2")))
	h.patch(`{"spec":{"paused":true}}`)
	must(t, h.settle(r, "paused", waits("TrustBoth", "see the condition Ready")))
	h.silent = map[string]bool{}
	for range 5 {
		_, err := r.Reconcile(t.Context(), request(h))
		must(t, err)
		must(t, h.turn(t.Context()))
	}
	must(t, waits("TrustBoth", "")())
	h.patch(`{"spec":{"paused":false}}`)
	r.RotationGrace = time.Hour
	must(t, h.settle(r, "clients have time", waits("TrustBoth", "clients have until")))
	if files, said := h.authorities(); said.Step != 2 || !slices.Equal(files["etcd-peers-ca.key"], first["etcd-peers-ca.key"]) {
		t.Errorf("another key signs already: %+v", said)
	}
	r.RotationGrace = 0
	must(t, h.settle(r, "rotated", h.and(h.rotated(5, first), h.ready(3, 3), func() error {
		if c := h.condition(v1alpha1.Rotating); c.Status != metav1.ConditionFalse || c.Reason != "Done" {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})))
	_, err := r.Reconcile(t.Context(), request(h))
	must(t, err)
	before := writes()
	for range 3 {
		_, err := r.Reconcile(t.Context(), request(h))
		must(t, err)
	}
	if n := writes() - before; n > 0 {
		t.Errorf("%d writes although nothing happens", n)
	}
}

// A host that was stopped with its volume is not waited for, has its leaves of before, and takes nothing from later rotations.
func TestRotateBesideAStoppedHost(t *testing.T) {
	h := newHand(t)
	r, _ := operator(h.c, -1, nil)
	must(t, h.c.Create(t.Context(), object(t, h.ns, etcdCluster(h.name, "size: 5, version: 3.6.16, storage: {size: 1Gi}"))))
	must(t, h.settle(r, "create", h.ready(5, 5)))
	h.patch(`{"spec":{"size":3}}`)
	must(t, h.settle(r, "shrink", h.ready(3, 3)))
	for n := 1; n <= 2; n++ {
		former, _ := h.authorities()
		h.patch(fmt.Sprintf(`{"spec":{"tls":{"rotate":%d}}}`, n))
		must(t, h.settle(r, "rotated", h.and(h.rotated(n, former), h.ready(3, 3))))
	}
	// It votes again, as the survivor of a recovery does: it starts with leaves of now.
	stopped := &corev1.Secret{}
	must(t, h.c.Get(t.Context(), h.key("main-4-leaves"), stopped))
	must(t, h.votes("main-4"))
	must(t, h.settle(r, "started", func() error {
		if !slices.Contains(h.runs(), "main-4") {
			return fmt.Errorf("there run %v", h.runs())
		}
		return nil
	}))
	now := &corev1.Secret{}
	must(t, h.c.Get(t.Context(), h.key("main-4-leaves"), now))
	if files, _ := h.authorities(); authority.Vouch(files, now.Data, time.Now()) != nil || !slices.Equal(now.Data["peer.key"], stopped.Data["peer.key"]) {
		t.Error("it starts with leaves of before")
	}
}

// votes has a host be among the next voters of the record.
func (h *hand) votes(host string) error {
	m, status := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	for name, o := range map[string]*corev1.ConfigMap{"-control": m, "-status": status} {
		if err := h.c.Get(h.t.Context(), h.key(h.name+name), o); err != nil {
			return err
		}
	}
	view := record.Of(m, status)
	folder := view.Folder(clusterName(m, h))
	in, _, tag, err := folder.ReadIntent(h.t.Context())
	if err != nil {
		return err
	}
	in.Next, in.Write = append(slices.Clone(in.Voters), cluster.Voter{Host: cluster.HostID(host), Member: 77, Disk: "d77"}), in.Write+1
	if _, err := folder.ReplaceIntent(h.t.Context(), tag, in); err != nil {
		return err
	}
	return h.c.Update(h.t.Context(), view.Control)
}

// Operators that are killed after each of their writes in turn: the rotation ends all the same, and so it does with two that take
// turns by what they saw.
func TestRotateKilled(t *testing.T) {
	h := newHand(t)
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	first, _ := h.authorities()
	h.patch(`{"spec":{"tls":{"rotate":1}}}`)
	killed := 0
	for lives := 1; ; lives++ {
		r, _ := operator(h.c, (lives-1)%3+1, nil)
		err := h.settle(r, "rotated", h.and(h.rotated(1, first), h.ready(3, 3)))
		if err == nil {
			break
		}
		if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		if killed++; killed > 100 {
			t.Fatal("there is no end")
		}
	}
	t.Logf("%d operators were killed", killed)
	if killed < 8 {
		t.Errorf("only %d operators were killed", killed)
	}
	if _, said := h.authorities(); said.Step != 5 {
		t.Errorf("%d steps were taken", said.Step)
	}
}

// The Secret with the keys is gone: that is told, nothing is made anew, and one more than before is the way out. So it is for one
// of before the last rotation that is put back, for one that was edited, and for one without what says which step it is of.
func TestAuthoritiesLost(t *testing.T) {
	h := newHand(t)
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	secret := &corev1.Secret{}
	read := func() authority.Files {
		must(t, h.c.Get(t.Context(), h.key("main-authorities"), secret))
		return secret.Data
	}
	older, n := read(), 0
	former0 := secret.DeepCopy()
	again := func(what string) {
		t.Helper()
		n++
		h.patch(fmt.Sprintf(`{"spec":{"tls":{"rotate":%d}}}`, n))
		must(t, h.settle(r, what, h.and(h.ready(3, 3), func() error {
			if _, said := h.authorities(); said.Rotate != n || said.Phase != "done" {
				return fmt.Errorf("%+v: %+v", said, h.condition(v1alpha1.Rotating))
			}
			return nil
		})))
	}
	must(t, h.c.Delete(t.Context(), secret))
	must(t, h.settle(r, "told", h.blocked("AuthorityGone")))
	if err := h.c.Get(t.Context(), h.key("main-authorities"), secret); !apierrors.IsNotFound(err) {
		t.Fatalf("authorities were made anew: %v", err)
	}
	again("regained")
	must(t, h.rotated(1, older)())

	former := read()
	secret.Data, secret.Annotations = former0.Data, former0.Annotations
	must(t, h.c.Update(t.Context(), secret))
	h.patch(`{"spec":{"size":5}}`) // for which leaves are to be issued
	must(t, h.settle(r, "an older one is told", h.blocked("AuthorityChanged")))
	if len(h.runs()) != 3 {
		t.Errorf("hosts were made by authorities of before: %v", h.runs())
	}
	h.patch(`{"spec":{"size":3}}`)
	again("the older one is replaced")
	if files := read(); !slices.Equal(files["etcd-peers-ca.aside.key"], older["etcd-peers-ca.key"]) || slices.Equal(files["etcd-peers-ca.key"], former["etcd-peers-ca.key"]) {
		t.Error("what lay there was not set aside")
	}

	read()
	secret.Annotations = nil
	must(t, h.c.Update(t.Context(), secret))
	must(t, h.settle(r, "one without a step is told", h.blocked("AuthorityChanged")))
	again("the one without a step is replaced")

	read()
	others, err := authority.Create(time.Now())
	must(t, err)
	maps.Copy(secret.Data, others)
	must(t, h.c.Update(t.Context(), secret))
	h.patch(`{"spec":{"size":5}}`)
	must(t, h.settle(r, "an edited one is told", h.blocked("AuthorityChanged")))
	h.patch(`{"spec":{"size":3}}`)
	again("the edited one is replaced")

	read()
	h.patch(fmt.Sprintf(`{"spec":{"tls":{"rotate":%d}}}`, n+1))
	must(t, h.settle(r, "a rotation begins", func() error {
		if _, said := h.authorities(); said.Phase != "trust" {
			return fmt.Errorf("%+v", said)
		}
		return nil
	}))
	read()
	secret.Data["etcd-peers-ca.next.key"] = others["etcd-peers-ca.key"]
	must(t, h.c.Update(t.Context(), secret))
	h.patch(`{"spec":{"size":5}}`)
	must(t, h.settle(r, "one that is edited amid a rotation is told", h.and(h.blocked("AuthorityChanged"), func() error {
		if c := h.condition(v1alpha1.Rotating); c.Status != metav1.ConditionUnknown || c.Reason != "KeysLost" {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})))
	h.patch(`{"spec":{"size":3}}`)
	n++
	again("the one that was edited amid a rotation is replaced")

	read()
	must(t, h.c.Delete(t.Context(), secret))
	must(t, h.settle(r, "told", h.blocked("AuthorityGone")))
	stray := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.ns, Name: secret.Name}, Data: secret.Data}
	must(t, h.c.Create(t.Context(), stray))
	must(t, h.settle(r, "one without labels is told", h.blocked("AuthorityChanged")))
	h.patch(fmt.Sprintf(`{"spec":{"tls":{"rotate":%d}}}`, n+1))
	must(t, h.settle(r, "it stays", h.blocked("AuthorityChanged")))
	must(t, h.c.Delete(t.Context(), stray))
	again("the one without labels is gone")
}

// Leaves of before a rotation that are put back are issued anew with their keys, and the authorities stay. A rotation that is asked
// for in that moment trusts nobody again who was dropped.
func TestLeavesPutBack(t *testing.T) {
	h := newHand(t)
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	first, _ := h.authorities()
	former := &corev1.Secret{}
	must(t, h.c.Get(t.Context(), h.key("main-2-leaves"), former))
	h.patch(`{"spec":{"tls":{"rotate":1}}}`)
	must(t, h.settle(r, "rotated", h.rotated(1, first)))
	second, was := h.authorities()
	putBack := func() {
		now := &corev1.Secret{}
		must(t, h.c.Get(t.Context(), h.key("main-2-leaves"), now))
		now.Data, now.Annotations = former.Data, former.Annotations
		must(t, h.c.Update(t.Context(), now))
	}
	putBack()
	must(t, h.settle(r, "issued anew", h.and(h.rotated(1, first), h.ready(3, 3), func() error {
		now := &corev1.Secret{}
		must(t, h.c.Get(t.Context(), h.key("main-2-leaves"), now))
		if _, is := h.authorities(); is != was || !slices.Equal(now.Data["peer.key"], former.Data["peer.key"]) {
			return fmt.Errorf("the authorities are at %+v", is)
		}
		return nil
	})))
	putBack()
	h.patch(`{"spec":{"tls":{"rotate":2}}}`)
	must(t, h.settle(r, "rotated again", h.and(func() error {
		files, _ := h.authorities()
		if len(certificates(t, files["etcd-peers-ca.crt"])) > 2 || files["etcd-peers-ca.aside.key"] != nil {
			t.Fatal("who was dropped is trusted again")
		}
		return nil
	}, h.rotated(2, second), h.ready(3, 3))))
}

// A cluster of an operator of before: its Secret says nothing of a step. Nothing but that is written, and it rotates then.
func TestAuthoritiesOfBefore(t *testing.T) {
	h := newHand(t)
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	first, _ := h.authorities()
	leaves := map[string]map[string][]byte{}
	strip := func(o client.Object) {
		must(t, h.c.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		if s, is := o.(*corev1.Secret); is {
			leaves[s.Name] = s.Data
		}
		a := o.GetAnnotations()
		delete(a, shape.AnnotationAuthorities)
		delete(a, shape.AnnotationStep)
		o.SetAnnotations(a)
		must(t, h.c.Update(t.Context(), o))
	}
	for _, name := range []string{"main-authorities", "main-1-leaves", "main-2-leaves", "main-3-leaves"} {
		strip(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: h.ns, Name: name}})
	}
	strip(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.ns, Name: "main-ca"}})
	must(t, h.settle(r, "described", func() error {
		for name := range leaves {
			s := &corev1.Secret{}
			must(t, h.c.Get(t.Context(), h.key(name), s))
			if !maps.EqualFunc(s.Data, leaves[name], slices.Equal) {
				t.Errorf("%s was changed", name)
			}
			if s.Annotations[shape.AnnotationAuthorities]+s.Annotations[shape.AnnotationStep] == "" {
				return fmt.Errorf("%s says nothing", name)
			}
		}
		return h.ready(3, 3)()
	}))
	h.patch(`{"spec":{"tls":{"rotate":1}}}`)
	must(t, h.settle(r, "rotated", h.and(h.rotated(1, first), h.ready(3, 3))))
}

// Authorities are replaced once two thirds of their life are over; and where they have ended, only by a person's word, all at once.
func TestAuthoritiesAge(t *testing.T) {
	h := newHand(t)
	r, _ := operator(h.c, -1, h.time)
	life()[0].do(h)
	must(t, h.settle(r, "create", h.ready(3, 3)))
	first, _ := h.authorities()
	h.skip = 7*365*24*time.Hour + 200*24*time.Hour
	must(t, h.settle(r, "begun", func() error {
		if c := h.condition(v1alpha1.Rotating); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "clients have until") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	}))
	h.skip += 31 * 24 * time.Hour
	must(t, h.settle(r, "signed", func() error {
		if _, said := h.authorities(); said.Phase != "sign" {
			return fmt.Errorf("%+v", said)
		}
		return nil
	}))
	h.skip += 31 * 24 * time.Hour
	must(t, h.settle(r, "done", func() error {
		files, said := h.authorities()
		if said.Phase != "done" || said.Rotate != 0 || slices.Equal(files["etcd-peers-ca.key"], first["etcd-peers-ca.key"]) {
			return fmt.Errorf("%+v", said)
		}
		return nil
	}))
	second, said := h.authorities()
	h.skip += 11 * 365 * 24 * time.Hour
	must(t, h.settle(r, "ended", h.blocked("AuthorityEnded")))
	if _, now := h.authorities(); now != said {
		t.Errorf("nobody asked, and it is at %+v", now)
	}
	h.patch(`{"spec":{"tls":{"rotate":1}}}`)
	h.rolled, h.lets = nil, true
	must(t, h.settle(r, "anew", func() error {
		files, now := h.authorities()
		if now.Rotate != 1 || now.Phase != "done" || slices.Equal(files["etcd-peers-ca.key"], second["etcd-peers-ca.key"]) || !slices.Equal(files["etcd-peers-ca.aside.key"], second["etcd-peers-ca.key"]) {
			return fmt.Errorf("%+v: %+v", now, h.condition(v1alpha1.Rotating))
		}
		return nil
	}))
	if !slices.Equal(h.rolled, []string{"main-1", "main-2", "main-3"}) {
		t.Errorf("started anew were %v", h.rolled)
	}
}

// Real daemons whose authorities end: nothing is done before a person says so; then all pods are started anew, and the cluster is
// the same.
func TestAuthoritiesOfDaemonsEnd(t *testing.T) {
	h := newHand(t)
	k := daemons(t, h)
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	h.patch(`{"spec":{"version":"3.7.3"}}`)
	record := &corev1.ConfigMap{}
	must(t, h.settle(r, "record", func() error { return h.c.Get(t.Context(), h.key("main-control"), record) }))
	const rest = 100 * time.Second
	files, err := authority.Create(time.Now().Add(rest - pki.AuthorityLifetime))
	must(t, err)
	must(t, h.c.Create(t.Context(), shape.Cluster{Namespace: h.ns, Name: "main", UID: record.Labels[shape.LabelUID]}.Authorities(files)))
	settled := func(limit time.Duration, what string, holds func() error) {
		t.Helper()
		began := time.Now()
		within(t, limit, what, func(ctx context.Context) error {
			if _, err := r.Reconcile(ctx, request(h)); err != nil {
				t.Logf("%s: %v", what, err)
			}
			if err := k.turn(ctx); err != nil && !apierrors.IsConflict(err) {
				return err
			}
			return holds()
		})
		t.Logf("%s: %s", what, time.Since(began).Round(time.Second))
	}
	settled(rest, "made", func() error { // from here on the operator is off, or it would rotate in time
		if err := h.c.Get(t.Context(), h.key("main-control"), record); err != nil || record.Data["control__etcd-cluster-spec"] == "" {
			return errors.Join(errors.New("there is no spec"), err)
		}
		return nil
	})
	ends := time.Now().Add(rest) // or before
	within(t, 2*rest, "the daemons are alone until the authorities end", func(ctx context.Context) error {
		if err := k.turn(ctx); err != nil && !apierrors.IsConflict(err) {
			return err
		}
		if time.Now().Before(ends) {
			return errors.New("they last")
		}
		return nil
	})
	settled(rest, "ended", h.blocked("AuthorityEnded"))
	id := h.see().Status.ClusterID
	if len(k.deleted) > 0 {
		t.Fatalf("nobody asked, and stopped were %v", k.deleted)
	}
	h.patch(`{"spec":{"tls":{"rotate":1}}}`)
	settled(3*time.Minute, "anew", h.and(h.rotated(1, files), h.ready(3, 3)))
	slices.Sort(k.deleted)
	if is := h.see().Status.ClusterID; is != id || !slices.Equal(k.deleted, []string{"main-1", "main-2", "main-3"}) {
		t.Errorf("it is %s and was %s; stopped were %v", is, id, k.deleted)
	}
	w := k.write(t, 3)
	within(t, 20*time.Second, "it serves", func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.done < 20 {
			return fmt.Errorf("%d writes, failed: %v", w.done, w.failed)
		}
		return nil
	})
}

// Real daemons, one of whose machines is off: the rotation waits for it, and says so; no other member is restarted meanwhile, and
// none loses a write. It comes back to what has changed, and is taken along.
func TestRotateBesideAMachineThatIsOff(t *testing.T) {
	h := newHand(t)
	k := daemons(t, h)
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	h.patch(`{"spec":{"version":"3.7.3","replaceAfter":"30m"}}`)
	settled := func(limit time.Duration, what string, holds func() error) {
		t.Helper()
		began := time.Now()
		within(t, limit, what, func(ctx context.Context) error {
			if _, err := r.Reconcile(ctx, request(h)); err != nil {
				t.Logf("%s: %v", what, err)
			}
			if err := k.turn(ctx); err != nil && !apierrors.IsConflict(err) {
				return err
			}
			return holds()
		})
		t.Logf("%s: %s", what, time.Since(began).Round(time.Second))
	}
	settled(3*time.Minute, "created", h.ready(3, 3))
	first, _ := h.authorities()
	w := k.write(t, 3)
	k.off = map[string]bool{"main-3": true}
	h.patch(`{"spec":{"tls":{"rotate":1}}}`)
	waits := func() error {
		if c := h.condition(v1alpha1.Rotating); c.Reason != "TrustBoth" || !strings.Contains(c.Message, "main-3") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	}
	settled(2*time.Minute, "waits", waits)
	until := time.Now().Add(25 * time.Second) // more than a kubelet, a daemon and a status take here
	settled(time.Minute, "waits for longer", func() error {
		if time.Now().Before(until) {
			return errors.New("not long enough")
		}
		return nil
	})
	if _, said := h.authorities(); said.Phase != "trust" {
		t.Errorf("it went on without main-3: %+v", said)
	}
	k.off = nil
	settled(4*time.Minute, "rotated", h.and(h.rotated(1, first), h.ready(3, 3)))
	w.end()
	t.Logf("%d writes, %d at the second try", w.done, w.retried)
	if len(w.failed) > 0 || w.done < 100 {
		t.Errorf("%d writes, %d failed: %v", w.done, len(w.failed), w.failed[:min(3, len(w.failed))])
	}
}

// Real daemons, under writes, with an operator that is killed after each of its writes in turn and a kubelet that is late: the authorities are replaced, each
// member is restarted twice and no pod, and no write fails twice. Who shows a certificate of the former ones is refused then.
func TestRotateDaemons(t *testing.T) {
	h := newHand(t)
	k := daemons(t, h)
	r, _ := operator(h.c, -1, nil)
	life()[0].do(h)
	h.patch(`{"spec":{"version":"3.7.3"}}`) // which is built in
	settled := func(limit time.Duration, what string, holds func() error) {
		t.Helper()
		began, lives := time.Now(), 0
		within(t, limit, what, func(ctx context.Context) error {
			if _, err := r.Reconcile(ctx, request(h)); errors.Is(err, errKilled) {
				lives++
				r, _ = operator(h.c, lives%4+1, nil)
				r.RotationGrace = 5 * time.Second
			} else if err != nil {
				t.Logf("%s: %v", what, err)
			}
			if err := k.turn(ctx); err != nil && !apierrors.IsConflict(err) {
				return err
			}
			return holds()
		})
		t.Logf("%s: %s, %d operators were killed", what, time.Since(began).Round(time.Second), lives)
	}
	settled(3*time.Minute, "created", h.ready(3, 3))
	first, _ := h.authorities()
	stolen := &corev1.Secret{}
	must(t, h.c.Get(t.Context(), h.key("main-1-leaves"), stolen))
	k.late = map[string]time.Time{"main-2": {}}
	w := k.write(t, 3)
	r, _ = operator(h.c, 1, nil)
	h.patch(`{"spec":{"tls":{"rotate":1}}}`)
	settled(6*time.Minute, "rotated", h.and(h.rotated(1, first), h.ready(3, 3)))
	w.end()
	t.Logf("%d writes, %d at the second try", w.done, w.retried)
	if len(w.failed) > 0 || w.done < 100 {
		t.Errorf("%d writes, %d failed: %v", w.done, len(w.failed), w.failed[:min(3, len(w.failed))])
	}
	if len(k.deleted) > 0 {
		t.Errorf("pods were stopped: %v", k.deleted)
	}
	pair, err := tls.X509KeyPair(stolen.Data["client.crt"], stolen.Data["client.key"])
	must(t, err)
	for n := 1; n <= 3; n++ {
		c, err := tls.Dial("tcp", fmt.Sprintf("%s:%d", k.address(n), shape.PortClient), &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true})
		if err == nil {
			must(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
			_, err = c.Read(make([]byte, 1)) // by TLS 1.3 a refusal comes with the first bytes
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("main-%d takes a certificate of the former authority: %v", n, err)
		}
	}
}
