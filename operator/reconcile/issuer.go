package reconcile

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/pki"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The request for the certificate of the clients' authority: its key lies beside the others before there is a request, and what
// becomes of that is one fact. It is read past the cache, while it matters, since a watch would fail where cert-manager is not
// installed.

// keptAsked is what the Secret with the authorities' keys says of the request whose key lies there.
type keptAsked struct {
	Request string        `json:"request"`
	Key     string        `json:"key"` // its ID
	Issuer  decide.Issuer `json:"issuer"`
	Rotate  int           `json:"rotate"`
	Tries   int           `json:"tries"`
	Since   time.Time     `json:"since"`
}

// asking bounds each call about a request: all else of the cluster goes on without it.
const asking = 5 * time.Second

// issuerOf is who is to sign the clients' authority, in full.
func issuerOf(t *v1alpha1.TLS) decide.Issuer {
	if t == nil || t.Clients == nil {
		return decide.Issuer{}
	}
	ref := t.Clients.IssuerRef
	out := decide.Issuer{Name: ref.Name, Kind: ref.Kind, Group: ref.Group, Trusted: t.Clients.TrustIssuer}
	if out.Group == "" {
		out.Group = shape.IssuerGroup
	}
	if out.Kind == "" {
		out.Kind = "Issuer"
	}
	return out
}

// readAsked finds out what has become of the request that is out, where it is waited for.
func (r *Reconciler) readAsked(ctx context.Context, s *sight) {
	a := s.world.Authorities
	if a == nil || a.Asked == nil || a.Asked.Issuer != s.world.Want.Issuer || s.world.Want.IssuerBarred || s.cluster.DeletionTimestamp != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	var err error
	if a.Asked.State, a.Asked.Why, a.Asked.At, err = r.judge(ctx, s); err != nil {
		a.Asked.State, a.Asked.Why = decide.AskedUnread, err.Error()
	}
}

// judge classifies the request.
//
// Errors: the API server's.
func (r *Reconciler) judge(ctx context.Context, s *sight) (is decide.AskedState, why string, at time.Time, err error) {
	o, k := shape.Request(), s.asked
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: s.shape.Namespace, Name: k.Request}, o)
	switch {
	case meta.IsNoMatchError(err):
		return decide.AskedNoKind, "", at, nil
	case apierrors.IsNotFound(err):
		return decide.AskedNotSent, "", at, nil
	case err != nil:
		return "", "", at, err
	}
	request := read(o)
	at = request.at
	switch {
	case authority.Requests(request.text) != k.Key || request.issuer != k.Issuer.Ref():
		return decide.AskedRefused, "somebody else's request has that name", at, nil
	case request.refused != "":
		return decide.AskedRefused, request.refused, at, nil
	case len(request.certificate) == 0:
		return decide.AskedPending, request.says, at, nil
	}
	secret := &corev1.Secret{}
	if err := r.Live.Get(ctx, s.keysName(), secret); err != nil {
		return "", "", at, err
	}
	c := s.shape
	host := authority.Host{Cluster: c.ClusterName(), Name: c.Host(1), DNS: []string{c.HostDNS(1)}, Served: c.ServedDNS()}
	s.signature, err = authority.Take(secret.Data, authority.Answer{Certificate: request.certificate, Own: request.ca, Trusted: k.Issuer.Trusted}, host, s.world.Now)
	switch {
	case errors.Is(err, authority.ErrUnfit):
		return decide.AskedRefused, err.Error(), at, nil
	case errors.Is(err, pki.ErrNoKey):
		return decide.AskedRefused, "the key for which it was asked is gone from the Secret", at, nil
	case err != nil:
		return "", "", at, err
	}
	return decide.AskedSigned, "", at, nil
}

// asked is what a CertificateRequest says.
type askedFor struct {
	text, certificate, ca []byte
	issuer                decide.Issuer
	refused, says         string
	at                    time.Time // when its conditions changed last, or it was made
}

func read(o *unstructured.Unstructured) askedFor {
	text := func(fields ...string) string {
		s, _, _ := unstructured.NestedString(o.Object, fields...) // of another kind is missing
		return s
	}
	data := func(fields ...string) []byte {
		b, _ := base64.StdEncoding.DecodeString(text(fields...))
		return b
	}
	out := askedFor{
		text: data("spec", "request"), certificate: data("status", "certificate"), ca: data("status", "ca"), at: o.GetCreationTimestamp().Time,
		issuer: decide.Issuer{Name: text("spec", "issuerRef", "name"), Kind: text("spec", "issuerRef", "kind"), Group: text("spec", "issuerRef", "group")},
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		word := func(field string) string { s, _, _ := unstructured.NestedString(condition, field); return s }
		if at, err := time.Parse(time.RFC3339, word("lastTransitionTime")); err == nil && at.After(out.at) {
			out.at = at
		}
		said := fmt.Sprintf("%s: %#.200q", word("reason"), word("message"))
		switch is := word("status") == "True"; {
		case is && (word("type") == "Denied" || word("type") == "InvalidRequest"):
			out.refused = word("type") + ", " + said
		case word("type") == "Ready" && word("reason") == "Failed" && out.refused == "":
			out.refused = said
		case word("type") == "Ready":
			out.says = said
		}
	}
	return out
}

