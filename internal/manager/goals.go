package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/wake"
	"etcdadm.io/plan"
)

// ErrNoLeader says that no daemon led while a person's step waited for one.
var ErrNoLeader = errors.New("no daemon leads")

// goalRetry is how long to wait before a step is handed over again.
const goalRetry = 200 * time.Millisecond

// GoalRequest is a person's step as it is handed to the leading daemon.
type GoalRequest struct {
	Goal plan.Goal `json:"goal"`
	// DryRun stops after planning: the result holds the first decision.
	DryRun bool `json:"dryRun,omitempty"`
	// Within bounds the whole, beside the caller's deadline; zero: a minute.
	Within time.Duration `json:"within,omitempty"`
	// Handed: a daemon handed it over. It is carried out by who gets it, or
	// comes back, so that daemons that disagree do not pass it around.
	Handed bool `json:"handed,omitempty"`
}

// GoalOutcome is how a person's step ended.
type GoalOutcome string

const (
	GoalDone    GoalOutcome = "done"
	GoalPlanned GoalOutcome = "planned" // a dry run
	GoalRefused GoalOutcome = "refused" // waiting would not help
	GoalExpired GoalOutcome = "expired" // not done in time; what was begun goes on as the spec asks
	// GoalTurned: leadership ended meanwhile. Only daemons see it.
	GoalTurned GoalOutcome = "turned"
)

// GoalStep is a step that was taken on the way.
type GoalStep struct {
	Rule       string              `json:"rule"`
	Reason     string              `json:"reason"`
	Action     string              `json:"action"`
	Projection *cluster.Projection `json:"projection,omitempty"`
}

// GoalResult is what became of a person's step.
type GoalResult struct {
	Outcome  GoalOutcome    `json:"outcome"`
	Leader   cluster.HostID `json:"leader"`   // who carried it out
	Decision plan.Decision  `json:"decision"` // the last one
	Steps    []GoalStep     `json:"steps,omitempty"`
	// Goal is how far it got, where leadership ended meanwhile.
	Goal *plan.Goal `json:"goal,omitempty"`
}

// How a step ended that was not done.
var (
	// ErrRefused says that waiting would not help. Steps that were taken before stay.
	ErrRefused = errors.New("refused")
	// ErrExpired says that the time was up. What was begun goes on as the spec asks.
	ErrExpired = errors.New("not done in time")
)

// Err is nil for a step that was done, or planned and not refused; else ErrRefused or ErrExpired with why.
func (r GoalResult) Err() error {
	switch {
	case r.Outcome == GoalRefused, r.Decision.Refused:
		return fmt.Errorf("%w: %s", ErrRefused, r.Decision.Reason)
	case r.Outcome == GoalExpired:
		return fmt.Errorf("%w: %s", ErrExpired, r.Decision.Reason)
	}
	return nil
}

// request is a person's step in the leader's loop.
type request struct {
	asked    GoalRequest
	deadline time.Time
	over     context.Context // ends when nobody waits for it any more
	held     bool            // the spec was put on hold for it
	result   GoalResult
	done     chan GoalResult // takes one value
}

// Goal carries out a person's step: here if this host leads, else by handing
// it to the daemon that does. When leadership moves meanwhile, the next leader
// goes on; every step is planned anew, so nothing is done twice.
//
// Errors: ErrNoLeader; ctx's; what kept the leader from being reached last.
func (m *Manager) Goal(ctx context.Context, r GoalRequest) (GoalResult, error) {
	if r.Within <= 0 {
		r.Within = m.o.Intervals.GoalTimeout
	}
	deadline := time.Now().Add(r.Within)
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(m.o.Intervals.ObserveTimeout)) // for the answer that says how far it got
	defer cancel()
	failed := ErrNoLeader
	for {
		leader, _, turned := m.gossip.Leader()
		if leader != "" {
			r.Within = time.Until(deadline)
			result, err := m.goalBy(ctx, leader, r)
			if err == nil && result.Outcome != GoalTurned {
				return result, nil
			}
			if failed = err; err == nil {
				if result.Goal != nil { // the next leader knows what this one had seen
					r.Goal = *result.Goal
				}
				failed = fmt.Errorf("%w for long enough: host %s did until now", ErrNoLeader, leader)
			}
		}
		if err := waitFor(ctx, turned, goalRetry); err != nil || !time.Now().Before(deadline) {
			if err != nil && !errors.Is(failed, err) {
				failed = errors.Join(failed, err)
			}
			return GoalResult{}, fmt.Errorf("%s: %w", r.Goal, failed)
		}
	}
}

func waitFor(ctx context.Context, turned <-chan struct{}, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-turned:
	case <-timer.C:
	}
	return ctx.Err() // the end goes before the rest, and not by chance
}

