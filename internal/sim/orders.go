package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
)

// order is a command that a person queued.
type order struct {
	kind   cluster.CommandKind
	backup string
	host   cluster.HostID
	dir    string
	lost   []cluster.HostID
	// members, when not zero, is the member count that is wanted from then on. It
	// was queued when the spec had the count over, and a person had written it so
	// often.
	members, over, specs int
	// seen is what a person saw who queued an undo.
	seen *cluster.Seen
	// byItself: a daemon queued it.
	byItself bool
	at       time.Time // when it was queued
}

func (o order) String() string {
	s := string(o.kind) + " " + o.backup + string(o.host)
	if o.dir != "" {
		s += " " + o.dir
	}
	if o.members != 0 {
		s += fmt.Sprintf(" --members %d", o.members)
	}
	for _, l := range o.lost {
		s += " --lost " + string(l)
	}
	return s
}

// Queue puts a command into the queue, as a person does whose store answers at
// once, and returns its name.
func (w *World) Queue(o order) string {
	f := control.New(w.store, clusterName)
	var name string
	var count *cluster.CountChange
	var err error
	if o.members != 0 {
		if count, err = f.AskForMembers(w.ctx, o.members); err != nil {
			w.violate("ask for %d members: %v", o.members, err)
			return ""
		}
	}
	if o.kind == cluster.CommandUndo {
		o.seen = w.saw(o)
	}
	o.at = time.Now()
	w.mu.Lock()
	o.over, o.specs = w.asked, w.persons
	w.mu.Unlock()
	if o.kind == cluster.CommandRestore {
		name, err = f.AddRestore(w.ctx, control.RestoreBackup{Backup: o.backup, Lost: o.lost, Count: count})
	} else {
		name, err = f.AddWish(w.ctx, control.Wish{Kind: o.kind, Host: o.host, Dir: o.dir, Lost: o.lost, Count: count, Seen: o.seen})
	}
	if err != nil {
		w.violate("queue %s: %v", o, err)
		return ""
	}
	w.tracef("", "queued %s: %s", name, o)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orders[name] = o
	return name
}

// ordered is what a person queued under a name.
func (w *World) ordered(name string) (order, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, ok := w.orders[name]
	return o, ok
}

// queued are the names of the commands in the store's queue, sorted.
func (w *World) queued() []string {
	cs, err := control.New(w.store, clusterName).Commands(w.ctx)
	if err != nil {
		w.violate("list the commands: %v", err)
	}
	var out []string
	for _, c := range cs {
		out = append(out, c.Name)
	}
	slices.Sort(out)
	return out
}

// ended tells how a command ended that is not in the queue any more.
func (w *World) ended(name string) (control.Ended, bool) {
	all, err := control.New(w.store, clusterName).EndedCommands(w.ctx)
	if err != nil {
		w.violate("list how commands ended: %v", err)
	}
	for _, e := range all {
		if e.Name == name {
			return e, true
		}
	}
	return control.Ended{}, false
}

// copyOf is the objects of a command in the store, to be put there once more.
func (w *World) copyOf(name string) map[string][]byte {
	objects := map[string][]byte{}
	infos, err := w.store.List(w.ctx, control.Prefix+name+"/")
	if err != nil {
		w.violate("list command %s: %v", name, err)
	}
	for _, i := range infos {
		data, _, err := blob.ReadAll(w.ctx, w.store, i.Key, 1<<20)
		if err == nil {
			objects[i.Key] = data
		}
	}
	return objects
}

// putBack has the objects of a command appear in the store again, as an old
// ctl that repeats its request makes them.
func (w *World) putBack(ctx context.Context, objects map[string][]byte) {
	for _, key := range sortedKeys(objects) {
		if _, err := blob.PutBytes(ctx, w.store, key, objects[key], ""); err != nil {
			w.violate("put %s back: %v", key, err)
		}
	}
	w.reappeared(sortedKeys(objects))
	w.tracef("", "the objects of a command appear in the store again: %v", sortedKeys(objects))
}

// Backup has the cluster backed up, and returns the backup's name.
func (w *World) Backup() string {
	w.mu.Lock()
	had := len(w.backupNames)
	w.mu.Unlock()
	name := w.Queue(order{kind: cluster.CommandBackup})
	w.Until(fmt.Sprintf("backup command %s has ended", name), time.Minute, func() bool {
		e, ok := w.ended(name)
		return ok && e.Result == "done"
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.backupNames) == had {
		return ""
	}
	return w.backupNames[len(w.backupNames)-1]
}

func sortedKeys(objects map[string][]byte) []string { return slices.Sorted(maps.Keys(objects)) }
