package decide

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"pgregory.net/rapid"
)

// rolling is a cluster whose pods are replaced, with as much of everybody else as matters to that: kubelets, the leading
// daemon with its gate and its grants, a person, two operators without a Lease.
type rolling struct {
	t         *rapid.T
	now       time.Time
	pods      []*pod
	want      int             // the template that is wanted
	bad, ill  int             // the templates whose container does not run, and whose voter does not serve
	pauses    []cluster.Pause // on record
	own       string          // the annotation
	used      act             // likewise: by which attempt a pod is deleted
	wire      []act           // deletions that were sent, and may come late
	version   int             // of the record: each write of anybody
	told      Told            // as it was pushed last
	pushed    int
	operators []*operator
	paused    bool
	ids       int
}

// pod is that of a voter, and its set.
type pod struct {
	name           string
	set, made, uid int // templates, and its own
	rv, kept       int // how often it was changed, and the attempt that it was kept from
	there, going   bool
	runs, up       bool
	begins, asked  time.Time
	granted        map[string]time.Time // pauses that are on the host's disk, until when
	away           string               // who took it away on purpose, until it is up again
}

// operator is what one remembers, and what it is about to do.
type operator struct {
	asked       map[string]time.Time
	seen        int // the status that it read last
	read, after time.Time
	acts        *act
}

type act struct {
	looked      time.Time
	id          int // of the attempt
	n, set, uid int
	rv          int // of the pod; negative: none is deleted
	pause       string
	told        time.Time
	version     int // of the record
	marked      bool
	patched     bool
	sent        time.Time
}

func (c *rolling) pod(name string) *pod {
	i := slices.IndexFunc(c.pods, func(p *pod) bool { return p.name == name })
	return c.pods[i]
}

func (c *rolling) effective(p *pod) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(p.granted)), func(until time.Time) bool { return c.now.Before(until) })
}

// gate is the daemons': everybody else is up, and none of them may go at any moment.
func (c *rolling) gate(p *pod) bool {
	return !slices.ContainsFunc(c.pods, func(o *pod) bool { return o != p && (!o.up || c.effective(o)) })
}

// takes notes that somebody takes a voter away on purpose that is up: no other one may be away on purpose.
func (c *rolling) takes(p *pod, who string) {
	for _, o := range c.pods {
		if o != p && o.away != "" {
			c.t.Fatalf("%s takes %s away while %s is away by %s", who, p.name, o.name, o.away)
		}
	}
	p.away = who
	c.t.Logf("%s: %s takes %s away", c.now.Format(time.TimeOnly), who, p.name)
}

func (c *rolling) kubelet(p *pod) {
	p.rv++
	switch {
	case p.going:
		p.going, p.there, p.runs, p.up = false, false, false, false
	case !p.there:
		p.there, p.made, p.uid = true, p.set, p.uid+1
	case !p.runs:
		p.runs, p.begins = p.made != c.bad, c.now
	case p.made != c.ill:
		p.up, p.away = true, ""
	}
}

// leader is the leading daemon's look: it tells ends, grants the first pause that it can, or takes a voter away itself.
func (c *rolling) leader(restarts bool) {
	for _, p := range c.pods {
		maps.DeleteFunc(p.granted, func(id string, until time.Time) bool {
			return p.up && slices.ContainsFunc(c.pauses, func(e cluster.Pause) bool { return e.ID == id && e.Ended })
		})
	}
	for i := range c.pauses {
		e := &c.pauses[i]
		if p := c.pod(string(e.Host)); e.Asked(c.now) && p.granted[e.ID].IsZero() && p.up && c.gate(p) {
			c.t.Logf("%s: %s is granted for %s", c.now.Format(time.TimeOnly), e.ID, p.name)
			e.From, e.Until = c.now, c.now.Add(e.For)
			p.granted[e.ID] = e.Until
			c.version++
			return
		}
	}
	for _, p := range c.pods {
		if restarts && p.up && c.gate(p) {
			c.takes(p, "the planner")
			p.up = false
			return
		}
	}
}

func (c *rolling) push() {
	c.told = Told{At: c.now, AllUp: true, Hosts: []ToldHost{}}
	for _, p := range c.pods {
		if p.runs {
			c.told.Hosts = append(c.told.Hosts, ToldHost{Name: p.name, Carries: true})
		}
		if p.up {
			c.told.Up = append(c.told.Up, p.name)
		}
		c.told.AllUp = c.told.AllUp && p.up
		for id, until := range p.granted {
			if p.up && c.now.Before(until) && !slices.ContainsFunc(c.pauses, func(e cluster.Pause) bool { return e.ID == id && e.Ended }) {
				c.told.MayGo = append(c.told.MayGo, id)
			}
		}
	}
	c.told.Leads = c.pods[0].name
	c.pushed++
}

