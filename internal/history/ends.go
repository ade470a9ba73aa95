package history

// checkEnd: what is there at the end is what was written last, of every key; and every acknowledged write is there, or was
// overwritten by one with a higher revision that is known.
func (c *checker) checkEnd() {
	if c.history.FinalRevision == 0 {
		return // said as unfinished
	}
	final := map[string]Event{}
	for _, e := range c.history.Final {
		final[e.Key] = e
	}
	last := map[string]Operation{} // the acknowledged write with the highest revision
	for _, o := range c.history.Operations {
		if o.wrote() && !c.dropped(o) && o.Revision > last[o.Key].Revision {
			last[o.Key] = o
		}
	}
	ended := c.deletions()
	for key, o := range last {
		is, there := final[key]
		switch {
		case o.Revision > c.history.FinalRevision:
			c.found("an acknowledged write is lost", o.Call, "%s, and everything was read at %d", o, c.history.FinalRevision)
		case there && is.Revision < o.Revision:
			c.found("an acknowledged write is lost", o.Call, "%s; there is %s", o, is)
		case there && is.Revision == o.Revision && (o.Kind == Delete || is.Value != o.Value):
			c.found("an acknowledged write is lost", o.Call, "%s; there is %s", o, is)
		case !there && o.Kind != Delete && ended[key] < o.Revision && !c.doubted(o):
			c.found("an acknowledged write is lost", o.Call, "%s; there is nothing", o)
		}
	}
}

// deletions is the highest revision at which each key was deleted, as watches tell, by clients or with a lease.
func (c *checker) deletions() map[string]int64 {
	at := map[string]int64{}
	for _, w := range c.history.Watches {
		for _, e := range w.Events {
			if e.Deleted {
				at[e.Key] = max(at[e.Key], e.Revision)
			}
		}
	}
	return at
}

// doubted reports whether a delete of the key that was not answered may have come after a write.
func (c *checker) doubted(w Operation) bool {
	for _, o := range c.history.Operations {
		if o.Kind == Delete && o.Key == w.Key && o.Error != "" {
			return true
		}
	}
	return false
}
