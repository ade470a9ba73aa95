package reconcile

import (
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/decide"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		if got := s.adopts(); got != c.want || adoptsID(got) != c.meant {
			t.Errorf("%+v: it is %q, of %s", c, got, adoptsID(got))
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
