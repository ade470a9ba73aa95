package reconcile

import (
	"testing"
	"time"

	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Words came when they were seen first, whatever the daemon's clock says and whichever look sees them once more. Those that
// were there at the first look of a process, or of another EtcdCluster of the name, came nobody knows when.
func TestBeats(t *testing.T) {
	b, now := &beats{}, time.Now()
	ec := &v1alpha1.EtcdCluster{}
	ec.Namespace, ec.Name, ec.UID = "n", "main", "1"
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	told := func(minutes int) *control.Status { return &control.Status{Leader: "a", At: at(minutes)} }
	is := func(s *control.Status, minute int, want time.Time) {
		t.Helper()
		if got := b.seen(ec, s, at(minute)); !got.Equal(want) {
			t.Errorf("they came at %s, want %s", got, want)
		}
	}
	is(told(60), 0, time.Time{})
	is(told(60), 1, time.Time{})
	is(told(65), 5, at(5))
	is(told(65), 9, at(5))
	is(told(60), 10, time.Time{}) // a cache that lags
	is(told(65), 11, at(5))
	is(told(-30), 12, at(12)) // another clock
	is(&control.Status{Leader: "b", At: at(-30)}, 13, at(13))
	for i := range 50 {
		is(told(100+i), 14, at(14))
	}
	if n := len(b.all[client.ObjectKeyFromObject(ec)].last); n != mostBeats {
		t.Errorf("%d are remembered", n)
	}
	ec.UID = "2"
	is(told(149), 20, time.Time{})
	b.forget(client.ObjectKeyFromObject(ec))
	is(nil, 21, time.Time{})
	is(told(149), 22, at(22)) // none were there before
}
