package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/pki"
	"etcdadm.io/operator/act"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What counts of the Secret with the keys: one that is of the last step by which anything was written. One of before is none of
// the cluster's, and neither is one that says nothing where others do; of a cluster in which nothing says a step nothing is known.
func TestStepOfTheAuthorities(t *testing.T) {
	for name, test := range map[string]struct {
		kept                *keptAuthorities
		missing             bool
		leaves, bundle      string
		there, older, known bool
		old                 bool
		rotate              int
	}{
		"of the last step":          {kept: &keptAuthorities{Rotate: 2, Step: 7}, leaves: "2 7", bundle: "2 7", there: true, known: true, rotate: 2},
		"just written":              {kept: &keptAuthorities{Rotate: 2, Step: 7}, leaves: "1 6", bundle: "1 6", there: true, known: true, old: true, rotate: 2},
		"of before":                 {kept: &keptAuthorities{Rotate: 1, Step: 6}, leaves: "2 7", bundle: "1 6", older: true, known: true, rotate: 2},
		"of before, by the bundle":  {kept: &keptAuthorities{Rotate: 1, Step: 6}, leaves: "1 6", bundle: "2 7", older: true, known: true, rotate: 2},
		"without a step":            {leaves: "2 7", bundle: "2 7", older: true, known: true, rotate: 2},
		"gone":                      {missing: true, leaves: "2 7", bundle: "2 7", known: true, rotate: 2},
		"gone, of an older release": {missing: true, known: true},
		"of an older release":       {},
		"described just now":        {kept: &keptAuthorities{Step: 1}, there: true, known: true, old: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sight{shape: shape.Cluster{Namespace: "n", Name: "main", UID: "u"}}
			stamped := func(name, stamp string) metav1.PartialObjectMetadata {
				o := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
				if stamp != "" {
					o.Annotations = map[string]string{shape.AnnotationStep: stamp}
				}
				return o
			}
			leaves, bundle := stamped("main-1-leaves", test.leaves), stamped(s.shape.BundleName(), test.bundle)
			s.hosts = map[int]*hostObjects{1: {leaves: &leaves}}
			s.world.Hosts = []decide.Host{{N: 1, Name: "main-1", Leaves: true}}
			s.shared = append(s.shared, &corev1.ConfigMap{ObjectMeta: bundle.ObjectMeta})
			if !test.missing {
				secret := stamped(s.shape.AuthoritiesName(), "")
				if test.kept != nil {
					test.kept.Phase, test.kept.Certificates = cluster.RotateDone, authority.Certificates{Trusts: []string{"x"}}
					text, err := json.Marshal(test.kept)
					if err != nil {
						t.Fatal(err)
					}
					secret.Annotations = map[string]string{shape.AnnotationAuthorities: string(text)}
				}
				s.secrets = append(s.secrets, &secret)
			}
			s.rotation()
			a := s.world.Authorities
			if (a != nil) != test.known || s.older != test.older || (s.kept != nil) != test.there {
				t.Fatalf("%+v, older: %v, %+v", a, s.older, s.kept)
			}
			if a != nil && (a.There != test.there || a.Rotate != test.rotate) || s.world.Hosts[0].OldLeaves != test.old {
				t.Errorf("%+v, %+v", a, s.world.Hosts)
			}
		})
	}
}

// What helps against lost authorities is a command with its number: one more than was begun, whatever the spec says below that. A
// number that is asked for already is not to be raised.
func TestLostKeysSayTheNumber(t *testing.T) {
	const command = `kubectl --namespace=team patch etcd main --type=merge --patch='{"spec":{"tls":{"rotate":5}}}'`
	for _, err := range []error{errAuthorityGone, errAuthorityChanged, errAuthorityStray} {
		w := &decide.World{Namespace: "team", Name: "main", Authorities: &decide.Authorities{Rotate: 4}}
		if got := lostKeys(w, err); got.Command != command || !strings.HasSuffix(got.Sentence, "Set spec.tls.rotate to 5 for other authorities") {
			t.Errorf("%+v", got)
		}
		w.Want.Rotate = 5
		if got := lostKeys(w, err); got.Command != "" || !strings.Contains(got.Sentence, "By spec.tls.rotate, which is 5, ") {
			t.Errorf("%+v", got)
		}
	}
}

// Who may write what clients have, and no Secret, outdates nobody's leaves by that.
func TestBundleOutdatesNobody(t *testing.T) {
	one := int32(1)
	s := &sight{shape: shape.Cluster{Namespace: "n", Name: "main", UID: "u"}}
	leaves := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{shape.AnnotationStep: "2 7"}}}
	s.hosts = map[int]*hostObjects{1: {leaves: leaves, set: &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &one}}}}
	s.world.Hosts = []decide.Host{{N: 1, Name: "main-1", Leaves: true}}
	s.shared = append(s.shared, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: s.shape.BundleName(), Annotations: map[string]string{shape.AnnotationStep: "0 999"}}})
	s.rotation()
	if s.step != 999 || s.outdated(1, leaves) {
		t.Errorf("step %d, by Secrets %d", s.step, s.signed)
	}
}