// askIssuer puts a key beside those that are there, and writes down the request that is to be made for it. Nothing else changes, so
// that no step is counted.
func (r *Reconciler) askIssuer(ctx context.Context, s *sight, step decide.Step) error {
	secret, err := r.seenKeys(ctx, s)
	if err != nil {
		return err
	}
	made := secret == nil
	if made {
		secret = s.shape.Authorities(nil)
	}
	files, id, err := authority.Ask(secret.Data)
	if err != nil {
		return err
	}
	kept := &keptAuthorities{Step: max(s.step, 1), Older: s.older}
	if s.kept != nil {
		copied := *s.kept
		kept = &copied
	} else if a := s.world.Authorities; a != nil {
		kept.Rotate, kept.Phase = a.Rotate, a.Phase
	}
	since := s.world.Now.UTC().Round(time.Second)
	if s.asked != nil && step.Tries > 1 {
		since = s.asked.Since
	}
	kept.Asked = &keptAsked{Request: s.shape.RequestName(id), Key: id, Issuer: step.Issuer, Rotate: step.Rotate, Tries: step.Tries, Since: since}
	if err := kept.write(secret, files); err != nil {
		return err
	}
	if made {
		return r.Writer.Client.Create(ctx, secret, client.FieldOwner(shape.Manager))
	}
	return r.Writer.Update(ctx, secret)
}

// unsentError says that the request could not be made; all else goes on.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return fmt.Sprintf("the request cannot be made: %v", e.err) }
func (e *unsentError) Unwrap() error { return e.err }

// unsent has what is waited for say why the request could not be made; false: err is none of that.
func unsent(w *decide.World, d *decide.Decision, err error) bool {
	if _, is := errors.AsType[*unsentError](err); !is {
		return false
	}
	w.Authorities.Asked.Why = err.Error()
	now := decide.Next(*w).Waits
	for i := range d.Waits {
		if at := slices.IndexFunc(now, func(w decide.Wait) bool { return w.Code == d.Waits[i].Code }); at >= 0 && d.Waits[i].Code == decide.IssuerWaits {
			d.Waits[i] = now[at]
		}
	}
	return true
}

// sendRequest makes the request for the key that lies in the Secret.
func (r *Reconciler) sendRequest(ctx context.Context, s *sight) error {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	secret, err := r.seenKeys(ctx, s)
	if err != nil {
		return err
	}
	if secret == nil || s.asked == nil {
		return errAuthorityGone
	}
	text, err := authority.Request(secret.Data)
	if err != nil {
		return &unsentError{err}
	}
	o := s.shape.CertificateRequest(s.asked.Request, text, pki.AuthorityLifetime, s.asked.Issuer.Name, s.asked.Issuer.Kind, s.asked.Issuer.Group, s.cluster)
	if err := r.Writer.Client.Create(ctx, o, client.FieldOwner(shape.Manager)); err != nil && !apierrors.IsAlreadyExists(err) {
		return &unsentError{err}
	}
	return nil
}

// seenKeys is the Secret with the keys, as it was seen; nil: there is none.
//
// Errors: a conflict, where it was changed since the look; errAuthorityStray.
func (r *Reconciler) seenKeys(ctx context.Context, s *sight) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, s.keysName(), secret)
	missing := apierrors.IsNotFound(err)
	switch seen := s.keys(); {
	case err != nil && !missing:
		return nil, err
	case !missing && secret.Labels[shape.LabelUID] != s.shape.UID:
		return nil, errAuthorityStray
	case missing != (seen == nil), seen != nil && seen.GetResourceVersion() != secret.ResourceVersion:
		return nil, changedSince(s)
	case missing:
		return nil, nil
	}
	return secret, nil
}

// foundAuthorities makes the first authorities of a cluster, of which an issuer may have signed the clients'.
func (r *Reconciler) foundAuthorities(ctx context.Context, s *sight, step decide.Step) error {
	secret, err := r.seenKeys(ctx, s)
	if err != nil {
		return err
	}
	made := secret == nil
	if made {
		secret = s.shape.Authorities(nil)
	}
	files, err := authority.Found(s.signature, s.world.Now)
	if err != nil {
		return err
	}
	is, err := authority.Describe(files)
	if err != nil {
		return err
	}
	kept := &keptAuthorities{Rotate: step.Rotate, Step: s.step + 1, Phase: cluster.RotateDone, Issuer: step.Issuer, Certificates: is}
	if err := kept.write(secret, maps.Clone(files)); err != nil {
		return err
	}
	if made {
		return r.Writer.Client.Create(ctx, secret, client.FieldOwner(shape.Manager))
	}
	return r.Writer.Update(ctx, secret)
}
