package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// orderDeadline bounds the search for an order for one key, and orderDeadlines for all.
	orderDeadline  = 20 * time.Second
	orderDeadlines = 3 * time.Minute
	// mostFindings is how many findings of a kind are kept: the first ones tell, and one fault can make thousands.
	mostFindings = 20
)

// Finding is something that etcd promises not to happen.
type Finding struct {
	Kind string // a few words, the same for all of a kind
	At   int64  // about when
	Text string
	Key  string // whose operations have no order; else empty
}

func (f Finding) String() string { return fmt.Sprintf("%s at %s: %s", f.Kind, clock(f.At), f.Text) }

// Report is what a check came to.
type Report struct {
	Acknowledged int // operations that were answered
	Unknown      int // and that were not
	Keys         int
	Watches      int // with those of the store's own history
	Reopened     int // how often a watch had to begin again
	Events       int
	Leases       int
	LongestStall time.Duration // between two acknowledged writes
	Findings     []Finding
	// Unchecked is what could not be decided, in words: no finding, but no proof either.
	Unchecked []string

	history History
	orders  map[string]porcupine.LinearizationInfo // of keys without an order
}

// Err is nil if everything is as etcd promises.
func (r Report) Err() error {
	if len(r.Findings) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d findings", r.history.Seed, len(r.Findings))
	for i, f := range r.Findings {
		if i == 8 {
			b.WriteString("\n…")
			break
		}
		b.WriteString("\n" + f.String())
	}
	return errors.New(b.String())
}

func (r Report) String() string {
	s := fmt.Sprintf("%d operations answered and %d not on %d keys, %d events to %d watches that began again %d times, %d leases, longest time without a write %s, %d findings",
		r.Acknowledged, r.Unknown, r.Keys, r.Events, r.Watches, r.Reopened, r.Leases, r.LongestStall.Round(time.Millisecond), len(r.Findings))
	if len(r.Unchecked) > 0 {
		s += "; not decided: " + strings.Join(r.Unchecked, "; ")
	}
	return s
}

// checker is one check.
type checker struct {
	history History
	report  Report
	kinds   map[string]int
	// values is by whom each value was to be written: an index of operations.
	values map[string]int
	// seen is what else tells of a value: at which revision it is, and when that was known first.
	seen map[string]sighting
}

// sighting is that somebody saw a value.
type sighting struct {
	key      string
	revision int64
	at       int64 // 0: at no known time
}

// Check compares a history with what etcd promises.
func Check(h History) Report {
	c := &checker{history: h, kinds: map[string]int{}, values: map[string]int{}, seen: map[string]sighting{},
		report: Report{history: h, orders: map[string]porcupine.LinearizationInfo{}}}
	c.history.Operations = slices.Clone(h.Operations)
	c.count()
	for i, o := range c.history.Operations {
		if o.Value != "" {
			c.values[o.Value] = i
		}
	}
	for _, text := range h.Unfinished {
		c.found("unfinished", c.end(), "%s", text)
	}
	c.collect()
	c.resolve()
	c.checkRevisions()
	c.checkWatches()
	c.checkLeases()
	c.checkEnd()
	c.checkOrders()
	slices.SortStableFunc(c.report.Findings, func(a, b Finding) int { return int(a.At/1e6 - b.At/1e6) })
	return c.report
}

func (c *checker) found(kind string, at int64, format string, args ...any) {
	if c.kinds[kind]++; c.kinds[kind] <= mostFindings {
		c.report.Findings = append(c.report.Findings, Finding{Kind: kind, At: at, Text: fmt.Sprintf(format, args...)})
	}
}

// end is when the last operation returned.
func (c *checker) end() (at int64) {
	for _, o := range c.history.Operations {
		at = max(at, o.Return)
	}
	return at
}

func (c *checker) count() {
	keys, last := map[string]bool{}, int64(0)
	byReturn := slices.SortedFunc(slices.Values(c.history.Operations), func(a, b Operation) int { return int(a.Return - b.Return) })
	for _, o := range byReturn {
		keys[o.Key] = true
		if o.Error != "" {
			c.report.Unknown++
			continue
		}
		c.report.Acknowledged++
		if o.wrote() {
			c.report.LongestStall = max(c.report.LongestStall, time.Duration(o.Return-last))
			last = o.Return
		}
	}
	c.report.Keys, c.report.Watches = len(keys), len(c.history.Watches)
	for _, w := range c.history.Watches {
		c.report.Events += len(w.Events)
		c.report.Reopened += max(0, len(w.Opened)-1)
	}
}

