package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/act"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How far an adoption is, is read from the control object, and given up is the cluster that is named.
func TestAdoptionIsRead(t *testing.T) {
	ctx := t.Context()
	joining := func(v *record.View) {
		j := &control.Joining{Cluster: 0xab, Members: 3, Ours: [][]string{{"https://a"}, {"https://b"}}, Promoted: []cluster.MemberID{1}}
		if err := v.Folder("c").PutJoining(ctx, "", j); err != nil {
			t.Fatal(err)
		}
	}
	noted := func(v *record.View) { v.Control.Annotations[shape.AnnotationAdopt] = "old-ca" }
	for what, test := range map[string]struct {
		has     []func(*record.View)
		says    string // the annotation of the EtcdCluster
		is      decide.Adoption
		givenUp bool
	}{
		"nothing": {nil, "", decide.NoAdoption, false},
		"noted":   {[]func(*record.View){noted}, "", decide.Awaited, false},
		"marked": {[]func(*record.View){noted, func(v *record.View) {
			if err := v.Folder("c").MarkToJoin(ctx, time.Now()); err != nil {
				t.Fatal(err)
			}
		}}, "", decide.Awaited, false},
		"joining":                 {[]func(*record.View){noted, joining}, "", decide.UnderWay, false},
		"given up":                {[]func(*record.View){noted, joining}, "ab", decide.UnderWay, true},
		"another one is given up": {[]func(*record.View){noted, joining}, "cd", decide.UnderWay, false},
		"it cannot be read": {[]func(*record.View){noted, func(v *record.View) {
			joining(v)
			for key := range v.Control.Data {
				v.Control.Data[key] = "no JSON"
			}
		}}, "", decide.UnderWay, false},
		"it cannot be read, and any is given up": {[]func(*record.View){noted, func(v *record.View) {
			joining(v)
			for key := range v.Control.Data {
				v.Control.Data[key] = "no JSON"
			}
		}}, "ab", decide.UnderWay, false},
	} {
		view := record.Of(&corev1.ConfigMap{}, &corev1.ConfigMap{})
		view.Control.Annotations = map[string]string{}
		for _, add := range test.has {
			add(view)
		}
		ec := &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{decide.AnnotationGivenUp: test.says}}}
		s := &sight{cluster: ec, control: view.Control, status: view.Status}
		s.record(ctx)
		if got := s.world.Adoption(); got != test.is || s.world.Want.GivenUp != test.givenUp {
			t.Errorf("%s: it is %q, given up: %t (%s)", what, got, s.world.Want.GivenUp, s.world.Unread)
		}
	}
}

// The cluster that is meant is written down, and can be named anew until a host has joined; the Secret is kept, also where only volumes
// have it.
func TestAdoptsIsKept(t *testing.T) {
	const lost = -1 // and with the control object how many have joined
	for _, c := range []struct {
		written, volume, secret, id, want string
		joined                            int
		meant                             cluster.ClusterID
	}{
		{"", "", "old-ca", "", "old-ca", 0, 0},
		{"", "", "old-ca", "ab", "old-ca ab", 0, 0xab},
		{"old-ca", "", "old-ca", "ab", "old-ca ab", 0, 0xab},
		{"old-ca ab", "", "", "", "old-ca ab", 0, 0xab},
		{"old-ca ab", "", "old-ca", "cd", "old-ca cd", 0, 0xcd},
		{"old-ca ab", "", "old-ca", "cd", "old-ca ab", 1, 0xab},
		{"old-ca ab", "", "other", "cd", "old-ca cd", 0, 0xcd},
		{"", "old-ca ab", "", "", "old-ca ab", 0, 0xab},
		{"", "old-ca ab", "old-ca", "cd", "old-ca cd", 0, 0xcd},
		{"", "", "", "", "", 0, 0},
		{"", "", shape.NoSecret, "ab", "- ab", 0, 0xab},
		{"- ab", "", shape.NoSecret, "ab", "- ab", 0, 0xab},
		{"", "- ab", "old-ca", "", "- ab", 0, 0xab},
		{"", "old-ca ab", "old-ca", "cd", "old-ca ab", lost, 0xab},
		{"old-ca cd", "old-ca ab", "old-ca", "cd", "old-ca ab", lost, 0xab},
		{"", "old-ca", "old-ca", "cd", "old-ca cd", lost, 0xcd},
	} {
		s := &sight{cluster: &v1alpha1.EtcdCluster{}, control: &corev1.ConfigMap{}, hosts: map[int]*hostObjects{1: {}, 2: {claim: &corev1.PersistentVolumeClaim{}}}}
		s.control.Annotations = map[string]string{shape.AnnotationAdopt: c.written}
		s.hosts[2].claim.Annotations = map[string]string{shape.AnnotationAdopt: c.volume}
		if c.secret != "" {
			s.cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Adopt: &v1alpha1.Adopt{ClusterID: c.id}}
			if c.secret != shape.NoSecret {
				s.cluster.Spec.Bootstrap.Adopt.Secret = &v1alpha1.SecretName{Name: c.secret}
			}
			s.world.Want.Adopt = &decide.Adopt{Cluster: adoptsID(" " + c.id)}
		}
		s.world.Record.AdoptsID, s.world.Joining = adoptsID(c.written), &decide.Joining{Cluster: 0xab, Hosts: c.joined}
		if c.joined == lost {
			s.world.Joining, s.world.Record.Remade = nil, true
		}
		s.describe()
		if got := s.adopts(); got != c.want || adoptsID(got) != c.meant {
			t.Errorf("%+v: it is %q, of %s", c, got, adoptsID(got))
		}
	}
}

