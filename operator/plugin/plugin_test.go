package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
)

// The host that began to join last goes first, and those that have joined before any that has not.
func TestInOrder(t *testing.T) {
	for _, c := range []struct{ joined, want []int }{{nil, []int{1, 2, 3, 4}}, {[]int{1, 4, 2}, []int{2, 1, 4, 3}}, {[]int{9, 3}, []int{3, 1, 2, 4}}} {
		if got := inOrder([]int{1, 2, 3, 4}, c.joined); !slices.Equal(got, c.want) {
			t.Errorf("joined are %v: %v", c.joined, got)
		}
	}
}

// The cluster that is meant is the same by every word.
func TestWhichClusterIsMeant(t *testing.T) {
	for _, c := range []struct {
		flag, written, spec, is string
		code                    int
	}{
		{"", "", "", "", 0}, {"ab", "", "", "ab", 0}, {"", "ca ab", "", "ab", 0}, {"", "ca", "ab", "ab", 0}, {"0ab", "ca ab", "", "0ab", 0},
		{"", "ca ab", "0ab", "ab", 0}, {"", "ca ab", "cd", "", exitWaiting}, {"cd", "ca ab", "cd", "", exitWaiting},
		{"cd", "ca ab", "", "", exitUnsafe}, {"cd", "ca", "ab", "", exitUnsafe}, {"main", "", "", "", 2}, {"0", "", "", "", 2},
	} {
		ec := &v1alpha1.EtcdCluster{}
		ec.Spec.Bootstrap = &v1alpha1.Bootstrap{Adopt: &v1alpha1.Adopt{ClusterID: c.spec}}
		a := &adoption{id: c.flag}
		err := a.means(ec, c.written)
		var f *failure
		if errors.As(err, &f); c.code == 0 && (err != nil || a.id != c.is) || c.code != 0 && (f == nil || f.code != c.code) {
			t.Errorf("%+v: %q, %v", c, a.id, err)
		}
	}
}

// The hosts that have begun to join are known by their peer URLs, and no other cluster's are.
func TestLastJoined(t *testing.T) {
	names := shape.Cluster{Namespace: "team", Name: "main"}
	of := func(namespace string, n int) []string {
		return []string{"https://" + shape.Cluster{Namespace: namespace, Name: "main"}.HostDNS(n) + ":2380"}
	}
	for want, ours := range map[string][][]string{"[]": nil, "[1 3]": {of("team", 1), of("team", 3)}, "[3 1]": {of("team", 3), of("team", 1)}} {
		view := record.Of(&corev1.ConfigMap{}, nil)
		if ours != nil {
			if err := control.New(view, "").Known().PutJoining(t.Context(), "", &control.Joining{Cluster: 1, Ours: ours}); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := joinedHosts(t.Context(), names, view.Control); fmt.Sprint(n) != want || err != nil {
			t.Errorf("of %v: %d, %v", ours, n, err)
		}
	}
	view := record.Of(&corev1.ConfigMap{}, nil)
	if err := control.New(view, "").Known().PutJoining(t.Context(), "", &control.Joining{Ours: [][]string{of("other", 2)}}); err != nil {
		t.Fatal(err)
	}
	if n, err := joinedHosts(t.Context(), names, view.Control); len(n) != 0 || err != nil {
		t.Errorf("of another namespace: %d, %v", n, err)
	}
	for key := range view.Control.Data {
		view.Control.Data[key] = strings.Repeat("x", 3)
	}
	if _, err := joinedHosts(t.Context(), names, view.Control); err == nil {
		t.Error("what cannot be read says nothing")
	}
}

// Each command is in a group, says what it does, and shows how.
func TestHelp(t *testing.T) {
	root := tree(new(place))
	if n := len(root.Commands()); n != 8 {
		t.Errorf("%d commands", n)
	}
	for _, c := range root.Commands() {
		if c.GroupID == "" || c.Short == "" || c.Long == "" || c.Example == "" {
			t.Errorf("%s: group %q, %q, %q, %q", c.Name(), c.GroupID, c.Short, c.Long, c.Example)
		}
	}
}