// goalBy has a leader carry out the step.
func (m *Manager) goalBy(ctx context.Context, leader cluster.HostID, r GoalRequest) (GoalResult, error) {
	if leader == m.self {
		return m.goalHere(ctx, r)
	}
	r.Handed = true
	to, ok := m.gossip.ContactOf(leader)
	if !ok {
		return GoalResult{}, ErrNoLeader
	}
	wish, err := json.Marshal(r)
	if err != nil {
		return GoalResult{}, fmt.Errorf("hand over %s: %w", r.Goal, err)
	}
	reply, err := m.o.Network.Goal(ctx, to, wish)
	if err != nil {
		return GoalResult{}, fmt.Errorf("hand over %s: %w", r.Goal, err)
	}
	var result GoalResult
	if err := json.Unmarshal(reply, &result); err != nil {
		return GoalResult{}, fmt.Errorf("hand over %s: read the answer: %w", r.Goal, err)
	}
	return result, nil
}

// goalHere puts the step into this host's loop and waits for its end.
func (m *Manager) goalHere(ctx context.Context, r GoalRequest) (GoalResult, error) {
	e := &request{asked: r, deadline: time.Now().Add(r.Within), over: ctx, done: make(chan GoalResult, 1)}
	_, leading, turned := m.gossip.Leader()
	if !leading {
		return GoalResult{Outcome: GoalTurned}, nil
	}
	if err := ctx.Err(); err != nil {
		return GoalResult{}, err
	}
	select {
	case m.goals <- e:
	case <-turned:
		return GoalResult{Outcome: GoalTurned}, nil
	case <-ctx.Done():
		return GoalResult{}, ctx.Err()
	}
	select {
	case result := <-e.done:
		return result, nil
	case <-ctx.Done():
	}
	select {
	case result := <-e.done: // it came with the end
		return result, nil
	default:
		return GoalResult{}, ctx.Err()
	}
}

// HandleGoal is Goal for the wire: another daemon, or a person's command,
// hands over a GoalRequest and gets a GoalResult.
func (m *Manager) HandleGoal(ctx context.Context, wish json.RawMessage) (json.RawMessage, error) {
	var r GoalRequest
	if err := cluster.UnmarshalKnown(wish, &r, "the step"); err != nil {
		return nil, fmt.Errorf("read the step: %w", err)
	}
	carryOut := m.Goal
	if r.Handed {
		carryOut = m.goalHere
	}
	result, err := carryOut(ctx, r)
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// accepts is where the next step comes from: nowhere while one is under way.
func (t *term) accepts() <-chan *request {
	if t.request != nil {
		return nil
	}
	return t.m.goals
}

// overdue tells when nobody waits for the step under way any more.
func (t *term) overdue() <-chan struct{} {
	if t.request == nil {
		return nil
	}
	return t.request.over.Done()
}

// serve gives the step under way its share of a decision, and reports whether
// the decision's action is to be taken.
func (t *term) serve(d plan.Decision) bool {
	e := t.request
	if e == nil {
		return true
	}
	e.result.Leader, e.result.Decision = t.m.self, d
	late := e.over.Err() != nil || !time.Now().Before(e.deadline)
	switch {
	case e.asked.DryRun:
		t.finish(GoalPlanned)
	case d.Refused:
		t.finish(GoalRefused)
	case d.Done:
		t.finish(GoalDone)
	case late:
		t.finish(GoalExpired)
	default:
		if a := d.Action; a != nil {
			step := GoalStep{Rule: d.Rule, Reason: d.Reason.String(), Action: a.String(), Projection: a.Projection}
			e.asked.Goal.Acted = true
			if n := len(e.result.Steps); n == 0 || e.result.Steps[n-1].Action != step.Action {
				e.result.Steps = append(slices.Clip(e.result.Steps), step)
			}
		}
		return true
	}
	wake.Up(t.m.wake) // to converge again, and for the next step
	return false
}

// holdFirst puts the spec on hold before the first step that is taken against
// it: a leader that comes next must not undo it. A step that is refused holds
// nothing.
func (t *term) holdFirst(ctx context.Context) error {
	e := t.request
	if e == nil || !e.asked.Goal.Hold || e.held || t.m.o.Control == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.m.o.Intervals.WriteTimeout)
	defer cancel()
	err := t.m.o.Control.Settings().Hold(ctx, true)
	switch {
	case err == nil:
		e.held = true
	case e.asked.Goal.NoStore:
		// Nobody undoes the step before the store answers; then it has to be asked for again.
		e.held = true // as far as can be
		t.m.log.Warn("the spec is not on hold: without the store that cannot be written", "err", err)
	default:
		return fmt.Errorf("put the spec on hold: %w", err)
	}
	return nil
}

func (t *term) finish(o GoalOutcome) {
	t.request.result.Outcome = o
	t.request.done <- t.request.result
	t.request = nil
}

// drop gives the step under way back when leadership ends.
func (t *term) drop() {
	if t.request != nil {
		goal := t.request.asked.Goal
		t.request.result.Goal = &goal
		t.finish(GoalTurned)
	}
}
