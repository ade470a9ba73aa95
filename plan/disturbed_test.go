package plan

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// The observations below come out of a world that had made sense until one to
// four facts of it were twisted. They reach the rules that absurd ones hardly
// ever reach.

// drawWorld is a world in the middle of something.
func drawWorld(t *rapid.T) *world {
	w := newWorld()
	n := rapid.SampledFrom([]int{7, 6, 5, 4, 3, 2, 1}).Draw(t, "hosts")
	for _, id := range []cluster.HostID{"a", "b", "c", "d", "e", "f", "g"}[:n] {
		w.addHost(id, cluster.MustVersion("3.5.35"), cluster.MustVersion("3.6.16"))
	}
	w.drawSpec(t, "first spec")
	w.store.unconditional = rapid.IntRange(0, 9).Draw(t, "unconditional") == 0
	if rapid.SampledFrom([]bool{true, true, true, true, false}).Draw(t, "formed") {
		formed, _ := w.run(decision.Goal{Kind: decision.Converge}, mostActions, false, func(*cluster.Observation, decision.Decision, error) {})
		if formed.Done {
			w.drawSpec(t, "second spec")
		}
	}
	for range rapid.SampledFrom([]int{0, 1, 2, 3, 4, 6, 8, 12, 16, 20}).Draw(t, "steps") {
		w.step(t)
		if rapid.SampledFrom([]bool{true, false, false, false}).Draw(t, "misfortune") {
			w.misfortune(t, w.anyHost(t))
		}
	}
	return w
}

func (w *world) drawSpec(t *rapid.T, label string) {
	s := &cluster.Spec{
		MemberCount: rapid.SampledFrom([]int{1, 3, 3, 3, 5}).Draw(t, label),
		EtcdVersion: rapid.SampledFrom([]cluster.Version{cluster.MustVersion("3.6.16"), cluster.MustVersion("3.5.35")}).Draw(t, label+" version"),
		Hold:        seldom.Draw(t, label+" hold"),
	}
	if w.spec != nil {
		s.EtcdVersion = w.spec.EtcdVersion
	}
	w.spec = s
}

func (w *world) anyHost(t *rapid.T) *worldHost { return rapid.SampledFrom(w.hosts).Draw(t, "host") }

// step takes the planner's own step and lets a second pass.
func (w *world) step(t *rapid.T) {
	o := w.observe()
	d := Next(decision.Goal{Kind: decision.Converge}, o)
	for _, broken := range brokenLaws(decision.Goal{Kind: decision.Converge}, o, d) {
		t.Errorf("%s", broken)
	}
	if d.Action != nil {
		_ = w.act(d.Action) // what a disturbed world refuses is for the other properties
	}
	w.advance(time.Second)
}

// misfortune is anything that can happen to a host, a leader or the store.
func (w *world) misfortune(t *rapid.T, h *worldHost) {
	switch rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}).Draw(t, "which") {
	case 0:
		h.down = !h.down
	case 1:
		h.dead = !h.dead
	case 2:
		h.gap = string(cluster.GapUnreachable)
	case 3:
		h.gap = ""
	case 4:
		w.wipe(h, "")
	case 5:
		h.unpromised = !h.unpromised
	case 6:
		h.stuck = !h.stuck
	case 7:
		w.lead(h.Host)
	case 8:
		w.store.silent = !w.store.silent
	case 9:
		w.drawSpec(t, "changed spec")
	case 10:
		h.Options = []string{fmt.Sprintf("option-%d", rapid.IntRange(0, 2).Draw(t, "options"))}
	case 11, 12:
		w.advance(time.Duration(rapid.IntRange(1, 200).Draw(t, "seconds")) * time.Second)
	case 13:
		h.address++
		h.setURLs()
		h.Local.URLs = h.URLs
	case 14:
		h.Local.HasData = false
	case 15, 16:
		w.drawCommand(t, h)
	case 17:
		w.stagesEnd()
	}
}

