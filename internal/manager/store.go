package manager

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/say"
	"etcdadm.io/internal/wake"
)

const (
	// storeRest is how long a tick goes by the last look at a store that did
	// not answer, so that each tick does not wait for its deadline anew.
	storeRest = 5 * time.Second
	// notifiedAgain is when the control folder is looked at again after something
	// told of a change in it: more writes of the same change may follow.
	notifiedAgain = 300 * time.Millisecond
	// queuePatience is how much longer than a single object commands and backups
	// may take, where nothing else waits for them.
	queuePatience = 5
	// tickPatience is how much longer all of a tick's look may take, commands and
	// backups included: four seconds, since the hosts take no op that relies on a look
	// of five (cluster.MaxStampAge), and they are looked at beside it.
	tickPatience = 2
	// probeTimeout bounds the trial of what the store can do.
	probeTimeout = 10 * time.Second
)

// look is what was seen in the control folder.
type look struct {
	at      time.Time
	view    cluster.StoreView
	tag     blob.ETag // of the intent
	spec    *cluster.Spec
	left    *cluster.Standing // of a spec that is refused, while spec is none
	gaps    []cluster.Gap
	failed  bool // the store did not answer
	foreign bool // the intent is another cluster's
	queue   queue
	// paused is which hosts are; pausesUnread why that is not known, empty: it is.
	paused       []cluster.Pause
	pausesUnread string
	// pausesDamaged is what is wrong with the object that has them; pausesLost: it is gone.
	pausesDamaged string
	pausesLost    bool
	// manual is whether self-management is off; manualUnknown why that is not known, empty: it is.
	manual        *cluster.Manual
	manualUnknown string
}

// same reports whether both looks saw the same, whenever that was.
func (l look) same(o look) bool {
	specs := l.spec == nil && o.spec == nil || l.spec != nil && o.spec != nil && l.spec.Equal(*o.spec)
	return specs && l.left.Equal(o.left) && l.manual.Equal(o.manual) && l.manualUnknown == o.manualUnknown && cluster.SamePauses(l.paused, o.paused) && l.pausesUnread == o.pausesUnread && l.pausesDamaged == o.pausesDamaged && l.pausesLost == o.pausesLost && l.queue.same(o.queue) && l.tag == o.tag && l.failed == o.failed && l.view.Read == o.view.Read && l.view.Untried == o.view.Untried && l.view.Unwritten == o.view.Unwritten && l.view.Marker == o.view.Marker && l.view.Joining == o.view.Joining && l.view.Origin.Equal(o.view.Origin) &&
		l.view.Conditional == o.view.Conditional && slices.Equal(l.gaps, o.gaps)
}

// Run looks at the control folder until ctx ends: while this host leads
// it wakes the loop when something changed there, and while the host's own
// store lacked the intent it finds out whether it still does.
func (w *Watcher) Run(ctx context.Context) {
	if w.Control == nil {
		return
	}
	var tells news
	defer tells.end()
	timer := time.NewTimer(w.Intervals.Store)
	defer timer.Stop()
	w.probe(ctx)
	again := false // look once more soon
	for {
		cares := w.caresForStore()
		tells.wanted(ctx, w.Control, cares)
		told := true
		select {
		case <-ctx.Done():
		case <-timer.C:
			told = wake.Ready(w.now) || again // one look is for both
			again = false
		case <-w.now:
		case _, ok := <-tells.told:
			again = ok // a command is a folder first, and what is in it comes after
			if !ok {
				tells.end()
				tells.rests = time.Now().Add(w.Intervals.Store)
			}
		}
		if ctx.Err() != nil {
			return
		}
		pause := w.Intervals.Store
		switch {
		case again:
			pause = notifiedAgain
		case tells.told != nil, !cares && w.Control.Notifies():
			pause = w.Intervals.StoreNotified
		}
		timer.Reset(pause)
		if !w.caresForStore() {
			w.lookAside(ctx)
			continue
		}
		// The leader's loop looks, too, and not only here; but it is here that the
		// store is tried out.
		if rest := pause - w.sinceLook(); !told && rest > 0 && w.Control.Probed() {
			timer.Reset(rest)
			continue
		}
		w.probe(ctx)
		now := w.look(ctx, true)
		if ctx.Err() != nil {
			return
		}
		if _, same := w.keep(now); !same {
			w.Wake()
		}
		w.judge()
	}
}