// noting is an API server that a control object and volumes are written to.
type noting struct {
	client.Client
	refuses bool
	wrote   []string
}

func (c *noting) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	if c.refuses {
		return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), nil)
	}
	c.wrote = append(c.wrote, "control: "+o.GetAnnotations()[shape.AnnotationAdopt])
	return nil
}

func (c *noting) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	data, err := p.Data(o)
	change := metav1.PartialObjectMetadata{}
	if err == nil {
		err = json.Unmarshal(data, &change)
	}
	c.wrote = append(c.wrote, o.GetName()+": "+change.Annotations[shape.AnnotationAdopt])
	return err
}

// Which cluster is meant is written into the control object, and after that on volumes: whoever saw an older one writes on none. Where
// the control object was lost, what volumes name stays, and is written there.
func TestNoteAdoption(t *testing.T) {
	for what, c := range map[string]struct {
		written, volumes []string // the control object's first
		remade, refused  bool
		wrote            string
	}{
		"named anew":       {[]string{"old-ca ab"}, []string{"old-ca ab", "old-ca ab"}, false, false, "control: old-ca cd, v1: old-ca cd, v2: old-ca cd"},
		"half done":        {[]string{"old-ca cd"}, []string{"old-ca cd", "old-ca ab"}, false, false, "control: old-ca cd, v2: old-ca cd"},
		"by who saw less":  {[]string{"old-ca ab"}, []string{"old-ca ab", "old-ca ab"}, false, true, ""},
		"lost":             {[]string{}, []string{"old-ca ab", "old-ca ab"}, true, false, "control: old-ca ab"},
		"lost, of several": {[]string{}, []string{"old-ca ab", "old-ca cd"}, true, false, "control: old-ca ab"},
		"lost, of none":    {[]string{}, []string{"old-ca", "old-ca"}, true, false, "control: old-ca cd"},
	} {
		s := &sight{cluster: &v1alpha1.EtcdCluster{}, control: &corev1.ConfigMap{}, status: &corev1.ConfigMap{}, hosts: map[int]*hostObjects{}}
		s.cluster.Spec.Bootstrap = &v1alpha1.Bootstrap{Adopt: &v1alpha1.Adopt{Secret: &v1alpha1.SecretName{Name: "old-ca"}, ClusterID: "cd"}}
		s.world.Want.Adopt, s.world.Record = &decide.Adopt{Cluster: 0xcd}, decide.Record{There: true, Remade: c.remade}
		s.control.Annotations = map[string]string{}
		for _, said := range c.written {
			s.control.Annotations[shape.AnnotationAdopt] = said
			s.world.Record.Adopts, s.world.Record.AdoptsID = true, adoptsID(said)
		}
		for i, said := range c.volumes {
			s.hosts[i+1] = &hostObjects{claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("v", i+1), Annotations: map[string]string{shape.AnnotationAdopt: said}}}}
		}
		s.describe()
		server := &noting{refuses: c.refused}
		err := (&Reconciler{Writer: &act.Writer{Client: server}}).noteAdoption(t.Context(), s)
		if got := strings.Join(server.wrote, ", "); got != c.wrote || apierrors.IsConflict(err) != c.refused || !c.refused && err != nil {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

// What a person is told to write on a control object that was put back is what makes it the cluster's own.
func TestOwnMark(t *testing.T) {
	w := decide.World{Namespace: "team", Name: "main", Record: decide.Record{There: true, Copied: true, Adopts: true}}
	d := decide.Next(w)
	if len(d.Waits) != 1 || d.Waits[0].Code != decide.RecordCopied || !strings.Contains(d.Waits[0].Command, "configmap main-control "+shape.AnnotationSelf+"=") {
		t.Errorf("it says %+v", d.Waits)
	}
}
