package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/operator/act"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/authority"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/shape"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shelf is an API server that has Secrets, and says the time.
type shelf struct {
	dating
	secrets map[string]*corev1.Secret
	reads   int
}

func (c *shelf) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	c.reads++
	secret, is := c.secrets[key.Name]
	if !is {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	secret.DeepCopyInto(o.(*corev1.Secret))
	return nil
}

func (c *shelf) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if secret, is := o.(*corev1.Secret); is {
		c.secrets[o.GetName()] = secret
		return nil
	}
	return c.dating.Create(ctx, o, opts...)
}

func (c *shelf) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	c.secrets[o.GetName()] = o.(*corev1.Secret)
	return nil
}

// asleep is a cluster of three hosts that sleeps, whose certificates were issued so long ago.
func asleep(t *testing.T, now time.Time, ago time.Duration) (*shelf, func(secret string) *sight) {
	t.Helper()
	c := &shelf{dating: dating{at: now}, secrets: map[string]*corev1.Secret{}}
	files, err := authority.Create(now.Add(-ago))
	if err != nil {
		t.Fatal(err)
	}
	is, err := authority.Describe(files)
	if err != nil {
		t.Fatal(err)
	}
	of := shape.Cluster{Namespace: "n", Name: "main", UID: "u"}
	for n := 1; n <= 3; n++ {
		leaves, _, err := authority.Issue(files, nil, authority.Host{Cluster: "c", Name: of.Host(n), DNS: []string{of.HostDNS(n)}}, now.Add(-ago))
		if err != nil {
			t.Fatal(err)
		}
		c.secrets[of.LeavesName(n)] = of.Leaves(n, leaves)
		c.secrets[of.LeavesName(n)].Annotations = map[string]string{shape.AnnotationStep: "2 7"}
	}
	return c, func(secret string) *sight {
		t.Helper()
		none := int32(0)
		s := &sight{shape: of, cluster: &v1alpha1.EtcdCluster{}, hosts: map[int]*hostObjects{}}
		s.world = decide.World{Now: now, Namespace: "n", Name: "main", Record: decide.Record{There: true, Next: 4}, Want: decide.Want{Spec: cluster.Spec{MemberCount: 3, EtcdVersion: cluster.Version{Major: 3, Minor: 6, Patch: 16}, DeadAfter: time.Minute}}}
		for n := 1; n <= 3; n++ {
			s.hosts[n] = &hostObjects{leaves: &metav1.PartialObjectMetadata{ObjectMeta: c.secrets[of.LeavesName(n)].ObjectMeta}, set: &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &none}}}
			s.world.Hosts = append(s.world.Hosts, decide.Host{N: n, Name: of.Host(n), Set: true, Leaves: true, LeavesDue: true, Claim: decide.ClaimThere})
		}
		if secret != "lost" {
			kept, made := &keptAuthorities{Rotate: 2, Step: 7, Phase: cluster.RotateDone, Certificates: is}, of.Authorities(nil)
			if err := kept.write(made, maps.Clone(files)); err != nil {
				t.Fatal(err)
			}
			if secret == "edited" {
				delete(made.Data, "etcd-peers-ca.key")
			}
			s.secrets = append(s.secrets, &metav1.PartialObjectMetadata{ObjectMeta: made.ObjectMeta})
			if secret != "lost since" {
				c.secrets[made.Name] = made
			}
		}
		return s
	}
}

