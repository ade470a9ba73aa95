package plugin

import (
	"strings"
	"testing"

	"etcdadm.io/internal/control"
	"etcdadm.io/operator/record"
	"etcdadm.io/operator/shape"
	corev1 "k8s.io/api/core/v1"
)

// The host that began to join last is known by its peer URLs, and no other cluster's is.
func TestLastJoined(t *testing.T) {
	names := shape.Cluster{Namespace: "team", Name: "main"}
	of := func(namespace string, n int) []string {
		return []string{"https://" + shape.Cluster{Namespace: namespace, Name: "main"}.HostDNS(n) + ":2380"}
	}
	for want, ours := range map[int][][]string{0: nil, 3: {of("team", 1), of("team", 3)}, 1: {of("team", 3), of("team", 1)}} {
		view := record.Of(&corev1.ConfigMap{}, nil)
		if ours != nil {
			if err := control.New(view, "").Known().PutJoining(t.Context(), "", &control.Joining{Cluster: 1, Ours: ours}); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := lastJoined(t.Context(), names, view.Control); n != want || err != nil {
			t.Errorf("of %v: %d, %v", ours, n, err)
		}
	}
	view := record.Of(&corev1.ConfigMap{}, nil)
	if err := control.New(view, "").Known().PutJoining(t.Context(), "", &control.Joining{Ours: [][]string{of("other", 2)}}); err != nil {
		t.Fatal(err)
	}
	if n, err := lastJoined(t.Context(), names, view.Control); n != 0 || err != nil {
		t.Errorf("of another namespace: %d, %v", n, err)
	}
	for key := range view.Control.Data {
		view.Control.Data[key] = strings.Repeat("x", 3)
	}
	if _, err := lastJoined(t.Context(), names, view.Control); err == nil {
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
