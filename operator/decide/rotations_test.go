package decide

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"pgregory.net/rapid"
)

// rotating is a cluster whose authorities are rotated, with as much of everybody else as matters to that: kubelets that bring
// Secrets late, members that trust what they were started with, a status that is old, machines that are cut off, two operators
// without a Lease that act by what they saw earlier, and a person.
type rotating struct {
	t      *rapid.T
	now    time.Time
	secret madeAuthorities
	hosts  []*rotated
	told   *Told
	rotate int
	looks  []World // what operators saw, and have not acted by yet
	issues []issue // leaves that an operator is about to write
	steps  int
}

// madeAuthorities is the Secret with the keys: its phase, and the numbers of the authorities that sign and are trusted.
type madeAuthorities struct {
	version, rotate, step int
	phase                 cluster.RotationPhase
	since                 time.Time
	trusts                []int
	signs, next           int
}

type madeLeaves struct {
	step, signed int
	trusts       []int
}

type issue struct {
	host *rotated
	had  int // the step of the leaves that were read
	madeLeaves
}

type rotated struct {
	name    string
	written madeLeaves // the Secret
	mounted madeLeaves
	started []int // with what the member was started; nil: it does not run
	off     bool  // its machine is off
	cut     bool  // its kubelet hears nothing of the API server
}

func certificates(ns []int) (out []string) {
	for _, n := range ns {
		out = append(out, fmt.Sprintf("c%02d", n))
	}
	return out
}

// see is what an operator sees now.
func (c *rotating) see() World {
	s := c.secret
	w := World{Now: c.now, Record: Record{There: true, Next: 9}, Budget: 2, Told: c.told,
		Want:   Want{Spec: cluster.Spec{MemberCount: 3, EtcdVersion: version(nil, ""), DeadAfter: 5 * time.Minute}, ReplaceAfter: time.Hour * 1e4, Rotate: c.rotate, RotationGrace: 10 * time.Minute},
		Intent: &cluster.Intent{Generation: 1, State: cluster.IntentFounded},
		Authorities: &Authorities{There: true, Rotate: s.rotate, Phase: s.phase, Since: s.since, Trusts: certificates(s.trusts), Signs: certificates([]int{s.signs}), Member: certificates(s.trusts),
			Due: c.now.Add(time.Hour), Ends: c.now.Add(2 * time.Hour)}}
	w.Spec = &cluster.Spec{MemberCount: 3, EtcdVersion: w.Want.Spec.EtcdVersion, DeadAfter: 5 * time.Minute}
	for i, h := range c.hosts {
		w.Hosts = append(w.Hosts, Host{N: i + 1, Name: h.name, Set: true, Running: true, Claim: ClaimThere, Leaves: true, OldLeaves: h.written.step != s.step, Pod: true, Serves: true, Runs: c.now.Add(-time.Hour)})
		w.Intent.Voters = append(w.Intent.Voters, cluster.Voter{Host: cluster.HostID(h.name), Member: cluster.MemberID(i + 1)})
		w.Spec.Hosts = append(w.Spec.Hosts, cluster.HostID(h.name))
	}
	return w
}

// act has an operator do what follows from what it saw, on the objects as they are now: each write is refused if its object was
// written since.
func (c *rotating) act(w World, version int) {
	for _, s := range Next(w).Steps {
		switch s.Kind {
		case Rotate:
			if version == c.secret.version {
				c.write(s)
			}
		case RenewLeaves: // it reads the leaves, then the authorities; and it may be late to write
			h := c.hosts[s.N-1]
			c.issues = append(c.issues, issue{h, h.written.step, madeLeaves{c.secret.step, c.secret.signs, slices.Clone(c.secret.trusts)}})
		}
	}
}

func (c *rotating) write(s Step) {
	a := &c.secret
	switch s.Phase {
	case cluster.RotateTrust:
		a.next = a.trusts[len(a.trusts)-1] + 1
		a.trusts = append(slices.Clone(a.trusts), a.next)
	case cluster.RotateSign:
		a.signs = a.next
	case cluster.RotateDrop:
		a.trusts = []int{a.signs}
	}
	a.version, a.step, a.rotate, a.phase, a.since = a.version+1, a.step+1, s.Rotate, s.Phase, c.now
	c.steps++
	c.t.Logf("%s: %s", c.now.Format(time.DateTime), s.Phase)
}

