package plan

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// TestConverges lets random things happen to a world that never loses its
// quorum and checks that nothing which the planner asks for is refused, that
// no step takes more from the voters than rule 1 allows, and that once the
// misfortunes end the world comes to the spec and stays there.
func TestConverges(t *testing.T) {
	acts := map[string]int{}
	defer func() { t.Logf("acted: %v", acts) }()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for i := range 7 {
			w.addHost(cluster.HostID('a'+rune(i)), cluster.MustVersion("3.5.35"), cluster.MustVersion("3.6.16"))
		}
		w.drawSpec(t, "first spec")
		w.spec.Hold = false
		for range rapid.SampledFrom([]int{0, 1, 2, 4, 6, 8, 12, 16, 24}).Draw(t, "rounds") {
			for range rapid.SampledFrom([]int{1, 2, 3, 5, 8}).Draw(t, "steps") {
				if d := w.strictStep(t); d.Action != nil {
					acts[d.Rule]++
				}
			}
			w.bearable(t)
		}
		w.heal()
		w.mustSettle(t)
	})
}

// strictStep is a step of which nothing may be refused.
func (w *world) strictStep(t *rapid.T) decision.Decision {
	o := w.observe()
	d := Next(decision.Goal{Kind: decision.Converge}, o)
	for _, broken := range brokenLaws(decision.Goal{Kind: decision.Converge}, o, d) {
		t.Fatalf("%s", broken)
	}
	before := w.margins()
	if d.Action != nil {
		if err := w.act(d.Action); err != nil {
			t.Fatalf("%s: %s: %v", d.Rule, d.Reason, err)
		}
		w.mustKeepMargin(t, d, before)
	}
	w.advance(max(d.Again, decision.Soon))
	return d
}

// margins are what is true in the world, whatever the leader sees of it.
func (w *world) margins() map[cluster.ClusterID]int {
	out := map[cluster.ClusterID]int{}
	for _, c := range w.clusters {
		n, alive := w.voters(c)
		out[c.id] = alive - cluster.Quorum(n)
	}
	return out
}

func (w *world) mustKeepMargin(t *rapid.T, d decision.Decision, before map[cluster.ClusterID]int) {
	if d.Action.Kind != decision.ActHosts || !d.Action.Ops[0].Op.Kind.Membership() {
		return
	}
	after := w.margins()
	for _, c := range w.clusters {
		if b, a := before[c.id], after[c.id]; a < min(b, cluster.Tolerance(w.spec.MemberCount)) || b >= 0 && a < 0 {
			t.Fatalf("%s: %s: the margin of cluster %s fell from %d to %d", d.Rule, d.Reason, c.id, b, a)
		}
	}
}

// bearable is a misfortune after which the voters that are alive and seen are
// still a quorum; any other one is undone at once.
func (w *world) bearable(t *rapid.T) {
	h := w.anyHost(t)
	was := *h
	switch rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, 5, 5, 6, 7, 8, 9, 10, 10}).Draw(t, "which") {
	case 0:
		h.down = true
	case 1:
		h.gap = string(cluster.GapUnreachable)
	case 2:
		h.dead = h.Local.State == cluster.MemberStarted
	case 3:
		w.wipe(h, "")
	case 4:
		h.unpromised = true
	case 5:
		h.down, h.gap, h.dead, h.unpromised = false, "", false, false
	case 6:
		if !h.down && h.gap == "" && !h.unpromised {
			w.lead(h.Host)
		}
	case 7:
		w.drawSpec(t, "changed spec")
		w.spec.Hold = false
	case 8:
		h.Options = []string{fmt.Sprintf("option-%d", rapid.IntRange(0, 2).Draw(t, "options"))}
	case 9:
		w.store.silent = !w.store.silent
	case 10:
		w.advance(time.Duration(rapid.IntRange(1, 150).Draw(t, "seconds")) * time.Second)
	}
	if !w.bears() {
		*h = was
	}
	w.elect()
	if l := w.host(w.leader); l.down || l.gap != "" || l.unpromised {
		w.handover()
	}
}

// bears: every founded cluster keeps a quorum, one that is being founded
// keeps its founders, and some host can lead.
func (w *world) bears() bool {
	leaders := 0
	for _, h := range w.hosts {
		if !h.down && h.gap == "" && !h.unpromised {
			leaders++
		}
	}
	if in := w.store.intent; in != nil && in.State == cluster.IntentFounding {
		for _, f := range in.Founders {
			if h := w.host(f.Host); h.Disk != f.Disk || h.down || h.dead || h.gap != "" || h.unpromised {
				return false
			}
		}
	}
	for _, c := range w.clusters {
		n, seen := 0, 0
		for _, m := range c.members {
			if m.Learner {
				continue
			}
			n++
			if h := w.carrier(c, m.ID); h != nil && h.runs() && h.gap == "" && !h.unpromised {
				seen++
			}
		}
		if seen < cluster.Quorum(n) {
			return false
		}
	}
	return leaders > 0
}

// heal ends what no planner can mend: silence and darkness. What is wiped
// stays wiped.
func (w *world) heal() {
	w.store.silent = false
	for _, h := range w.hosts {
		h.down, h.gap, h.unpromised, h.stuck, h.dead = false, "", false, false, false
	}
}

// mustSettle: the spec is reached within a bounded number of actions and a
// bounded time, and then nothing moves.
func (w *world) mustSettle(t *rapid.T) {
	var trace []string
	start := w.now
	for acted := 0; ; {
		d := w.strictStep(t)
		if d.Action != nil {
			acted++
			trace = append(trace, fmt.Sprintf("%s: %s", d.Rule, d.Action))
		}
		if d.Done {
			break
		}
		if acted > 100 || w.now.Sub(start) > time.Hour {
			t.Fatalf("not settled after %d actions and %s; the last decision is %s%s", acted, w.now.Sub(start), describe(d), fmt.Sprint(trace))
		}
	}
	c := w.clusters[len(w.clusters)-1]
	if n, alive := w.voters(c); n != w.spec.MemberCount || alive != n {
		t.Fatalf("done with %d of %d voters alive, and %d are wanted", alive, n, w.spec.MemberCount)
	}
	for range 20 {
		if d := w.strictStep(t); d.Action != nil || !d.Done {
			t.Fatalf("moved after it was done: %s", describe(d))
		}
	}
}
