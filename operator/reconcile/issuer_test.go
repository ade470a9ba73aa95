package reconcile

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var corp = decide.Issuer{Name: "corp", Kind: "Issuer", Group: "cert-manager.io"}

// answers is an API server that has one request, or an error in place of it, and the Secret with the keys.
type answers struct {
	client.Reader
	request *unstructured.Unstructured
	err     error
	secret  corev1.Secret
	waits   bool // it does not answer
}

func (a *answers) Get(ctx context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	switch o := o.(type) {
	case *corev1.Secret:
		a.secret.DeepCopyInto(o)
	case *unstructured.Unstructured:
		if a.waits {
			<-ctx.Done()
			return ctx.Err()
		}
		if a.err != nil {
			return a.err
		}
		o.Object = a.request.DeepCopy().Object
	}
	return nil
}

// judging is a request in a state that a test gives it, and what is to be found.
type judging struct {
	status  map[string]any
	text    []byte
	issuer  string
	err     error
	waits   bool
	trusted bool
	is      decide.AskedState
	says    string
	at      time.Time // zero: nobody says
}

// condition is a status with one beside that of who approved the request.
func condition(kind, status, reason string, at time.Time) map[string]any {
	return map[string]any{"conditions": []any{map[string]any{"type": "Approved", "status": "True"}, map[string]any{"type": kind, "status": status, "reason": reason, "message": "why", "lastTransitionTime": at.Format(time.RFC3339)}}}
}

// What has become of a request is one fact, whatever cert-manager or the API server says; and none of it stops the look.
func TestJudgeRequest(t *testing.T) {
	requested := func() (files authority.Files, id string, text []byte) {
		files, id, err := authority.Ask(nil)
		if err == nil {
			text, err = authority.Request(files)
		}
		if err != nil {
			t.Fatal(err)
		}
		return files, id, text
	}
	files, id, text := requested()
	_, _, others := requested()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	certificate := map[string]any{"certificate": base64.StdEncoding.EncodeToString([]byte("rubbish"))}
	for name, test := range map[string]judging{
		"says nothing":       {is: decide.AskedPending},
		"pending":            {status: condition("Ready", "False", "Pending", at), is: decide.AskedPending, says: "Pending: `why`", at: at},
		"approved":           {status: condition("Approved", "True", "x", at), is: decide.AskedPending, at: at},
		"to be trusted":      {trusted: true, is: decide.AskedPending},
		"denied":             {status: condition("Denied", "True", "policy", at), is: decide.AskedRefused, says: "Denied, policy: `why`", at: at},
		"not denied":         {status: condition("Denied", "False", "policy", at), is: decide.AskedPending, at: at},
		"invalid":            {status: condition("InvalidRequest", "True", "x", at), is: decide.AskedRefused, says: "InvalidRequest", at: at},
		"failed":             {status: condition("Ready", "False", "Failed", at), is: decide.AskedRefused, says: "Failed", at: at},
		"signed, unreadable": {status: certificate, is: decide.AskedRefused, says: "cannot be read"},
		"of another key":     {text: others, is: decide.AskedRefused, says: "somebody else's"},
		"of another issuer":  {issuer: "other", is: decide.AskedRefused, says: "somebody else's"},
		"no text":            {text: []byte("x"), is: decide.AskedRefused, says: "somebody else's"},
		"conditions of none": {status: map[string]any{"conditions": []any{"x", map[string]any{"type": int64(3)}}}, is: decide.AskedPending},
		"missing":            {err: apierrors.NewNotFound(schema.GroupResource{}, "x"), is: decide.AskedNotSent},
		"no cert-manager":    {err: &meta.NoKindMatchError{GroupKind: shape.RequestKind.GroupKind()}, is: decide.AskedNoKind},
		"forbidden":          {err: apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no")), is: decide.AskedUnread, says: "forbidden"},
		"no answer":          {waits: true, is: decide.AskedUnread, says: "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.judge(t, files, id, text) })
		})
	}
}

