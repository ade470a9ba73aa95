package sim

import (
	"maps"
	"slices"
	"time"

	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/register"
)

// keptRecord is what an onlooker knows of the record that the hosts keep. World.mu guards it.
type keptRecord struct {
	votes   map[ballot][]register.Seat    // who accepted what at some time
	chosen  map[uint64]*register.Document // by their version
	newest  *register.Document
	senders map[string]sender
	// promised are the highest ballots that keepers promised.
	promised map[register.Seat]register.Ballot
}

type ballot struct {
	register.Ballot
	part register.Part
}

// sender is who wrote an object, and when.
type sender struct {
	d    *daemon
	sent time.Time
}

func (k *keptRecord) begin() {
	k.promised = map[register.Seat]register.Ballot{}
	k.votes, k.chosen, k.senders = map[ballot][]register.Seat{}, map[uint64]*register.Document{}, map[string]sender{}
}

// sends notes who writes an object.
func (k *keptRecord) sends(key string, data []byte, d *daemon) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	k.senders[key+"\x00"+string(data)] = sender{d, time.Now()}
}

// accepted looks at what a keeper has just made durable: once a majority of its keepers has accepted a document it is chosen, and
// of each version only one ever is.
func (w *World) accepted(m *machine, had, data []byte) {
	state, err := keeper.Decode(data)
	if err != nil {
		w.violate("%s wrote a keeper's file that cannot be read: %v", m.name, err)
		return
	}
	if was, err := keeper.Decode(had); err != nil || was.Promised != state.Promised {
		w.promised(m, state)
	}
	doc := state.Accepted.Doc
	if doc == nil {
		return
	}
	w.mu.Lock()
	k := &w.register
	b := ballot{state.Accepted.Ballot, state.Accepted.Part}
	if slices.Contains(k.votes[b], state.Seat) || k.chosen[doc.Version].Same(doc) {
		w.mu.Unlock()
		return
	}
	k.votes[b] = append(k.votes[b], state.Seat)
	have := 0
	for _, s := range doc.Keepers {
		if slices.Contains(k.votes[b], s) {
			have++
		}
	}
	if 2*have <= len(doc.Keepers) {
		w.mu.Unlock()
		return
	}
	other, before := k.chosen[doc.Version], k.newest
	k.chosen[doc.Version] = doc
	newer := before == nil || doc.Version > before.Version
	if newer {
		k.newest = doc
	}
	w.mu.Unlock()
	if other != nil {
		w.violate("two documents of the record are chosen as number %d", doc.Version)
	}
	if newer {
		w.chose(before, doc)
	}
}

// promised looks at a promise that a keeper has just made durable: it forgets none that it made before.
func (w *World) promised(m *machine, state register.Keeper) {
	w.mu.Lock()
	top := w.register.promised[state.Seat]
	if state.Promised.Compare(top) > 0 {
		w.register.promised[state.Seat] = state.Promised
	}
	w.mu.Unlock()
	if state.Promised.Compare(top) < 0 && state.Promised.Number > 0 {
		w.violate("the keeper of %s has promised ballot %d, and goes on from ballot %d", m.name, top.Number, state.Promised.Number)
	}
}

// chose shows the onlooker what is in the record now.
func (w *World) chose(before, now *register.Document) {
	if before == nil {
		before = &register.Document{}
	}
	if !slices.Equal(before.Keepers, now.Keepers) {
		var names []string
		for _, s := range now.Keepers {
			names = append(names, string(s.Host))
		}
		w.tracef("", "the record is kept by %v", names)
	}
	for _, key := range slices.Sorted(maps.Keys(before.Objects)) {
		if _, there := now.Objects[key]; !there {
			if err := w.store.Delete(w.ctx, key); err != nil {
				w.violate("delete %s: %v", key, err)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now.Objects)) {
		o := now.Objects[key]
		if before.Objects[key].Tag == o.Tag {
			continue
		}
		w.shows(key, o.Data)
		w.mu.Lock()
		by, known := w.register.senders[key+"\x00"+string(o.Data)]
		w.mu.Unlock()
		switch {
		case !known && now.Version > 1:
			w.violate("%s is in the record, and nobody wrote that", key)
		case known:
			w.tookEffect(by.d, key, o.Data, by.sent)
		}
	}
}

// shows puts an object where an onlooker looks.
func (w *World) shows(key string, data []byte) {
	if _, err := blob.PutBytes(w.ctx, w.store, key, data, blob.Any); err != nil {
		w.violate("show %s: %v", key, err)
	}
}