// see looks at the authorities as gather does.
func see(t *testing.T, r *Reconciler, s *sight) decide.Decision {
	t.Helper()
	s.rotation()
	err := r.compareKeys(t.Context(), s)
	if err == nil {
		err = r.readLeaves(t.Context(), s)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.readStamped(t.Context(), s)
	return decide.Next(s.world)
}

func does(d decide.Decision, kind decide.Kind) (n int) {
	for _, s := range d.Steps {
		if s.Kind == kind {
			n++
		}
	}
	return n
}

// A cluster that slept for longer than its certificates live, and whose keys are lost, by the cache or past it, or were edited, starts no host with them; by a
// person's word others are made before one starts, and what lay there is set aside.
func TestWakesWithoutKeys(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	const year = 365 * 24 * time.Hour
	for _, test := range []struct {
		secret string
		ago    time.Duration
		asked  bool
		starts int
	}{
		{"there", 2 * year, false, 3}, {"lost", year / 2, false, 3}, {"lost", year / 2, true, 3},
		{"lost", 2 * year, false, 0}, {"lost", 2 * year, true, 0}, {"edited", 2 * year, false, 0}, {"edited", 2 * year, true, 0}, {"edited", year / 2, false, 3}, {"lost since", 2 * year, false, 0}, {"lost since", year / 2, false, 3},
	} {
		c, sleeper := asleep(t, now, test.ago)
		r, s := &Reconciler{Live: c, Writer: &act.Writer{Client: c}}, sleeper(test.secret)
		s.world.Want.Rotate = 2
		if test.asked {
			s.world.Want.Rotate = 3
		}
		d := see(t, r, s)
		if n := does(d, decide.StartHost); n != test.starts || c.wrote > 0 {
			t.Errorf("%+v: %d hosts start, %d are written: %+v", test, n, c.wrote, d)
		}
		if cuts := does(d, decide.Rotate) == 1; cuts != (test.asked && test.starts == 0) {
			t.Errorf("%+v: %+v", test, d)
		} else if cuts {
			test.secret = map[bool]string{true: "set aside"}[test.secret == "edited"]
			replaced(t, r, c, s, d.Steps[0], test.secret != "")
		}
	}
}

// replaced carries out a step by which nobody trusts those any more who signed, and has a host get certificates.
func replaced(t *testing.T, r *Reconciler, c *shelf, s *sight, step decide.Step, aside bool) {
	t.Helper()
	had := c.secrets[s.shape.AuthoritiesName()]
	if err := r.rotate(t.Context(), s, step); err != nil {
		t.Fatal(err)
	}
	made, kept := c.secrets[s.shape.AuthoritiesName()], &keptAuthorities{}
	if err := json.Unmarshal([]byte(made.Annotations[shape.AnnotationAuthorities]), kept); err != nil {
		t.Fatal(err)
	}
	if !kept.Cut || kept.Step != 8 || kept.Rotate != 3 || kept.Phase != cluster.RotateDrop || kept.ended(s.world.Now) || len(kept.Signs) != 3 {
		t.Errorf("%+v", kept)
	}
	if aside && !bytes.Equal(made.Data["etcd-clients-ca.aside.key"], had.Data["etcd-clients-ca.key"]) {
		t.Error("the former keys are not set aside")
	}
	s.secrets, s.kept, s.older, s.needsKeys = []client.Object{&metav1.PartialObjectMetadata{ObjectMeta: made.ObjectMeta}}, nil, false, false
	s.world.Hosts[0].LeavesEnd = time.Time{}
	if d := see(t, r, s); does(d, decide.RenewLeaves) != 3 || does(d, decide.StartHost) != 3 || !s.world.Authorities.There {
		t.Fatalf("%+v", d)
	}
	if err := r.renewLeaves(t.Context(), s, 1); err != nil {
		t.Fatal(err)
	}
	if leaves := c.secrets[s.shape.LeavesName(1)]; leaves.Annotations[shape.AnnotationStep] != "3 8" || !authority.LeavesEnd(leaves.Data).After(s.world.Now) {
		t.Errorf("%+v", leaves.Annotations)
	}
}

// Certificates of hosts are read where they matter: before the first pod starts, and where nothing can be issued.
func TestLeavesAreRead(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for what, change := range map[string]func(s *sight){
		"": func(*sight) {}, "sleeps": func(s *sight) { s.world.Want.Hibernate = true }, "paused": func(s *sight) { s.world.Want.Paused = true },
		"deleted": func(s *sight) { s.world.Want.Deleted = now }, "runs": func(s *sight) { s.world.Hosts[1].Running = true },
		"there": func(s *sight) { s.world.Authorities.There = true }, "never were": func(s *sight) { s.world.Authorities.Unmade = true },
	} {
		c, sleeper := asleep(t, now, time.Hour)
		s := sleeper("lost")
		s.rotation()
		change(s)
		if err := (&Reconciler{Live: c}).readLeaves(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if end := s.world.Hosts[0].LeavesEnd; c.reads != 0 && what != "" || what == "" && (c.reads != 3 || !end.Equal(now.Add(-time.Hour+authority.Life.Duration.Round(time.Second)))) {
			t.Errorf("%q: %d are read, until %s", what, c.reads, end)
		}
	}
}

// Hosts of which nothing but volumes and sets is left have lost their authorities, whatever is asked for.
func TestNothingButHosts(t *testing.T) {
	s := &sight{shape: shape.Cluster{Namespace: "n", Name: "main", UID: "u"}, hosts: map[int]*hostObjects{1: {}}}
	if s.rotation(); s.world.Authorities == nil || s.world.Authorities.There || s.world.Authorities.Unmade {
		t.Errorf("%+v", s.world.Authorities)
	}
	s.hosts = nil
	if s.rotation(); !s.world.Authorities.Unmade {
		t.Errorf("%+v", s.world.Authorities)
	}
}

// A cluster whose keys are lost, and that slept in trust, goes on with the next ones, which are there; or with others that are made now.
func TestWakesInTrust(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	c, sleeper := asleep(t, now, time.Hour)
	s := sleeper("lost")
	files, err := authority.Regain(nil, c.secrets[s.shape.LeavesName(1)].Data)
	if err == nil {
		files, err = authority.Next(files, nil, now)
	}
	if err != nil {
		t.Fatal(err)
	}
	is, err := authority.Describe(files)
	if err != nil || !is.Ends.IsZero() {
		t.Fatal(is, err)
	}
	next, err := authority.Describe(authority.Sign(files))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []decide.Step{{Kind: decide.Rotate, Phase: cluster.RotateDrop, Next: true}, {Kind: decide.Rotate, Phase: cluster.RotateDrop}} {
		s.kept = &keptAuthorities{Step: 8, Phase: cluster.RotateTrust, Certificates: is}
		made, err := (&Reconciler{}).rotated(t.Context(), s, step, files)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := authority.Describe(made); err != nil || len(got.Trusts) != 3 || slices.Equal(got.Signs, next.Signs) != step.Next || !s.cuts(step) {
			t.Errorf("%+v: %+v, %v", step, got, err)
		}
	}
	s.kept.Phase = cluster.RotateSign
	if s.cuts(decide.Step{Kind: decide.Rotate, Phase: cluster.RotateDrop}) {
		t.Error("a rotation that goes its way counts leaves of the step before for nothing")
	}
}