// collect gathers who saw which value at which revision. A value belongs to one operation, and an operation has one revision:
// another one is that it was carried out twice.
func (c *checker) collect() {
	for _, o := range c.history.Operations {
		switch {
		case o.Error != "":
		case o.wrote() && o.Value != "":
			c.sees(o.Value, sighting{o.Key, o.Revision, o.Return})
		case o.Found:
			c.sees(o.Read, sighting{o.Key, o.Mod, o.Return})
		}
	}
	for _, w := range c.history.Watches {
		for _, e := range w.Events {
			if !e.Deleted {
				c.sees(e.Value, sighting{e.Key, e.Revision, e.At})
			}
		}
	}
	for _, e := range c.history.Final {
		c.sees(e.Value, sighting{e.Key, e.Revision, 0})
	}
}

func (c *checker) sees(value string, s sighting) {
	i, known := c.values[value]
	switch {
	case !known:
		c.found("nobody's write", s.at, "%s is %q at revision %d, which nobody wrote", s.key, value, s.revision)
		return
	case c.history.Operations[i].Key != s.key:
		c.found("nobody's write", s.at, "%s is %q at revision %d, which was written to %s", s.key, value, s.revision, c.history.Operations[i].Key)
		return
	}
	was, again := c.seen[value]
	if !again {
		c.seen[value] = s
		return
	}
	if was.revision != s.revision {
		c.found("carried out twice", s.at, "%s is seen at the revisions %d and %d", c.history.Operations[i], was.revision, s.revision)
	}
	if s.at > 0 && (was.at == 0 || s.at < was.at) {
		was.at = s.at
		c.seen[value] = was
	}
}

// resolve gives operations without an answer the one that others saw: it happened, before the first of these had seen it. The
// others may happen for ever; but what overlaps a reset is not known at all.
func (c *checker) resolve() {
	for i, o := range c.history.Operations {
		if o.Error == "" {
			continue
		}
		s, seen := c.seen[o.Value]
		if o.Value == "" || !seen {
			c.history.Operations[i].Return = forever
			continue
		}
		o.Error, o.Revision, o.Done, o.Return = "", s.revision, true, forever
		if s.at > 0 {
			o.Return = max(o.Call, s.at)
		}
		c.history.Operations[i] = o
	}
}

// duringReset reports whether a time touches a reset.
func (c *checker) duringReset(from, to int64) bool {
	return slices.ContainsFunc(c.history.Resets, func(r Reset) bool { return from <= r.until() && to >= r.From })
}

func (r Reset) until() int64 {
	if r.To == 0 {
		return forever
	}
	return r.To
}

// dropped reports whether a revision may be gone: a reset kept less.
func (c *checker) dropped(o Operation) bool {
	return slices.ContainsFunc(c.history.Resets, func(r Reset) bool { return o.Call <= r.until() && o.Revision > r.Keep })
}

// checkOrders looks for an order of the operations on each key that explains all answers.
func (c *checker) checkOrders() {
	keys := map[string][]Operation{}
	var names []string
	for _, o := range c.history.Operations {
		if o.Error != "" && !o.writes() {
			continue
		}
		if c.duringReset(o.Call, o.Return) && o.Return != forever {
			if !o.writes() {
				continue
			}
			// Whether it was before or after is not known, nor whether it is kept.
			o.Error, o.Revision, o.Done, o.Return = "across a reset", 0, false, forever
		}
		if _, known := keys[o.Key]; !known {
			names = append(names, o.Key)
		}
		keys[o.Key] = append(keys[o.Key], o)
	}
	began := time.Now()
	for _, name := range names {
		if time.Since(began) > orderDeadlines {
			c.report.Unchecked = append(c.report.Unchecked, "the order of operations on "+name+" and keys after it")
			return
		}
		switch result, info := linearize(keys[name], orderDeadline); result {
		case porcupine.Unknown:
			c.report.Unchecked = append(c.report.Unchecked, "the order of operations on "+name)
		case porcupine.Illegal:
			at, text := unexplained(keys[name], info)
			c.found("no order", at, "%s: %s", name, text)
			c.report.Findings[len(c.report.Findings)-1].Key = name
			c.report.orders[name] = info
		}
	}
}

// unexplained is the first operation that the longest order that was found leaves out.
func unexplained(operations []Operation, info porcupine.LinearizationInfo) (at int64, text string) {
	most := map[string]bool{}
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(most) {
				most = map[string]bool{}
				for _, o := range order {
					most[o.Input.(Operation).String()] = true
				}
			}
		}
	}
	for _, o := range slices.SortedFunc(slices.Values(operations), func(a, b Operation) int { return int(a.Call - b.Call) }) {
		if o.Error == "" && !most[o.String()] {
			return o.Call, fmt.Sprintf("nothing explains %s", o)
		}
	}
	return 0, "nothing explains all of it"
}