// Leaves are outdated that nobody shows, or that are of before the step before: these were put back. After a step by which nobody trusts
// those any more who ended, so are those of the step before.
func TestOutdatedLeaves(t *testing.T) {
	one, none := int32(1), int32(0)
	for _, test := range []struct {
		replicas *int32
		stamp    string
		step     int
		kept     *keptAuthorities
		is       bool
	}{
		{&one, "1 5", 5, nil, false}, {&one, "1 4", 5, nil, false}, {&one, "0 3", 5, nil, true}, {&one, "", 5, nil, true}, {&none, "1 5", 5, nil, true},
		{&one, "", 1, nil, false}, // of an earlier release
		{&one, "1 4", 5, &keptAuthorities{Step: 5}, false}, {&one, "1 4", 5, &keptAuthorities{Step: 5, Cut: true}, true}, {&one, "1 5", 5, &keptAuthorities{Step: 5, Cut: true}, false},
	} {
		leaves := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{shape.AnnotationStep: test.stamp}}}
		s := &sight{step: 999, signed: test.step, kept: test.kept, hosts: map[int]*hostObjects{1: {set: &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: test.replicas}}}}}
		if is := s.outdated(1, leaves); is != test.is {
			t.Errorf("%+v: %v", test, is)
		}
	}
}

// Clusters of one day are due over half a year, each always at the same time, and none before its time.
func TestDueIsSpread(t *testing.T) {
	due, months := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), map[time.Month]int{}
	for n := range 600 {
		s := &sight{shape: shape.Cluster{UID: fmt.Sprint(n)}}
		at := s.spread(due, due.Add(pki.AuthorityLifetime/3))
		if !at.Equal(s.spread(due, due.Add(pki.AuthorityLifetime/3))) || at.Before(due) || at.Sub(due) >= byTimeSpread {
			t.Fatalf("due at %s", at)
		}
		months[at.Month()]++
	}
	for n := range 600 { // of an issuer whose authorities live for less
		s := &sight{shape: shape.Cluster{UID: fmt.Sprint(n)}}
		if at := s.spread(due, due.Add(40*24*time.Hour)); at.Before(due) || at.Sub(due) >= 10*24*time.Hour {
			t.Fatalf("due at %s, which is late", at)
		}
	}
	if len(months) < 6 || months[time.March] < 60 {
		t.Errorf("%v", months)
	}
	if s := (&sight{}); !s.spread(time.Time{}, time.Time{}).IsZero() {
		t.Error("what is not known is due")
	}
}

// dating is an API server that says the time, or refuses to.
type dating struct {
	client.Client
	at    time.Time
	wrong error
	wrote int
}

func (c *dating) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	made := client.CreateOptions{}
	made.ApplyOptions(opts)
	if _, bounded := ctx.Deadline(); !bounded || len(made.DryRun) == 0 {
		c.wrote++
	}
	o.SetCreationTimestamp(metav1.Time{Time: c.at})
	return c.wrong
}

// The API server is asked for the time at each look at authorities that have ended by the operator's clock, and nowhere else. It is asked
// for what it would make now, of which nothing stays; and where it does not say nobody knows.
func TestStamped(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	ended := now.Add(-time.Hour)
	for name, test := range map[string]struct {
		ends  time.Time
		want  decide.Want
		runs  bool
		none  bool
		wrong error
		is    bool
	}{
		"wakes":         {ends: ended, is: true},
		"runs":          {ends: ended, runs: true, is: true},
		"refused":       {ends: ended, wrong: errors.New("exceeded quota")},
		"sleeps":        {ends: ended, want: decide.Want{Hibernate: true}},
		"paused":        {ends: ended, want: decide.Want{Paused: true}},
		"deleted":       {ends: ended, want: decide.Want{Deleted: now}},
		"has not ended": {ends: now.Add(time.Hour)},
		"has none":      {none: true},
	} {
		c := &dating{at: now.Add(-time.Minute), wrong: test.wrong}
		r := &Reconciler{Writer: &act.Writer{Client: c}}
		s := &sight{cluster: &v1alpha1.EtcdCluster{}, kept: &keptAuthorities{Certificates: authority.Certificates{Ends: test.ends}}}
		if test.none {
			s.kept = nil
		}
		s.world = decide.World{Now: now, Want: test.want, Hosts: []decide.Host{{N: 1, Running: test.runs}}}
		r.readStamped(t.Context(), s)
		if is := s.world.Stamped; is.IsZero() == test.is || test.is && !is.Equal(c.at) || (s.world.Unstamped != "") != (test.wrong != nil) || c.wrote > 0 {
			t.Errorf("%s: %s, %q, %d are written", name, is, s.world.Unstamped, c.wrote)
		}
	}
}
