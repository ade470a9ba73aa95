package manager

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan"
)

// steps is a planner that wants a few ops for a goal, and then is done.
type steps struct {
	w    *world
	want atomic.Int64
}

func (s *steps) wants(n int) *steps {
	s.want.Store(int64(n))
	return s
}

func (s *steps) next(g plan.Goal, o *cluster.Observation) plan.Decision {
	switch g.Kind {
	case plan.Join:
	case plan.Leave:
		return plan.Decision{Rule: "leave", Reason: plan.Say("it is the last one"), Refused: true, Blockers: []plan.Blocker{{Code: "last", Sentence: plan.Say("it is the last one"), Command: "etcdadm member list"}}}
	case plan.Promote:
		return plan.Decision{Rule: "promote", Reason: plan.Say("it has not caught up")}
	default:
		return plan.Decision{Rule: "steady", Done: true}
	}
	h, ok := o.Host("c")
	if !ok {
		return plan.Decision{Rule: "join", Reason: plan.Say("c is not in sight"), Again: 100 * time.Millisecond}
	}
	n := s.w.nodes["c"].host
	if get(n, func() int { return len(n.applied) }) >= int(s.want.Load()) {
		return plan.Decision{Rule: "join", Reason: plan.Say("c is a voter"), Done: true}
	}
	return plan.Decision{Rule: "join", Reason: plan.Say("one more"), Action: &plan.Action{Kind: plan.ActHosts,
		Ops: []plan.HostOp{{Host: "c", Disk: h.Disk, Stamp: h.Stamp, Op: cluster.Op{Kind: cluster.OpPrepare}}}}}
}

func TestGoal(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := (&steps{w: w}).wants(3)
		var joins atomic.Int64 // decisions
		a, b, c := w.three(func(o *Options) {
			o.Planner = s.next
			o.Decided = func(_ *cluster.Observation, d plan.Decision) {
				if d.Rule == "join" {
					joins.Add(1)
				}
			}
		})
		w.untilLeads(time.Second, "a")
		for _, n := range []*node{a, b, c} {
			s.want.Add(3)
			before := get(c.host, func() int { return len(c.host.applied) })
			r, err := n.Goal(t.Context(), GoalRequest{Goal: plan.Goal{Kind: plan.Join, Host: "c"}})
			if err != nil || r.Outcome != GoalDone || r.Leader != "a" || len(r.Steps) == 0 {
				t.Errorf("from %s: %+v, %v", n.self, r, err)
			}
			if done := get(c.host, func() int { return len(c.host.applied) }); done != int(s.want.Load()) || before == done {
				t.Errorf("%d ops, want %d", done, s.want.Load())
			}
		}
		r, err := b.Goal(t.Context(), GoalRequest{Goal: plan.Goal{Kind: plan.Leave, Host: "c"}})
		if err != nil || r.Outcome != GoalRefused || len(r.Decision.Blockers) != 1 {
			t.Errorf("refused: %+v, %v", r, err)
		}
		began := time.Now()
		r, err = b.Goal(t.Context(), GoalRequest{Goal: plan.Goal{Kind: plan.Promote, Host: "c"}, Within: 3 * time.Second})
		if took := time.Since(began); err != nil || r.Outcome != GoalExpired || took < 3*time.Second || took > 3500*time.Millisecond {
			t.Errorf("expired: %+v, %v after %s", r, err, took)
		}
		s.wants(100)
		before := get(c.host, func() int { return len(c.host.applied) })
		if n := strings.Count(a.logs.String(), "msg=blocked"); n != 1 {
			t.Errorf("a refused step is told %d times", n)
		}
		told := strings.Count(a.logs.String(), "blocked") // of all kinds
		r, err = b.Goal(t.Context(), GoalRequest{Goal: plan.Goal{Kind: plan.Leave, Host: "c"}, DryRun: true})
		if err != nil || r.Outcome != GoalPlanned || !r.Decision.Refused {
			t.Errorf("dry run of what is refused: %+v, %v", r, err)
		}
		if n := strings.Count(a.logs.String(), "blocked"); n != told {
			t.Errorf("what is only planned is told as what blocks the cluster:\n%s", a.logs.String())
		}
		decided := joins.Load()
		r, err = b.Goal(t.Context(), GoalRequest{Goal: plan.Goal{Kind: plan.Join, Host: "c"}, DryRun: true})
		if err != nil || r.Outcome != GoalPlanned || r.Decision.Action == nil || get(c.host, func() int { return len(c.host.applied) }) != before {
			t.Errorf("dry run: %+v, %v", r, err)
		}
		if n := joins.Load(); n != decided || decided == 0 {
			t.Errorf("what is only planned counts as decided: %d, and %d before", n, decided)
		}
	})
}

