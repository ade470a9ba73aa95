package reconcile

import (
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/operator/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// beats is when this process saw the daemons' words of each cluster come, by its own clock: theirs may be wrong. The zero value is
// ready.
type beats struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*heard
}

// heard is what was seen of one EtcdCluster, the newest last.
type heard struct {
	of   types.UID
	last []beat
}

type beat struct {
	leader cluster.HostID
	at     time.Time // by the leader's clock
	seen   time.Time // zero: it was there at the first look
}

// mostBeats is how many are remembered: a cache lags behind a look past it, so that one may be seen once more after the next.
const mostBeats = 4

// seen is when what is told came; zero: it was there at the first look. told is nil where nothing is.
func (b *beats) seen(ec *v1alpha1.EtcdCluster, told *control.Status, now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := client.ObjectKeyFromObject(ec)
	h, looked := b.all[key]
	if looked = looked && h.of == ec.UID; !looked {
		h = &heard{of: ec.UID}
		if b.all == nil {
			b.all = map[types.NamespacedName]*heard{}
		}
		b.all[key] = h
	}
	if told == nil {
		return time.Time{}
	}
	is := beat{leader: told.Leader, at: told.At}
	if i := slices.IndexFunc(h.last, func(o beat) bool { return o.leader == is.leader && o.at.Equal(is.at) }); i >= 0 {
		return h.last[i].seen
	}
	if looked {
		is.seen = now
	}
	h.last = append(slices.Clone(h.last[max(0, len(h.last)+1-mostBeats):]), is)
	return is.seen
}

// forget drops what was seen of an EtcdCluster that is gone.
func (b *beats) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, key)
}