func (c *rotating) issue(i issue) {
	h := i.host
	if h.written.step != i.had { // its resourceVersion is another one
		return
	}
	if i.step < h.written.step {
		c.t.Fatalf("%s gets leaves of step %d after those of step %d", h.name, i.step, h.written.step)
	}
	if !slices.Contains(i.trusts, h.written.signed) {
		c.t.Fatalf("%s gets leaves that do not trust what it shows", h.name)
	}
	h.written = i.madeLeaves
}

func (c *rotating) tell() {
	t := &Told{At: c.now, AllUp: true, Hosts: []ToldHost{}}
	for _, h := range c.hosts {
		if h.off {
			continue
		}
		t.Hosts = append(t.Hosts, ToldHost{Name: h.name, Carries: true, Trust: &Trust{Daemon: certificates(h.mounted.trusts), Member: certificates(h.started), Signed: certificates([]int{h.mounted.signed})}})
		t.Members = append(t.Members, h.name)
	}
	c.told = t
}

// trusts is the invariant: whoever runs trusts what each other one shows.
func (c *rotating) trusts() {
	for _, h := range c.hosts {
		for _, o := range c.hosts {
			switch {
			case h.off || o.off:
			case !slices.Contains(h.mounted.trusts, o.mounted.signed):
				c.t.Fatalf("the daemon of %s trusts %v, and %s shows what %d signed", h.name, h.mounted.trusts, o.name, o.mounted.signed)
			case h.started != nil && !slices.Contains(h.started, o.mounted.signed):
				c.t.Fatalf("the member of %s trusts %v, and %s shows what %d signed", h.name, h.started, o.name, o.mounted.signed)
			}
		}
	}
}

func newRotating(t *rapid.T) *rotating {
	c := &rotating{t: t, now: now, secret: madeAuthorities{step: 1, phase: cluster.RotateDone, trusts: []int{1}, signs: 1}, rotate: 1}
	for n := 1; n <= 3; n++ {
		l := madeLeaves{1, 1, []int{1}}
		c.hosts = append(c.hosts, &rotated{name: fmt.Sprintf("main-%d", n), written: l, mounted: l, started: l.trusts})
	}
	c.tell()
	return c
}

// Whatever comes late, everybody who runs trusts everybody else at each moment; and once all come back the rotation ends.
func TestRotations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newRotating(t)
		var versions []int
		for range rapid.IntRange(20, 150).Draw(t, "moments") {
			h := c.hosts[rapid.IntRange(0, 2).Draw(t, "host")]
			switch rapid.IntRange(0, 12).Draw(t, "what") {
			case 0:
				c.looks, versions = append(c.looks, c.see()), append(versions, c.secret.version)
			case 1:
				if len(c.looks) > 0 {
					c.act(c.looks[0], versions[0])
					c.looks, versions = c.looks[1:], versions[1:]
				}
			case 2, 3:
				c.act(c.see(), c.secret.version)
			case 4:
				if len(c.issues) > 0 {
					c.issue(c.issues[0])
					c.issues = c.issues[1:]
				}
			case 5, 6:
				if !h.off && !h.cut {
					h.mounted = h.written
				}
			case 7:
				if !h.off {
					h.started = h.mounted.trusts
				}
			case 8, 9:
				c.tell()
			case 10: // the pod is made anew by a kubelet that may be late, and never goes back
				if !h.off && !h.cut {
					if !rapid.Bool().Draw(t, "late") {
						h.mounted = h.written
					}
					h.started = h.mounted.trusts
				}
			case 11: // a pod that was off mounts what is there as it starts
				if h.off = !h.off; !h.off {
					h.mounted, h.started = h.written, h.written.trusts
				}
			default:
				h.cut = rapid.Bool().Draw(t, "cut")
				c.rotate += rapid.IntRange(0, 1).Draw(t, "asks")
			}
			c.now = c.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "seconds")) * time.Second)
			c.trusts()
		}
		for range 60 * (c.rotate + 1) {
			c.act(c.see(), c.secret.version)
			for _, i := range c.issues {
				c.issue(i)
			}
			c.issues = nil
			for _, h := range c.hosts {
				if h.off || h.mounted.step != h.written.step {
					h.off, h.cut, h.mounted = false, false, h.written
				} else {
					h.started = h.mounted.trusts
				}
				c.trusts()
			}
			c.tell()
			c.now = c.now.Add(2 * time.Minute)
		}
		if c.secret.phase != cluster.RotateDone || c.secret.rotate != c.rotate || len(c.secret.trusts) != 1 {
			t.Fatalf("it does not end: %+v, asked for is %d; %s", c.secret, c.rotate, text(Next(c.see())))
		}
	})
}
