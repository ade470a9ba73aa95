package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host/record"
)

// What a generation rests on, as an onlooker knows it: that its command was not
// taken back, has not ended and is young, and that a recovery is called for.

// recordGuarded: what docs/adr/023 asks for beyond the rules before it is there, so
// that seeds have what it is about, and are held to it.
const recordGuarded = true

const (
	// consentLasts is how old a command may be whose generation is written, and
	// consentGrace what that write may take from when it was decided.
	consentLasts = 10 * time.Minute
	consentGrace = 15 * time.Second
	// servedGrace is how long a quorum may have served that a recovery has not seen.
	servedGrace = 10 * time.Second
	// heardWithin is the time in which some daemon hears what was written into the
	// record, whatever is cut. A store that goes back by less makes everybody forget it.
	heardWithin = 150 * time.Second
	// sightSettles is how long after a fault of the daemons' network one may not
	// yet see whom one can reach.
	sightSettles = 20 * time.Second
)

// endingWay is how a command came to its end.
type endingWay string

const (
	byPerson  endingWay = "deleted"  // with delete-command
	byObjects endingWay = "unlinked" // as the predecessor's ctl deletes: nobody is told
)

// ending is when and how a command came to its end; else it is the result that a
// daemon wrote down.
type ending struct {
	how endingWay
	at  time.Time
	// unheard: the store went back before it was sure that anybody had heard of it.
	unheard bool
}

// lateness is what a write may not know of yet.
type lateness struct {
	grace time.Duration
	// sent: what counts is when the write left its daemon. It may be late on its way,
	// and nothing in the store refuses it.
	sent bool
}

// latenesses are those of the ways in which a person deletes; what a daemon or the
// record says counts at once.
var latenesses = map[endingWay]lateness{
	byObjects: {10 * time.Second, true},
	byPerson:  {}, // it cancels in the record first
}

// Delete has a person take a command out of the queue.
func (w *World) Delete(name string) {
	w.tracef("", "a person deletes command %s", name)
	err := control.New(desk{w.store, w}, clusterName).DeleteCommand(w.ctx, name)
	if err != nil {
		w.tracef("", "the person is told: %v", err)
		return
	}
	w.endedAs(name, byPerson)
}

// Unlink deletes the objects of a command, as the predecessor's ctl does, and leaves
// what that does not know.
func (w *World) Unlink(name string) {
	w.tracef("", "the objects of command %s are deleted", name)
	for _, key := range sortedKeys(w.copyOf(name)) {
		if err := w.store.Delete(w.ctx, key); err != nil {
			w.violate("delete %s: %v", key, err)
		}
	}
	w.endedAs(name, byObjects)
}

// endedAs notes how a command ended, the first time that anybody hears of it.
func (w *World) endedAs(name string, how endingWay) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.endings == nil {
		w.endings = map[string]ending{}
	}
	if e, known := w.endings[name]; !known || e.unheard {
		w.endings[name] = ending{how: how, at: time.Now()}
	}
}

func (w *World) ending(name string) (ending, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.endings[name]
	return e, ok && !e.unheard
}

// wroteEnds notes what is written down of commands that ended.
func (w *World) wroteEnds(data []byte) {
	for name, result := range endsTold(data) {
		w.endedAs(name, endingWay(result))
	}
}

// endsTold are the results of commands in the object for those who ask, by name.
func endsTold(data []byte) map[string]string {
	var all []control.Ended
	if json.Unmarshal(data, &all) != nil {
		return nil
	}
	out := map[string]string{}
	for _, e := range all {
		out[e.Name] = string(e.Result)
	}
	return out
}

// endsInRecord notes the same of what the record says.
func (w *World) endsInRecord(data []byte) {
	for name, result := range endsOf(data) {
		w.endedAs(name, endingWay("ended in the record "+result))
	}
}

// endsOf are the results of commands in a record, by name: names, or objects with one.
func endsOf(data []byte) map[string]string {
	var record struct {
		Ended []json.RawMessage `json:"ended"`
	}
	if json.Unmarshal(data, &record) != nil {
		return nil
	}
	out := map[string]string{}
	for _, raw := range record.Ended {
		var e struct{ Name, ID, Command, Result string }
		var name string
		if json.Unmarshal(raw, &name) != nil && json.Unmarshal(raw, &e) != nil {
			continue
		}
		for _, n := range []string{name, e.Name, e.ID, e.Command} {
			if n != "" {
				out[n] = e.Result
				break
			}
		}
	}
	return out
}

