package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
)

// StoreFault is a kind of call that the store does not do, while it does others:
// the bucket's policy lets a daemon read and not list, or an object is damaged.
type StoreFault struct {
	Host cluster.HostID // whose calls; empty: everybody's
	Op   memory.Op
	Key  string // which objects, by what their keys begin with; empty: all
}

// FailStore has the store refuse calls from now on; mend ends that.
func (w *World) FailStore(f StoreFault) (mend func()) {
	w.tracef(f.Host, "the store does not %s %s", f.Op, f.Key)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = append(w.refused, &f)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refused = slices.DeleteFunc(w.refused, func(x *StoreFault) bool { return x == &f })
	}
}

// mendStore has the store do everything again.
func (w *World) mendStore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = nil
}

func (w *World) refuses(host cluster.HostID, op memory.Op, key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.refused, func(f *StoreFault) bool {
		return f.Op == op && (f.Host == "" || f.Host == host) && strings.HasPrefix(key, f.Key)
	})
}

// storeCopy is all that the store had at a time.
type storeCopy struct {
	at      time.Time
	objects map[string][]byte
	intent  *cluster.Intent
}

// CopyStore keeps what the store has, as a replica or a version of the bucket does.
func (w *World) CopyStore() *storeCopy {
	infos, err := w.store.List(w.ctx, "")
	if err != nil {
		w.violate("copy the store: %v", err)
	}
	c := &storeCopy{at: time.Now(), objects: map[string][]byte{}, intent: w.recorded()}
	for _, i := range infos {
		if c.objects[i.Key], _, err = blob.ReadAll(w.ctx, w.store, i.Key, 1<<20); err != nil {
			w.violate("copy the store: %v", err)
		}
	}
	return c
}

// withSpecOf is the copy, but for what a person wants of the cluster, and the backup that a
// generation is being made from.
func (c *storeCopy) withSpecOf(o *storeCopy) *storeCopy {
	out := &storeCopy{at: c.at, objects: maps.Clone(c.objects), intent: c.intent}
	for _, key := range sortedKeys(out.objects) {
		if strings.HasPrefix(key, specKey) {
			delete(out.objects, key)
		}
	}
	making := "" // the host may have nothing else any more
	if in := o.intent; in != nil && in.State == cluster.IntentFounding && in.Source.Kind == cluster.SourceBackup {
		making = backupPrefix + in.Source.Backup
	}
	// A copy of before the first backup would leave a person nothing to go on from.
	none := !slices.ContainsFunc(sortedKeys(out.objects), func(key string) bool { return strings.HasPrefix(key, backupPrefix) })
	for _, key := range sortedKeys(o.objects) {
		if strings.HasPrefix(key, specKey) || making != "" && strings.HasPrefix(key, making) || none && strings.HasPrefix(key, backupPrefix) {
			out.objects[key] = o.objects[key]
		}
	}
	return out
}

// StoreGoesTo puts what a copy has in the place of all objects. Those that are
// the same stay as they are, with their ETags.
func (w *World) StoreGoesTo(c *storeCopy) {
	w.tracef("", "the store is as it was %s ago", time.Since(c.at).Round(time.Second))
	now := w.CopyStore()
	for _, key := range sortedKeys(now.objects) {
		if _, stays := c.objects[key]; !stays {
			if err := w.store.Delete(w.ctx, key); err != nil {
				w.violate("take the store back: %v", err)
			}
		}
	}
	for _, key := range sortedKeys(c.objects) {
		if have, there := now.objects[key]; there && string(have) == string(c.objects[key]) {
			continue
		}
		if _, err := blob.PutBytes(w.ctx, w.store, key, c.objects[key], blob.Any); err != nil {
			w.violate("take the store back: %v", err)
		}
	}
	var back []string
	for _, key := range sortedKeys(c.objects) {
		if _, there := now.objects[key]; !there {
			back = append(back, key)
		}
	}
	w.reappeared(back)
	w.unheardOf(c)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.intent, w.wentBack = c.intent, true
}