func (j judging) judge(t *testing.T, files authority.Files, id string, text []byte) {
	issuer := "corp"
	if j.issuer != "" {
		issuer = j.issuer
	}
	if j.text != nil {
		text = j.text
	}
	o := shape.Cluster{Namespace: "n", Name: "main"}.CertificateRequest("r", text, time.Hour, issuer, "Issuer", "cert-manager.io", &v1alpha1.EtcdCluster{})
	if j.status != nil {
		o.Object["status"] = j.status
	}
	r := &Reconciler{Live: &answers{request: o, err: j.err, waits: j.waits, secret: corev1.Secret{Data: files}}}
	s := &sight{cluster: &v1alpha1.EtcdCluster{}, asked: &keptAsked{Request: "r", Key: id, Issuer: corp}}
	s.asked.Issuer.Trusted = j.trusted
	s.world.Want.Issuer, s.world.Authorities = corp, &decide.Authorities{Asked: &decide.Asked{Issuer: corp}}
	ctx, cancel := context.WithTimeout(t.Context(), 3*asking)
	defer cancel()
	began := time.Now()
	r.readAsked(ctx, s)
	if is := s.world.Authorities.Asked; is.State != j.is || !strings.Contains(is.Why, j.says) || s.signature != nil || !is.At.Equal(j.at) {
		t.Errorf("%+v", is)
	}
	if d := time.Since(began); d > asking {
		t.Errorf("that took %s", d)
	}
}

// A key for which an issuer is asked makes no authorities of a Secret: a cluster with hosts has lost its own, and one without is to be
// founded. Beside authorities it changes nothing.
func TestAskedBesideTheAuthorities(t *testing.T) {
	asked := &keptAsked{Request: "r", Key: "k", Issuer: corp, Rotate: 2, Tries: 3, Since: time.Now()}
	full := authority.Certificates{Trusts: []string{"x"}}
	for name, test := range map[string]struct {
		kept                          keptAuthorities
		hosts                         bool
		there, unmade, older, isAsked bool
	}{
		"founding":                 {kept: keptAuthorities{Step: 1, Asked: asked}, unmade: true, isAsked: true},
		"lost":                     {kept: keptAuthorities{Step: 7, Asked: asked}, hosts: true, isAsked: true},
		"lost, with what is older": {kept: keptAuthorities{Step: 7, Asked: asked, Older: true}, hosts: true, older: true, isAsked: true},
		"beside":                   {kept: keptAuthorities{Step: 7, Asked: asked, Certificates: full, Issuer: corp}, hosts: true, there: true, isAsked: true},
		"of before":                {kept: keptAuthorities{Step: 6, Asked: asked, Certificates: full}, hosts: true, older: true},
		"never asked":              {kept: keptAuthorities{Step: 7, Certificates: full}, hosts: true, there: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sight{shape: shape.Cluster{Namespace: "n", Name: "main", UID: "u"}, hosts: map[int]*hostObjects{}}
			test.kept.Phase = cluster.RotateDone
			if test.hosts {
				s.hosts[1] = &hostObjects{leaves: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{shape.AnnotationStep: "2 7"}}}}
				s.world.Hosts = []decide.Host{{N: 1, Name: "main-1", Leaves: true}}
			}
			text, err := json.Marshal(test.kept)
			if err != nil {
				t.Fatal(err)
			}
			s.secrets = []client.Object{&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: s.shape.AuthoritiesName(), Annotations: map[string]string{shape.AnnotationAuthorities: string(text)}}}}
			s.rotation()
			a := s.world.Authorities
			if a == nil || a.There != test.there || a.Unmade != test.unmade || s.older != test.older || (a.Asked != nil) != test.isAsked || (s.kept != nil) != test.there {
				t.Fatalf("%+v, older: %v, %+v", a, s.older, s.kept)
			}
			if a.Asked != nil && (a.Asked.State != decide.AskedUnread || a.Asked.Tries != 3 || a.Asked.Issuer != corp) {
				t.Errorf("%+v", a.Asked)
			}
		})
	}
	s := &sight{shape: shape.Cluster{Namespace: "n", Name: "main", UID: "u"}}
	if s.rotation(); s.world.Authorities == nil || !s.world.Authorities.Unmade {
		t.Errorf("a new cluster has %+v", s.world.Authorities)
	}
}