// news are what a store tells by itself of changes, as long as somebody cares: a watch costs some stores more than a look now and then.
type news struct {
	told  <-chan struct{} // nil: it tells nothing now, and is polled
	stop  context.CancelFunc
	rests time.Time // until when none are begun, since the last ones ended by themselves
}

// wanted begins or ends them.
func (n *news) wanted(ctx context.Context, f *control.Folder, cares bool) {
	switch {
	case cares == (n.told != nil):
	case !cares:
		n.end()
	case time.Now().Before(n.rests):
	default:
		inner, stop := context.WithCancel(ctx)
		told, err := f.Notify(inner)
		if err != nil { // not every store can
			stop()
			return
		}
		n.told, n.stop = told, stop
	}
}

func (n *news) end() {
	if n.told == nil {
		return
	}
	n.stop()
	drain(n.told)
	*n = news{}
}

// sinceLook is how long ago the control folder was looked at last.
func (w *Watcher) sinceLook() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.last.at)
}

func (w *Watcher) caresForStore() bool {
	_, leading, _ := w.Gossip.Leader()
	w.mu.Lock()
	defer w.mu.Unlock()
	return leading || w.lacking != nil
}

// probe finds out what the store can do; once that is known it costs nothing.
func (w *Watcher) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	can, err := w.Control.Probe(ctx)
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	w.Say("probe", "the backup store cannot be tried out", err)
	w.mu.Lock()
	switch {
	case err == nil:
		w.untried = ""
	case say.Steady(say.Explain(err)) != say.Steady(w.untried): // else as it was: a look that shows the same wakes nobody
		w.untried = say.Explain(err)
	}
	w.mu.Unlock()
	for _, p := range can.Problems {
		w.Say("store "+p, "the backup store has a limitation", errors.New(p))
	}
}

// untriedWords is why a store that could be read is not yet one to go by.
func (w *Watcher) untriedWords() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.untried != "" {
		return "it can be read, and could not be tried out: " + w.untried
	}
	return "the store was not tried out yet"
}

// keep remembers a look and reports whether it shows what was known. Two
// may be under way; what one of them found out about the backups that commands
// name, the other does not take away.
func (w *Watcher) keep(l look) (kept look, same bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.queue.commands = slices.Clone(l.queue.commands)
	for i := range l.queue.commands {
		if c := &l.queue.commands[i]; c.Found == nil && !c.Missing {
			c.Found = w.last.queue.found(*c)
		}
	}
	same = l.same(w.last)
	w.last = l
	w.Gossip.Saw(l.sight(), nil)
	return l, same
}

// NowOrLately is the look of a tick: a fresh one, unless the store did
// not answer a moment ago.
func (w *Watcher) NowOrLately(ctx context.Context) look {
	w.mu.Lock()
	last := w.last
	w.mu.Unlock()
	if last.failed && time.Since(last.at) < storeRest {
		return last
	}
	l := w.look(ctx, false)
	if ctx.Err() == nil {
		l, _ = w.keep(l)
	}
	return l
}

