package host_test

import (
	"context"
	"slices"
	"testing"
)

// etcd tells of its alarms in no order. What they are tells, and not where each stands,
// so that the same two do not wake the leader again and again.
func TestAlarmsInAnyOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		defer d.end()
		for _, said := range [][]string{{"NOSPACE 1", "CORRUPT 2"}, {"CORRUPT 2", "NOSPACE 1"}} {
			m.etcd.mu.Lock()
			m.etcd.status.Alarms = said
			m.etcd.mu.Unlock()
			got, ok := d.Alarms(context.Background())
			if want := []string{"CORRUPT 2", "NOSPACE 1"}; !ok || !slices.Equal(got, want) {
				t.Errorf("etcd says %q: %q, %v; want %q", said, got, ok, want)
			}
			if said[0] != m.etcd.status.Alarms[0] {
				t.Error("what the member holds was sorted in place")
			}
		}
		m.etcd.mu.Lock()
		m.etcd.silent = true
		m.etcd.mu.Unlock()
		if got, ok := d.Alarms(context.Background()); ok {
			t.Errorf("a member that is silent tells of %q", got)
		}
	})
}