func (c *rolling) world(o *operator) World {
	told := c.told
	switch {
	case o.seen == 0:
		o.seen, o.after = c.pushed, time.Time{}
	case o.seen != c.pushed:
		o.seen, o.after = c.pushed, o.read
	}
	o.read, told.After = c.now, o.after
	asks := cluster.Spec{MemberCount: len(c.pods), EtcdVersion: version(nil, "")}
	spec := asks
	spec.Hold = c.paused
	w := World{Now: c.now, Want: Want{Spec: asks, Paused: c.paused, ReplaceAfter: time.Hour}, Record: Record{There: true, Next: len(c.pods) + 1},
		Budget: quorumOf(len(c.pods)), Spec: &spec, Intent: &cluster.Intent{State: cluster.IntentFounded, Generation: 1}}
	if c.pushed > 0 {
		w.Told = &told
	}
	for _, p := range c.pauses {
		switch {
		case p.ID == c.own && !p.Ended:
			w.Pause = &Pause{ID: p.ID, Host: string(p.Host), For: p.For, Asked: o.asked[p.ID]}
			host := c.pod(string(p.Host))
			w.Pause.Loose = c.used.pause == p.ID && c.used.uid == host.uid && host.there && !host.going && host.kept != c.used.id
		case p.Asked(c.now) || p.InForce(c.now):
			w.OthersPause = string(p.Host)
		}
	}
	for i, p := range c.pods {
		h := Host{N: i + 1, Name: p.name, Set: true, Running: true, Claim: ClaimThere, Leaves: true, Pod: p.there, Going: p.going, OldSet: p.set != c.want, OldPod: p.there && p.made != c.want, Serves: p.up}
		switch {
		case p.runs:
			h.Runs = p.begins
		case p.there && p.made == c.bad:
			h.Stuck = "ErrImagePull"
		}
		w.Hosts = append(w.Hosts, h)
		spec.Hosts = append(spec.Hosts, cluster.HostID(p.name))
		w.Intent.Voters = append(w.Intent.Voters, cluster.Voter{Host: cluster.HostID(p.name), Member: cluster.MemberID(i + 1)})
	}
	return w
}

// end marks a pause as ended; one that nobody was granted is dropped.
func (c *rolling) end(fits func(cluster.Pause) bool) {
	c.version++
	c.pauses = slices.DeleteFunc(c.pauses, func(p cluster.Pause) bool { return fits(p) && p.Until.IsZero() })
	for i := range c.pauses {
		if p := &c.pauses[i]; fits(*p) && !p.Ended {
			p.Ended, p.Until = true, c.now
		}
	}
}

// operate is a look with its steps, or the next half of the step that stops a host.
func (c *rolling) operate(o *operator) {
	if a := o.acts; a != nil {
		p := c.pods[a.n-1]
		switch {
		case c.now.Sub(a.looked) > 5*time.Second:
			o.acts = nil
		case !a.marked && a.pause != "" && a.version != c.version:
			o.acts = nil
		case !a.marked:
			if a.marked = true; a.pause != "" && a.rv >= 0 {
				c.used = *a
				c.version++
			}
		case !a.patched:
			p.set, a.patched = a.set, true
		default:
			if o.acts = nil; a.rv >= 0 {
				a.sent = c.now
				c.wire = append(c.wire, *a)
			}
		}
		return
	}
	w := c.world(o)
	for _, s := range Next(w).Steps {
		if s.Kind != MakeShared {
			c.t.Logf("%s: operator %p: %s %s: %s", c.now.Format(time.TimeOnly), o, s.Kind, s.Host, s.Why)
		}
		switch s.Kind {
		case KeepPod:
			p := c.pod(s.Host)
			p.kept, p.rv = c.used.id, p.rv+1
		case EndPause, AskPause:
			c.used = act{}
			c.end(func(p cluster.Pause) bool { return p.ID == c.own })
			if c.own = ""; s.Kind == AskPause {
				c.own = c.id()
				c.pauses = append(c.pauses, cluster.Pause{ID: c.own, Host: cluster.HostID(s.Host), For: PauseFor})
				o.asked[c.own] = c.now
			}
		case RollHost:
			p := c.pods[s.N-1]
			c.ids++
			o.acts = &act{id: c.ids, looked: c.now, n: s.N, set: c.want, uid: p.uid, rv: -1, pause: c.own, told: c.told.At, version: c.version}
			if p.there && p.made != c.want {
				o.acts.rv = p.rv
			}
		case MakeShared:
		default:
			c.t.Fatalf("a step that is none of a roll: %+v", s)
		}
	}
}