// drawCommand puts a wish for a new generation into the queue, or takes all out.
func (w *world) drawCommand(t *rapid.T, h *worldHost) {
	w.minted++
	c := cluster.Command{Name: fmt.Sprintf("cmd-%d", w.minted), At: w.now, Host: h.Host, NoBackup: rapid.Bool().Draw(t, "no backup")}
	switch rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 3}).Draw(t, "command") {
	case 0:
		c.Kind, c.Backup, c.Host = cluster.CommandRestore, fmt.Sprintf("B-%d", w.minted), ""
		w.queue.backups = append([]cluster.Backup{{Name: c.Backup, At: w.now, Version: cluster.MustVersion("3.5.35"), Revision: 9}}, w.queue.backups...)
	case 1:
		c.Kind = cluster.CommandRecover
	case 2:
		if len(h.SetAside) == 0 {
			return
		}
		c.Kind, c.Dir = cluster.CommandUndo, h.SetAside[0].Name()
	default:
		w.queue.commands = nil
		return
	}
	w.queue.slow = rapid.IntRange(0, 3).Draw(t, "slow") == 0
	if rapid.IntRange(0, 3).Draw(t, "count") == 0 && w.spec != nil {
		c.Count = &cluster.CountChange{Members: rapid.SampledFrom([]int{1, 3, 5, 4}).Draw(t, "members"), Was: w.spec.MemberCount, Version: w.spec.EtcdVersion}
	}
	for _, o := range w.hosts {
		if (o.down || o.gap != "") && rapid.Bool().Draw(t, "lost") {
			c.Lost = append(c.Lost, o.Host)
		}
	}
	w.queue.commands = append(w.queue.commands, c)
}

// twist changes one fact of an observation.
func twist(t *rapid.T, o *cluster.Observation) {
	if len(o.Hosts) == 0 {
		return
	}
	i := rapid.IntRange(0, len(o.Hosts)-1).Draw(t, "twisted host")
	h := &o.Hosts[i]
	switch rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}).Draw(t, "twist") {
	case 0:
		o.Gaps = append(o.Gaps, cluster.Gap{Kind: cluster.GapUnreachable, Host: h.Host})
		o.Hosts = append(o.Hosts[:i:i], o.Hosts[i+1:]...)
	case 1:
		h.UnderFence = false
	case 2, 3:
		if h.View != nil {
			h.View.Linearizable = !h.View.Linearizable
		}
	case 4:
		if h.Status != nil {
			h.Status.Applied = anyIndex.Draw(t, "applied")
		}
	case 5:
		if h.Status != nil {
			h.Status.Healthy = false
		}
	case 6:
		h.Local.Known = append(h.Local.Known, anyMember.Draw(t, "known"))
	case 7:
		h.Local.Generation = anyGen.Draw(t, "generation")
	case 8:
		h.Local.Cluster = 0x99
	case 9:
		h.LowestGeneration = 9
	case 10:
		h.Process.State = cluster.ProcessSilent
	case 11:
		h.Releases = nil
	case 12:
		h.Problems = []cluster.Problem{{Code: "p", Sentence: "broken", Unfit: true}}
	case 13:
		h.Disk = "twisted"
	case 14:
		o.Store.Read = false
	default:
		twistMemory(t, o, h)
	}
	o.Sort()
}

func twistMemory(t *rapid.T, o *cluster.Observation, h *cluster.HostReport) {
	for i := range o.Memory.Members {
		if m := &o.Memory.Members[i]; rapid.Bool().Draw(t, "this one") {
			m.SilentSince, m.LeaderlessSince, m.HostlessSince = anyTwist(t, o), anyTwist(t, o), anyTwist(t, o)
		}
	}
	for i := range o.Memory.Hosts {
		if m := &o.Memory.Hosts[i]; m.Host == h.Host {
			m.FenceSince = o.At
		}
	}
	switch in := o.Store.Intent; {
	case in == nil:
	case rapid.Bool().Draw(t, "no next"):
		in.Next = nil
	case len(in.Next) > 0:
		in.Next = in.Next[1:]
	}
}

func anyTwist(t *rapid.T, o *cluster.Observation) time.Time {
	return rapid.SampledFrom([]time.Time{{}, o.At, o.At.Add(-30 * time.Second), o.At.Add(-10 * time.Minute)}).Draw(t, "since")
}

func TestLawsHoldForTwistedWorlds(t *testing.T) {
	rules := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		o := copyOf(t, w.observe())
		for range rapid.IntRange(0, 4).Draw(t, "twists") {
			twist(t, o)
		}
		drawManual(t, o)
		g := anyGoal.Draw(t, "goal")
		d := Next(g, o)
		for _, broken := range brokenLaws(g, o, d) {
			t.Errorf("%s", broken)
		}
		mustDecideThe(t, "same after a JSON round trip", d, Next(g, copyOf(t, o)))
		mustDecideThe(t, "same of a permutation", d, Next(g, permuted(t, copyOf(t, o))))
		key := d.Rule
		if d.Action != nil {
			key += " acts"
		}
		rules[key]++
	})
	t.Logf("decided by: %v", rules)
}