// unheardOf: the store goes back to a copy. Of what came to its end a moment ago, and is
// not in the copy, only the store may have known. Where it goes forward again, it is known.
func (w *World) unheardOf(c *storeCopy) {
	told, noted := endsTold(c.objects[endedKey]), endsOf(c.objects[intentKey])
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, e := range w.endings {
		_, a := told[name]
		_, b := noted[name]
		switch {
		case e.how == byObjects:
			continue
		case a || b:
			e.unheard = false
		case time.Since(e.at) < heardWithin:
			e.unheard = true
		}
		w.endings[name] = e
	}
}

// reappeared: objects of commands are in the store again that were not. Whoever only
// deleted them has not told anybody, so they are there like others of their age; and
// what was written down a moment ago only the store knew.
func (w *World) reappeared(keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, e := range w.endings {
		there := slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, control.Prefix+name+"/") })
		if there && (e.how == byObjects || time.Since(e.at) < heardWithin) {
			delete(w.endings, name)
		}
	}
}

// checkConsent: a generation is written for a command that a person wants still, who
// could know what it drops. sent is when the write left its daemon. c.mu is held.
func (w *World) checkConsent(d *daemon, o order, in, before *cluster.Intent, sent time.Time) {
	if e, over := w.ending(in.CommandID); over {
		late := latenesses[e.how]
		by := time.Now()
		if late.sent {
			by = sent
		}
		if by.Sub(e.at) > late.grace {
			w.violate("%s writes generation %d for command %s, which was %s %s before", d.id, in.Generation, in.CommandID, e.how, by.Sub(e.at).Round(time.Millisecond))
		}
	}
	if in.Source.Kind == cluster.SourceSurvivor && before != nil {
		w.checkCalledFor(d, in, before, sent)
	}
	again := before != nil && before.CommandID == in.CommandID // what it was to drop is dropped
	if !recordGuarded || again || o.at.IsZero() {              // a schedule put it there itself
		return
	}
	if age := sent.Sub(o.at); age > consentLasts+consentGrace {
		w.violate("%s writes generation %d for command %s, which is %s old", d.id, in.Generation, in.CommandID, age.Round(time.Second))
	}
	if before != nil && before.State == cluster.IntentFounded && !before.Adopted() && o.at.Before(time.Unix(0, before.Timestamp)) {
		w.violate("%s writes generation %d for command %s, which is older than generation %d", d.id, in.Generation, in.CommandID, before.Generation)
	}
}

// checkCalledFor: a recovery is written while nobody is served; c.mu is held.
func (w *World) checkCalledFor(d *daemon, in, before *cluster.Intent, sent time.Time) {
	l := w.check.lines[before.Cluster]
	if l == nil || l.serves.IsZero() {
		return
	}
	if served := sent.Sub(l.serves); served > servedGrace {
		w.violate("%s writes generation %d, a recovery, and a quorum of generation %d has served for %s", d.id, in.Generation, l.number, served.Round(time.Millisecond))
	}
}

// checkWrittenBack: what hosts remember of a generation that nobody was served by yet is
// not put into the store over one that serves; c.mu is held.
func (w *World) checkWrittenBack(d *daemon, in, before *cluster.Intent, sent time.Time) {
	l := w.check.lines[before.Cluster]
	if l == nil || l.serves.IsZero() {
		return
	}
	if served := sent.Sub(l.serves); served > servedGrace {
		w.violate("%s writes generation %d back, which is being founded, and a quorum of generation %d has served for %s", d.id, in.Generation, l.number, served.Round(time.Second))
	}
}

// checkOvertakes: a generation that is served for the first time drops nothing that
// clients were told so long after it was asked for that nobody can have meant it. c.mu
// is held.
func (w *World) checkOvertakes(l *lineage) {
	c := &w.check
	begun, ok := c.begun[l.id]
	if !recordGuarded || !ok {
		return
	}
	for _, p := range c.sorted() {
		if late := p.acked.Sub(begun); p.number < l.number && late > consentLasts+consentGrace {
			w.violate("generation %d begins to serve, and generation %d was served until %s after that one had been written down", l.number, p.number, late.Round(time.Second))
		}
	}
}