// arrive has the API server carry out a deletion that was sent, if it is of the pod as it is.
func (c *rolling) arrive(i int) {
	a := c.wire[i]
	c.wire = slices.Delete(c.wire, i, i+1)
	p := c.pods[a.n-1]
	if !p.there || p.uid != a.uid || p.rv != a.rv || p.going || c.now.Sub(a.sent) > time.Minute {
		return
	}
	if p.up {
		c.takes(p, "an operator")
		granted := slices.ContainsFunc(c.pauses, func(e cluster.Pause) bool { return e.ID == a.pause && !e.Ended && c.now.Before(p.granted[e.ID]) })
		if !granted || a.looked.Sub(a.told) > recent {
			c.t.Fatalf("%s goes by pause %q (granted: %v) and a word of %s", p.name, a.pause, granted, a.told.Format(time.TimeOnly))
		}
	}
	p.going, p.asked, p.rv = true, c.now, p.rv+1
}

func (c *rolling) id() string {
	c.ids++
	return fmt.Sprint("p", c.ids)
}

func newOperator() *operator {
	return &operator{asked: map[string]time.Time{}}
}

// pass has time pass, in which a kubelet ends what is to end.
func (c *rolling) pass(seconds int) {
	c.now = c.now.Add(time.Duration(seconds) * time.Second)
	for _, p := range c.pods {
		if p.going && c.now.Sub(p.asked) > 200*time.Second {
			c.kubelet(p)
		}
	}
}

// Whatever happens in whatever order, no host is stopped on purpose while another one is away on purpose, by an operator or by
// the planner: also with two operators, each of which dies and stands still at any moment. And once there is peace, all pods
// become what is wanted.
func TestRolls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &rolling{t: t, now: now, want: 1, bad: 3, ill: 4}
		n := rapid.SampledFrom([]int{3, 5}).Draw(t, "size")
		for i := range n {
			c.pods = append(c.pods, &pod{name: fmt.Sprintf("main-%d", i+1), set: 1, made: 1, there: true, runs: true, up: true, begins: c.now, granted: map[string]time.Time{}})
		}
		c.operators = []*operator{newOperator(), newOperator()}
		some := rapid.IntRange(0, n-1)
		c.want = rapid.IntRange(2, 4).Draw(t, "want")
		for range rapid.IntRange(50, 400).Draw(t, "events") {
			o := rapid.IntRange(0, 1).Draw(t, "operator")
			switch event := rapid.IntRange(0, 42).Draw(t, "event"); {
			case event >= 40:
				if n := len(c.wire); n > 0 {
					c.arrive(rapid.IntRange(0, n-1).Draw(t, "arrives"))
				}
			case event < 10:
				c.pass(rapid.IntRange(0, 4).Draw(t, "seconds"))
			case event < 12:
				c.pass(rapid.IntRange(5, 200).Draw(t, "long"))
			case event < 20:
				if rapid.IntRange(0, 9).Draw(t, "second") > 0 { // two at work is seldom
					o = 0
				}
				c.operate(c.operators[o])
			case event < 26:
				c.kubelet(c.pods[some.Draw(t, "kubelet")])
			case event < 31:
				c.leader(rapid.IntRange(0, 2).Draw(t, "restarts") == 0)
			case event < 35:
				c.push()
			case event == 35:
				c.operators[o] = newOperator()
			case event == 36:
				if p := c.pods[some.Draw(t, "crash")]; rapid.Bool().Draw(t, "crashes") {
					p.runs, p.up = false, false
				}
			case event == 37:
				c.want = rapid.IntRange(1, 4).Draw(t, "want")
			case event == 38:
				name := c.pods[some.Draw(t, "person")].name
				switch {
				case rapid.Bool().Draw(t, "pauses"):
					c.version++
					c.pauses = append(c.pauses, cluster.Pause{ID: c.id(), Host: cluster.HostID(name), For: 5 * time.Minute})
				case c.operators[0].acts == nil && c.operators[1].acts == nil && len(c.wire) == 0 && c.pod(name).away == "": // else that person opens the gate
					c.end(func(p cluster.Pause) bool { return string(p.Host) == name })
				}
			default:
				c.paused = rapid.IntRange(0, 3).Draw(t, "paused") == 0
			}
		}
		c.peace()
	})
}

// peace: nobody does anything but what is to be done.
func (c *rolling) peace() {
	c.paused = false
	switch c.want { // what does not come up is taken back by the spec alone
	case c.bad:
		c.bad = 0
	case c.ill:
		c.ill = 0
	}
	o := c.operators[0]
	for range 1000 {
		c.now = c.now.Add(2 * time.Second)
		for c.operate(o); o.acts != nil; {
			c.operate(o)
		}
		for len(c.wire) > 0 {
			c.arrive(0)
		}
		for _, p := range c.pods {
			c.kubelet(p)
		}
		c.leader(false)
		c.push()
		open := slices.ContainsFunc(c.pauses, func(p cluster.Pause) bool { return p.ID == c.own && !p.Ended })
		if !open && !slices.ContainsFunc(c.pods, func(p *pod) bool { return !p.up || p.set != c.want || p.made != c.want }) {
			return
		}
	}
	c.t.Fatalf("there is no end: %+v", Next(c.world(o)))
}