// The leader dies while a person's step is under way: the next one goes on.
func TestGoalOutlivesItsLeader(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := (&steps{w: w}).wants(1000)
		a, b, c := w.three(func(o *Options) { o.Planner = s.next })
		w.untilLeads(time.Second, "a")
		type answer struct {
			GoalResult
			error
		}
		done := make(chan answer, 1)
		go func() {
			r, err := b.Goal(t.Context(), GoalRequest{Goal: plan.Goal{Kind: plan.Join, Host: "c"}})
			done <- answer{r, err}
		}()
		w.until(time.Second, "the step has begun", func() bool { return get(c.host, func() bool { return len(c.host.applied) > 0 }) })
		a.kill()
		<-a.done
		s.wants(get(c.host, func() int { return len(c.host.applied) }) + 2)
		r := <-done
		if r.error != nil || r.Outcome != GoalDone || r.Leader != "b" {
			t.Errorf("%+v", r)
		}
	})
}

func TestGoalWithoutALeader(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		a.host.unfit = "its disk is broken"
		w.run(a)
		if _, err := a.Goal(t.Context(), GoalRequest{Goal: plan.Goal{Kind: plan.Join}, Within: 2 * time.Second}); !errors.Is(err, ErrNoLeader) {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Goal(ctx, GoalRequest{Goal: plan.Goal{Kind: plan.Join}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := a.HandleGoal(t.Context(), []byte(`{`)); err == nil {
			t.Error("half a goal was accepted")
		}
	})
}

// A step that fails over and over is not tried in a busy loop, and a leader
// that lost its turn begins nothing new.
func TestActing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, _, c := w.three(func(o *Options) {
			o.Planner = func(_ plan.Goal, o *cluster.Observation) plan.Decision {
				h, ok := o.Host("c")
				if !ok {
					return plan.Decision{}
				}
				return plan.Decision{Rule: "try", Action: &plan.Action{Kind: plan.ActHosts, Ops: []plan.HostOp{{Host: "c", Disk: h.Disk, Stamp: h.Stamp, Op: cluster.Op{Kind: cluster.OpStop}}}}}
			}
		})
		c.host.apply = func(context.Context, cluster.ApplyRequest) cluster.ApplyReply {
			return cluster.ApplyReply{Outcome: cluster.OutcomeRefused, Reason: "the stamp is too old"}
		}
		w.untilLeads(time.Second, "a")
		time.Sleep(10 * time.Minute)
		if n := get(c.host, func() int { return len(c.host.applied) }); n < 20 || n > 200 {
			t.Errorf("tried %d times in ten minutes", n)
		}
		if r := get(c.host, func() cluster.ApplyRequest { return c.host.applied[0] }); r.Fence.Host != "a" || r.Stamp == "" || r.Disk != "disk-c" {
			t.Errorf("request %+v", r)
		}
		begun := make(chan struct{})
		c.host.mu.Lock()
		c.host.apply = func(ctx context.Context, _ cluster.ApplyRequest) cluster.ApplyReply {
			close(begun)
			<-ctx.Done()
			return cluster.ApplyReply{Outcome: cluster.OutcomeUnknown}
		}
		c.host.mu.Unlock()
		<-begun
		n := get(c.host, func() int { return len(c.host.applied) })
		a.host.mu.Lock()
		a.host.unfit = "its disk is broken"
		a.host.mu.Unlock()
		a.host.change()
		c.host.mu.Lock()
		c.host.apply = nil
		c.host.mu.Unlock()
		w.untilLeads(2*time.Second, "b")
		for _, r := range get(c.host, func() []cluster.ApplyRequest { return c.host.applied[n:] }) {
			if r.Fence.Host == "a" {
				t.Error("a began something after its turn")
			}
		}
	})
}

// Leadership ends in an orderly way while a person's step is under way: the next leader
// goes on with what this one had noted, so that nothing is done twice.
func TestGoalIsHandedOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := (&steps{w: w}).wants(1000)
		var mu sync.Mutex
		acted := map[cluster.HostID][]bool{}
		a, b, c := w.three(func(o *Options) {
			o.Planner = func(g plan.Goal, o *cluster.Observation) plan.Decision {
				mu.Lock()
				defer mu.Unlock()
				if g.Kind == plan.Join {
					acted[o.Leader] = append(acted[o.Leader], g.Acted)
				}
				return s.next(g, o)
			}
		})
		w.untilLeads(time.Second, "a")
		done := make(chan GoalResult, 1)
		go func() {
			r, err := b.Goal(t.Context(), GoalRequest{Goal: plan.Goal{Kind: plan.Join, Host: "c"}})
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		w.until(time.Second, "the step has begun", func() bool { return get(c.host, func() bool { return len(c.host.applied) > 1 }) })
		a.host.mu.Lock()
		a.host.unfit = "its disk is broken"
		a.host.mu.Unlock()
		a.host.change()
		w.untilLeads(2*time.Second, "b")
		s.wants(get(c.host, func() int { return len(c.host.applied) }) + 2)
		if r := <-done; r.Outcome != GoalDone || r.Leader != "b" || r.Goal != nil {
			t.Errorf("%+v", r)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(acted["b"]) == 0 || !acted["b"][0] {
			t.Errorf("the next leader was told that nothing was done yet: %v", acted)
		}
	})
}
