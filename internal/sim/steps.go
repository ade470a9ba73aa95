package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/manager"
	"etcdadm.io/plan"
)

const (
	// withSteps is the share of the seeds in which a person types commands.
	withSteps = 0.35
	// stepsBegin is where the numbers of a seed for them begin.
	stepsBegin = 1 << 35
)

// takeStep is a command of a person at some daemon or at the store: members by
// hand, raft's leadership, etcd's options, a backup, and what goes on with a
// change of version or takes it back.
func (g *generator) takeStep() {
	if g.joining() {
		return
	}
	x := &g.steps
	at, on := g.up()[x.next().below(len(g.up()))], g.up()[x.next().below(len(g.up()))]
	wait := x.next().within(0, 10*time.Second)
	within := x.next().within(2*time.Second, time.Minute).Round(time.Millisecond)
	goal := plan.Goal{Host: on.ID(), NoBackup: x.next().chance(0.7), Hold: x.next().chance(0.4)}
	byID := x.next().chance(0.3)
	kinds := []plan.GoalKind{plan.Join, plan.Leave, plan.Replace, plan.Promote, plan.MoveLeader, plan.MoveLeader}
	switch n := x.next().below(11); {
	case n < len(kinds):
		goal.Kind = kinds[n]
		if id := on.member(); byID && id != 0 && goal.Kind != plan.Join {
			goal.Host, goal.Member = "", id
		}
		g.w.later(wait, func() { g.w.typed(at, manager.GoalRequest{Goal: goal, Within: within}) })
	case n == 6:
		if g.w.hostsKeep {
			return
		}
		g.w.count("backup create")
		g.w.Queue(order{kind: cluster.CommandBackup})
	case n == 7, n == 8:
		g.setOption()
	case n == 9:
		g.goOn()
	default:
		g.w.count("hold lifted")
		g.liftHold()
	}
}

// setOption is config set and config unset of an option that means nothing to the
// model: every member is restarted for it.
func (g *generator) setOption() {
	x := &g.steps
	const name = "snapshot-count"
	value := []string{"", "5000", "8000"}[x.next().below(3)]
	amend := func(now map[string]string) map[string]string {
		after := maps.Clone(now)
		if after == nil {
			after = map[string]string{}
		}
		if delete(after, name); value != "" {
			after[name] = value
		}
		return after
	}
	g.w.count("config set")
	g.w.tracef("", "config: %s=%q", name, value)
	g.spec.Options = amend(g.spec.Options) // the next spec that the person writes has it too
	g.w.atDesk("set "+name, func(ctx context.Context, f *control.Folder) error {
		_, err := f.Settings().AmendOptions(ctx, func(now map[string]string) (map[string]string, error) { return amend(now), nil })
		return err
	})
}

// goOn continues a change of version that is paused, goes back to what a
// member still runs, or takes the word for an outage back.
func (g *generator) goOn() {
	x := &g.steps
	if !g.wishes.on {
		return
	}
	switch x.next().below(3) {
	case 0:
		g.w.count("upgrade --resume")
		g.spec.PauseBeforeLast = false
		g.w.atDesk("resume", func(ctx context.Context, f *control.Folder) error { return f.Settings().PauseBeforeLast(ctx, false) })
	case 1:
		low := cluster.Version{}
		for _, s := range g.w.etcd.Look() {
			if low.IsZero() || s.Version.Compare(low) < 0 {
				low = s.Version
			}
		}
		if !low.IsZero() && low != g.spec.EtcdVersion {
			g.w.count("upgrade --rollback")
			g.spec.EtcdVersion = low
			g.w.Spec(g.spec)
		}
	default:
		if g.spec.AcceptOutage != "" {
			g.w.count("outage taken back")
			g.spec.AcceptOutage = ""
			g.w.Spec(g.spec)
		}
	}
}

// holds: a person of the seed may put the spec on hold.
func (g *generator) holds() bool { return g.steps.on || g.storeless.on }

// liftHold takes back what a step with --hold left.
func (g *generator) liftHold() {
	if g.joining() {
		return
	}
	g.w.tracef("", "the hold is lifted")
	g.w.atDesk("lift the hold", func(ctx context.Context, f *control.Folder) error { return f.Settings().Hold(ctx, false) })
}

// typed hands a step to a machine's daemon, as the CLI does, and looks at what it
// answers.
func (w *World) typed(m *machine, r manager.GoalRequest) {
	d := m.daemon.Load()
	if d == nil || m.gone.Load() {
		return
	}
	wish, err := json.Marshal(r)
	if err != nil {
		panic(err) // it is made of plain values
	}
	d.tracef("a person asks for %s (hold %t, within %s)", r.Goal, r.Goal.Hold, r.Within)
	step := string(r.Goal.Kind)
	if r.Goal.NoStore {
		step += " --no-store"
	}
	before := w.asking()
	// Drawn before: who waits for the same daemon is let go together, in no order.
	wait, turn := w.links.next("typed "+d.link).wait(), w.links.next("typed")
	answer := serveAt(d, r.Within+5*time.Second, func(ctx context.Context, d *daemon) (json.RawMessage, error) {
		return d.manager.HandleGoal(ctx, wish)
	})
	w.pause(w.ctx, wait, turn)
	if answer.err != nil {
		w.count(step + ": no answer")
		d.tracef("the person is told: %v", answer.err)
		return
	}
	var result manager.GoalResult
	if err := json.Unmarshal(answer.value, &result); err != nil {
		w.violate("%s answers %s with what cannot be read: %v", d.id, r.Goal, err)
		return
	}
	w.count(step + ": " + string(result.Outcome))
	d.tracef("the person is told: %s %s by %s: %s", r.Goal, result.Outcome, result.Leader, result.Decision.Reason)
	w.checkStep(r.Goal, before, result)
}

// checkStep: what a person is told to be done is so, as far as nobody can undo it,
// and what is refused or not done has a sentence.
func (w *World) checkStep(goal plan.Goal, before asking, r manager.GoalResult) {
	switch r.Outcome {
	case manager.GoalDone:
	case manager.GoalRefused, manager.GoalExpired:
		if r.Decision.Reason.String() == "" && len(r.Decision.Blockers) == 0 {
			w.violate("%s is %s, and nobody says why", goal, r.Outcome)
		}
		return
	default:
		w.violate("%s ended as %q", goal, r.Outcome)
		return
	}
	w.step()
	if goal.Kind == plan.Defragment {
		w.checkDefragmented(goal, before)
	}
	voters, learners := w.voters()
	if (goal.Kind == plan.Leave || goal.Kind == plan.Replace) && goal.Member != 0 &&
		slices.ContainsFunc(slices.Concat(voters, learners), func(m cluster.Member) bool { return m.ID == goal.Member }) {
		w.violate("%s is told to be done, and the member is listed: %s", goal, fmt.Sprint(r.Decision.Reason))
	}
}
