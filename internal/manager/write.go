package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/plan"
)

// A write of the intent is an act like an op (SAFETY.md, rule 13; docs/adr/023): it relies
// on one look that is not older than five seconds when it is sent, under a fence that is
// still the leader's, and a person's approval that it relies on is read again before it.

// claimAgain is how long a claim that failed is not tried again: the store may take no
// writes, and what needs none goes on.
const claimAgain = 15 * time.Second

// stillTrue is the gate of what this term writes into the store: its leadership has not
// ended, and what it saw is not too old. It takes no lock and says nothing.
func (t *term) stillTrue(term context.Context) func() error {
	looked := t.looked
	return func() error {
		if term.Err() != nil {
			return fmt.Errorf("%w: this daemon does not lead any more", control.ErrCalledOff)
		}
		if age := cluster.Age(looked, time.Now()); age > cluster.MaxStampAge {
			return fmt.Errorf("%w: what it relies on was seen %s ago, more than %s; looking again", control.ErrCalledOff, age.Round(time.Millisecond), cluster.MaxStampAge)
		}
		return nil
	}
}

// mayWrite says why this leader must not write into the record; nil: it may. Its own host
// promised another one since, or a leader with a higher fence has written. Where that lasts
// it is told as any write that does not come about.
func (t *term) mayWrite(l look) error {
	if own := t.m.o.Local.Identity().Promised; t.fence.mine.Less(own) {
		return &control.NotTakenError{Err: fmt.Errorf("not written: this host follows the leader of fence %s, which is newer than this one (%s)", own, t.fence.mine)}
	}
	if by := written(l.ours()); t.fence.mine.Less(by) {
		return &control.NotTakenError{Err: fmt.Errorf("not written: host %s wrote the record with fence %s, which is newer than this leader's (%s); the hosts of most voters have to follow this one first: start them, or name those that are gone with --lost", by.Host, by, t.fence.mine)}
	}
	return nil
}

// written is the fence of who wrote the record; zero where none is noted, or one that no
// leader may bring.
func written(in *cluster.Intent) cluster.Fence {
	if in == nil || in.By.OutOfReach() {
		return cluster.Fence{}
	}
	return in.By
}

// writeIntent makes one conditional write of the intent.
func (t *term) writeIntent(ctx context.Context, c *plan.IntentChange, l look) bool {
	m := t.m
	err := t.mayWrite(l)
	var in *cluster.Intent
	if err == nil {
		in, err = m.prepareIntent(c, l)
	}
	if err == nil {
		err = m.consents(ctx, c)
	}
	if err == nil {
		in.By = t.fence.mine
		ctx, cancel := context.WithTimeout(ctx, m.o.Intervals.WriteTimeout)
		defer cancel()
		if c.Create != nil {
			_, err = m.o.Control.CreateIntent(ctx, in)
		} else {
			_, err = m.o.Control.ReplaceIntent(ctx, l.tag, in)
		}
	}
	m.report.Wrote("intent", "cannot write the intent", err)
	if err != nil {
		return false
	}
	m.log.Debug("intent written", "generation", in.Generation, "write", in.Write, "state", in.State)
	if in.State != cluster.IntentFounding && in.Order(t.intent) > 0 { // a founding is told once it was looked at again
		t.intent = in
	}
	return true
}