// Keys and certificates are compared whatever their dates: next authorities that ended in trust are told as that, and those that sign
// are the cluster's own as before. What was edited is told as edited.
func TestNextThatEndedIsNotEdited(t *testing.T) {
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	files, err := authority.Create(began)
	if err == nil {
		files, err = authority.Next(files, nil, began.Add(-11*365*24*time.Hour))
	}
	if err != nil {
		t.Fatal(err)
	}
	is, err := authority.Describe(files)
	if err != nil {
		t.Fatal(err)
	}
	others, err := authority.Create(began)
	if err != nil {
		t.Fatal(err)
	}
	for _, edited := range []bool{false, true} {
		s := &sight{shape: shape.Cluster{Namespace: "n", Name: "main", UID: "u"}, kept: &keptAuthorities{Step: 2, Phase: cluster.RotateTrust, Certificates: is}}
		s.world.Now, s.world.Authorities = began, &decide.Authorities{There: true, OtherEnds: is.OtherEnds}
		s.secrets = []client.Object{&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: s.shape.AuthoritiesName()}}}
		secret := corev1.Secret{Data: maps.Clone(files)}
		if edited {
			secret.Data["etcd-clients-ca.next.key"] = others["etcd-clients-ca.key"]
		}
		r := &Reconciler{Live: &answers{secret: secret}}
		if err := r.compareKeys(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if s.older != edited || (s.kept == nil) != edited || !edited && !s.world.Authorities.OtherEnds.Before(began) {
			t.Errorf("edited %v: told as edited %v, %+v", edited, s.older, s.world.Authorities)
		}
	}
}

// Of authorities that have ended in trust the next ones are used, which are there; of edited ones there are none, and others are made.
func TestNextOfThoseThatEnded(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	files, err := authority.Create(now.Add(-11 * 365 * 24 * time.Hour))
	if err == nil {
		files, err = authority.Next(files, nil, now.Add(-time.Hour))
	}
	if err != nil {
		t.Fatal(err)
	}
	is, err := authority.Describe(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, edited := range []bool{false, true} {
		s := &sight{shape: shape.Cluster{Namespace: "n", Name: "main", UID: "u"}, kept: &keptAuthorities{Step: 2, Phase: cluster.RotateTrust, Certificates: is}}
		s.world.Now, s.world.Authorities = now, &decide.Authorities{There: true, Ends: is.Ends, OtherEnds: is.OtherEnds}
		s.secrets = []client.Object{&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: s.shape.AuthoritiesName()}}}
		secret := corev1.Secret{Data: maps.Clone(files)}
		if edited {
			delete(secret.Data, "etcd-clients-ca.next.key")
		}
		r := &Reconciler{Live: &answers{secret: secret}}
		if err := r.compareKeys(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if s.older || s.kept == nil || s.world.Authorities.OtherEnds.IsZero() != edited {
			t.Errorf("edited %v: told as edited %v, %+v", edited, s.older, s.world.Authorities)
		}
		step := decide.Step{Kind: decide.Rotate, Phase: cluster.RotateDrop, Next: true}
		next, err := r.rotated(t.Context(), s, step, secret.Data)
		if edited {
			if err == nil {
				t.Error("it goes on by keys that are not there")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		signs, err := authority.Describe(next)
		if err != nil || !signs.Ends.Equal(is.OtherEnds) || len(signs.Trusts) != 3 || !slices.Equal(signs.Trusts, signs.Signs) {
			t.Errorf("%+v %v", signs, err)
		}
	}
}

// The issuer is said in full, so that what is written and what is wanted compare.
func TestIssuerOf(t *testing.T) {
	for _, test := range []struct {
		ref  v1alpha1.IssuerRef
		want decide.Issuer
	}{
		{v1alpha1.IssuerRef{Name: "corp"}, corp},
		{v1alpha1.IssuerRef{Name: "corp", Kind: "ClusterIssuer"}, decide.Issuer{Name: "corp", Kind: "ClusterIssuer", Group: "cert-manager.io"}},
		{v1alpha1.IssuerRef{Name: "pca", Kind: "AWSPCAIssuer", Group: "awspca.example"}, decide.Issuer{Name: "pca", Kind: "AWSPCAIssuer", Group: "awspca.example"}},
	} {
		if is := issuerOf(&v1alpha1.TLS{Clients: &v1alpha1.TLSClients{IssuerRef: test.ref}}); is != test.want {
			t.Errorf("%+v: %+v", test.ref, is)
		}
	}
	if is := issuerOf(&v1alpha1.TLS{Clients: &v1alpha1.TLSClients{IssuerRef: v1alpha1.IssuerRef{Name: "corp"}, TrustIssuer: true}}); !is.Trusted || is.Ref() != corp {
		t.Errorf("%+v", is)
	}
	if is := issuerOf(nil); is != (decide.Issuer{}) || issuerOf(&v1alpha1.TLS{Rotate: 1}) != is {
		t.Errorf("%+v", is)
	}
}