// look reads intent and spec. What the store does not give is filled
// from the last look and said to be a gap.
func (w *Watcher) look(ctx context.Context, told bool) look {
	w.mu.Lock()
	last := w.last
	w.mu.Unlock()
	l := look{at: time.Now()}
	ctx = blob.Together(ctx)
	if w.Control == nil { // nobody can have paused a host, or turned self-management off
		l.gaps = append(l.gaps, cluster.Gap{Kind: cluster.GapStore, Detail: "no backup store is configured"})
		l.spec = w.Spec
		return l
	}
	// Each has a deadline of its own: a slow store is no silent one. They are read side by
	// side, since what is written relies on a look of five seconds. The queue is many
	// objects.
	patience := w.Intervals.StoreTimeout
	queued := tickPatience * patience
	if told {
		queued = queuePatience * patience
	} else {
		all, cancel := context.WithTimeout(ctx, queued)
		defer cancel()
		ctx = all
	}
	var intent, spec, list, pauses, manual look
	intent.at, spec.at, list.at = l.at, l.at, l.at
	listing, giveUp := context.WithTimeout(ctx, queued)
	defer giveUp()
	var single, all sync.WaitGroup
	single.Go(func() {
		within(ctx, patience, func(ctx context.Context) { intent.readIntent(ctx, w, last) })
	})
	single.Go(func() { within(ctx, patience, func(ctx context.Context) { spec.readSpec(ctx, w, last) }) })
	single.Go(func() {
		within(ctx, patience, func(ctx context.Context) { pauses.readPauses(ctx, w.Control, last) })
	})
	single.Go(func() {
		within(ctx, patience, func(ctx context.Context) { manual.readManual(ctx, w.Control, last) })
	})
	all.Go(func() { list.readCommands(listing, w, last, told) })
	single.Wait()
	l.failed = intent.failed || spec.failed
	if l.failed {
		giveUp()
	}
	all.Wait()
	l.tag, l.view, l.foreign, l.spec = intent.tag, intent.view, intent.foreign, spec.spec
	l.left, l.paused, l.pausesUnread = spec.left, pauses.paused, pauses.pausesUnread
	l.pausesDamaged, l.pausesLost = pauses.pausesDamaged, pauses.pausesLost
	l.manual, l.manualUnknown = manual.manual, manual.manualUnknown
	if !spec.failed {
		l.view.Specified = spec.view.Specified
	}
	l.view.Read = l.view.Read && !spec.failed
	l.gaps = append(l.gaps, intent.gaps...)
	if !intent.failed { // one word is enough of a store that does not answer
		l.gaps = append(l.gaps, spec.gaps...)
	}
	l.queue = list.queue
	if l.failed || l.foreign { // nothing of it counts
		l.queue.at, l.queue.commands, l.queue.unlisted = last.queue.at, last.queue.commands, last.queue.unlisted
	} else {
		within(ctx, queued, func(ctx context.Context) { l.readRest(ctx, w) })
	}
	l.view.Unwritten = w.Unwritten(l.view.Read)
	return l
}

// within calls do with a deadline.
func within(ctx context.Context, d time.Duration, do func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	do(ctx)
}

// ours is the intent of a look, if it is one of ours and of this cluster.
func (l look) ours() *cluster.Intent {
	if l.foreign || l.view.Intent.Adopted() {
		return nil
	}
	return l.view.Intent
}

// Remembered notes which intent the hosts keep: a host whose own store lacks
// it should not lead (SAFETY.md, rule 19).
func (w *Watcher) Remembered(o *cluster.Observation, l look) {
	var kept *cluster.Intent
	for i := range o.Hosts {
		if in := o.Hosts[i].Intent; in.Order(kept) > 0 && o.DoubtOf(in) == "" {
			kept = in
		}
	}
	if !l.lacks(kept) {
		kept = nil
	}
	w.mu.Lock()
	w.lacking = kept
	w.Gossip.Lacks(kept != nil) // under the lock: two may find it out at once, and the later one counts for both
	w.mu.Unlock()
	w.Gossip.Judge()
}

// judge forgets that the store lacked an intent once it has it.
func (w *Watcher) judge() {
	w.mu.Lock()
	if w.lacking != nil && !w.last.lacks(w.lacking) && w.last.view.Read {
		w.lacking = nil
	}
	w.Gossip.Lacks(w.lacking != nil)
	w.mu.Unlock()
	w.Gossip.Judge()
}

// lacks reports whether the store was read and does not have the generation
// and nonce of an intent, or a later one.
func (l look) lacks(in *cluster.Intent) bool {
	if in == nil || !l.view.Read || l.foreign {
		return false
	}
	own := l.ours()
	return own == nil || own.Generation < in.Generation || own.Generation == in.Generation && own.Nonce != in.Nonce
}

// storeGap says why the store could not be read, in the words of before where nothing but
// a time or a count in them differs, so that the same trouble is told once.
func (w *Watcher) gap(err error) cluster.Gap {
	w.mu.Lock()
	defer w.mu.Unlock()
	if why := say.Explain(err); say.Steady(why) != say.Steady(w.unread) {
		w.unread = why
	}
	return cluster.Gap{Kind: cluster.GapStore, Detail: w.unread}
}