// consents reads again what a person said that the write relies on.
func (m *Manager) consents(ctx context.Context, c *plan.IntentChange) error {
	ctx, cancel := context.WithTimeout(ctx, m.o.Intervals.StoreTimeout)
	defer cancel()
	if said := c.Command; said != nil {
		read, err := m.o.Control.ReadCommand(ctx, said.Name)
		switch {
		case errors.Is(err, control.ErrNoCommand):
			return fmt.Errorf("%w: command %s was taken out of the queue", control.ErrCalledOff, said.Name)
		case err != nil:
			return fmt.Errorf("%w: read again whether command %s is still wanted: %w", control.ErrCalledOff, said.Name, err)
		}
		if now := asCommand(read, nil); !now.SaysAsMuch(*said) {
			return fmt.Errorf("%w: command %s says something else than a moment ago", control.ErrCalledOff, said.Name)
		}
	}
	if asked := c.Spec; asked != nil && m.o.Spec == nil {
		read, err := m.o.Control.ReadSpec(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("%w: read the spec again: %w", control.ErrCalledOff, err)
		case read.Spec == nil || !m.completed(read.Spec).Equal(*asked):
			return fmt.Errorf("%w: the spec was changed a moment ago", control.ErrCalledOff)
		}
	}
	return nil
}

// claim writes this leader's fence into the record, if another one wrote it last: no write
// that an earlier leader may still have under way takes effect from then on. It reports
// whether it tried, after which what was seen is old.
func (t *term) claim(ctx context.Context, o *cluster.Observation, l look) bool {
	m, in := t.m, l.ours()
	by := written(in)
	switch {
	case in == nil || !l.view.Read || !l.view.Conditional || by == t.fence.mine || !t.claims(o),
		o.Intent().Order(in) != 0, // the hosts' is written back first, and has the fence
		t.mayWrite(l) != nil:
		m.report.Unwanted("claim")
		return false
	case time.Since(t.claimed) < claimAgain:
		return false
	}
	mine := in.Clone()
	mine.By = t.fence.mine
	ctx, cancel := context.WithTimeout(blob.While(ctx, t.stillTrue(ctx)), m.o.Intervals.StoreTimeout)
	defer cancel()
	_, err := m.o.Control.ReplaceIntent(ctx, l.tag, mine)
	m.report.Wrote("claim", "cannot write into the record who leads", err)
	if err != nil && !errors.Is(err, control.ErrConflict) {
		t.claimed = time.Now()
	}
	return true
}

// claims reports whether this leader's word is enough to keep the record from others: so
// many hosts of the recorded voters are under its fence, or given up by a command in the
// queue, that no rival has more (of an even number it may have as many). A daemon that is cut off, or forgotten somewhere with
// an empty disk, does not get into the way of the one that leads.
func (t *term) claims(o *cluster.Observation) bool {
	in := o.Followed()
	if in == nil {
		in = o.Intent()
	}
	sets := in.VoterSets()
	if len(in.Voters) == 0 {
		sets = [][]cluster.Voter{nil}
		for _, f := range in.Founders {
			sets[0] = append(sets[0], cluster.Voter{Host: f.Host, Member: f.Member, PeerURLs: f.URLs.Peer})
		}
	}
	for _, set := range sets {
		n := 0
		for _, w := range set {
			if h := o.Voice(w, set); h != nil && h.UnderFence || o.GivenUp(w) {
				n++
			}
		}
		if n < cluster.Blocking(len(set)) {
			return false
		}
	}
	return true
}

// rival is what the record's last writer means for this leader: where its fence is the
// higher one, it refuses as a host would that promised it, for as long as it writes. A term
// that has just begun picks a fence above it at once, as above every other that is seen.
func (t *term) rival(o *cluster.Observation, l look) (raised bool) {
	in := l.ours()
	by := written(in)
	if !t.fence.mine.Less(by) || !t.claims(o) {
		return false
	}
	if t.seen.by != by || t.seen.write != in.Write || t.seen.generation != in.Generation {
		t.seen.by, t.seen.write, t.seen.generation, t.seen.since = by, in.Write, in.Generation, time.Now()
	}
	if !t.settled {
		t.fence.seen = higher(t.fence.seen, by)
		t.fence.pick(t.m.o.Rand)
		return true
	}
	t.refused = append(t.refused, cluster.Refused{Promised: by, Age: time.Since(t.seen.since)})
	return false
}

// seen is a rival's record, and since when it has been as it is.
type seen struct {
	by         cluster.Fence
	generation uint64
	write      uint64
	since      time.Time
}
