package history

import (
	"maps"
	"slices"
)

// checkWatches: each watch tells changes in the order of their revisions, each of them once, and leaves none out that it had
// passed; what it tells is what was written; and all watches tell the same.
func (c *checker) checkWatches() {
	changes := c.changes()
	for _, w := range c.history.Watches {
		c.checkOneWatch(w, changes)
	}
}

// change is a change of which somebody knows.
type change struct {
	event Event
	by    string // who told
	known int64  // when
}

// changes are all changes, by revision, as writers and watchers know them. Those that a reset dropped are left out, since their
// revisions may be nobody's.
func (c *checker) changes() map[int64]change {
	all := map[int64]change{}
	for _, o := range c.history.Operations {
		if !o.wrote() || c.dropped(o) {
			continue
		}
		all[o.Revision] = change{Event{Revision: o.Revision, Key: o.Key, Value: o.Value, Deleted: o.Kind == Delete}, o.String(), o.Return}
	}
	for _, w := range c.history.Watches {
		for _, e := range w.Events {
			if c.droppedEvent(e) {
				continue
			}
			was, known := all[e.Revision]
			if !known {
				all[e.Revision] = change{e, w.Name, e.At}
				continue
			}
			if is := was.event; is.Key != e.Key || is.Value != e.Value || is.Deleted != e.Deleted {
				c.found("watches differ", e.At, "%s tells %s, and %s is %s", w.Name, e, was.by, is)
			}
		}
	}
	return all
}

// droppedEvent: a revision above the kept ones that was told before the reset ended may be gone. Those of after are higher.
func (c *checker) droppedEvent(e Event) bool {
	return slices.ContainsFunc(c.history.Resets, func(r Reset) bool { return e.At > 0 && e.At <= r.until() && e.Revision > r.Keep })
}

func (c *checker) checkOneWatch(w Watch, changes map[int64]change) {
	told, last, promised := map[int64]bool{}, Event{}, int64(0)
	for i, e := range w.Events {
		for len(w.Promises) > 0 && w.Promises[0].After <= i {
			promised = max(promised, w.Promises[0].Revision)
			w.Promises = w.Promises[1:]
		}
		switch {
		case told[e.Revision]:
			c.found("an event twice", e.At, "%s tells %s again", w.Name, e)
		case e.Revision < last.Revision:
			c.found("events out of order", e.At, "%s tells %s after %s", w.Name, e, last)
		case e.Revision <= promised:
			c.found("an event after a promise", e.At, "%s tells %s after it had said that everything up to %d was told", w.Name, e, promised)
		}
		told[e.Revision] = true
		if e.Revision > last.Revision {
			last = e
		}
	}
	for _, revision := range slices.Sorted(maps.Keys(changes)) {
		x := changes[revision]
		if revision < w.From || revision > w.Reached || told[revision] || w.skipped(revision) {
			continue
		}
		c.found("an event is missing", x.known, "%s never told %s, which %s knows, and went on to %d", w.Name, x.event, x.by, w.Reached)
	}
	if len(w.Gaps) > 0 && len(c.history.Resets) == 0 {
		// Somebody compacted, which is their right, and the watcher was told. What it missed others have.
		c.report.Unchecked = append(c.report.Unchecked, w.Name+" was told of a compaction")
	}
}

// skipped reports whether etcd told the watcher that a revision was compacted.
func (w Watch) skipped(revision int64) bool {
	return slices.ContainsFunc(w.Gaps, func(g Gap) bool { return g.From <= revision && revision < g.To })
}