// followQuorum keeps since when a quorum of a generation serves; c.mu is held.
func (l *lineage) followQuorum(serving map[cluster.MemberID]bool) {
	n, up := 0, 0
	for _, m := range l.list {
		if m.Learner {
			continue
		}
		if n++; serving[m.ID] {
			up++
		}
	}
	switch {
	case n == 0 || up < cluster.Quorum(n):
		l.serves = time.Time{}
	case l.serves.IsZero():
		l.serves = time.Now()
	}
}

// checkRecovered: where a generation made from a survivor is served for the first
// time, no host in sight has a log of the one before it that goes further: whoever was
// named lost and is there was served, or may have been.
func (w *World) checkRecovered(l *lineage) {
	in := w.recorded()
	if !recordGuarded || in == nil || in.Cluster != l.id || in.Source.Kind != cluster.SourceSurvivor || len(in.Founders) == 0 {
		return
	}
	from, founder := w.origin(in.Token), w.hostNow(in.Founders[0].Host)
	if from == nil || founder == nil {
		return
	}
	end := cluster.Progress{Term: from.Term, Index: from.Index}
	for _, m := range w.hosts() {
		if m == founder || !w.inSight(m, time.Now()) {
			continue
		}
		m.mu.Lock()
		var own cluster.Progress
		for _, x := range m.disk.dirs {
			if _, of := x.data.Member(); of == from.Cluster {
				own.Term, own.Index, _ = w.etcd.End(x.data)
			}
		}
		m.mu.Unlock()
		if end.Before(own) {
			w.violate("generation %d begins from term %d, index %d of cluster %s, and host %s, which is in sight, has a log up to term %d, index %d",
				in.Generation, end.Term, end.Index, from.Cluster, m.ID(), own.Term, own.Index)
		}
	}
}

// inSight: at this time the host's daemon had run for a while, nobody was cut from
// anybody, and so a leader had to know that it was there.
func (w *World) inSight(m *machine, at time.Time) bool {
	d := m.daemon.Load()
	return d != nil && d.steadySince(at.Add(-sightSettles)) && !w.cuts.changedSince(at.Add(-sightSettles)) && !w.cuts.any(daemons)
}

// steadySince: the daemon has run since then, and did not stand still.
func (d *daemon) steadySince(t time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.dead && d.resume == nil && d.began.Before(t) && d.wentOn.Before(t)
}

// away are the members of hosts that a person named lost for the present generation, and
// of which nobody had to know at that time that they are there: they came back since, or
// cannot be reached. What they still acknowledge before they hear of it is what the person
// gave up; nobody can tell them. c.mu is not held.
func (w *World) away(at time.Time) map[cluster.MemberID]bool {
	in := w.highest()
	if in == nil || len(in.Lost) == 0 || !in.Source.FromData() {
		return nil
	}
	out := map[cluster.MemberID]bool{}
	for _, g := range in.History {
		for _, v := range slices.Concat(g.Voters...) {
			m := w.hostNow(v.Host)
			if slices.Contains(in.Lost, v.Host) && (m == nil || !w.inSight(m, at)) {
				out[v.Member] = true
			}
		}
	}
	return out
}

// highest is the highest record that the store has had.
func (w *World) highest() *cluster.Intent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.top
}

// checkKept: what a host keeps as the record is what a store has or had, but for what
// a person allowed without one.
func (w *World) checkKept(d *daemon, before, now record.State, had bool) {
	in := now.Intent
	if in == nil || !in.Unstored.IsZero() || in.Adopted() || had && before.Intent != nil && before.Intent.Order(in) == 0 {
		return
	}
	w.mu.Lock()
	known := w.written[contentOf(in)]
	w.mu.Unlock()
	if !known {
		w.violate("%s keeps a record that no store has had: generation %d write %d, halted %t, voters %s, next %s", d.id, in.Generation, in.Write, in.Halted() != nil, names(in.Voters), names(in.Next))
	}
}

// contentOf tells records apart.
func contentOf(in *cluster.Intent) uint64 {
	data, err := json.Marshal(in)
	if err != nil {
		panic("a record has a JSON form: " + err.Error())
	}
	return hashOf(string(data))
}

// desk is the store as a person's commands reach it: at once, and what they write into
// the record is noted.
type desk struct {
	*memory.Store
	w *World
}

// Put implements blob.Store.
func (s desk) Put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (blob.ETag, error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	tag, err := s.Store.Put(ctx, key, bytes.NewReader(data), cond)
	if err == nil && key == intentKey {
		s.w.wrote(&daemon{w: s.w, id: "person"}, data, time.Now())
	}
	return tag, err
}
