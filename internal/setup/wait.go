package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
)

const (
	// DefaultWait is how long etcd is waited for: a slow machine needs some seconds, and a large database to be
	// caught up with longer.
	DefaultWait = 2 * time.Minute
	// waitLook is how often the agent is asked: it answers from memory.
	waitLook = 100 * time.Millisecond
	// waitAsk bounds one question, which the agent answers at once or not at all.
	waitAsk = 2 * time.Second
	// waitSays is how soon it is told what is waited for, and how often it is looked whether that has changed.
	waitSays = 2 * time.Second
)

// awaitServing waits until the member of this host serves.
func (m *Machine) awaitServing(ctx context.Context, s Settings, most time.Duration) error {
	_, err := m.awaitMember(ctx, s, most)
	return err
}

// awaitMember waits until the member of this host votes, or is not needed: spare.
func (m *Machine) awaitMember(ctx context.Context, s Settings, most time.Duration) (spare bool, err error) {
	if most <= 0 {
		most = DefaultWait
	}
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(waitLook)
	defer tick.Stop()
	w := waiter{m: m, s: s, next: time.Now().Add(waitSays), since: time.Now()}
	defer w.close()
	for {
		if w.served(waiting) {
			return false, nil
		}
		if time.Now().After(w.next) {
			w.next = time.Now().Add(waitSays)
			if w.look(waiting) {
				return true, nil
			}
			if w.refused != nil {
				return false, w.refused
			}
		}
		select {
		case <-waiting.Done():
			if ctx.Err() != nil {
				return false, fmt.Errorf("stopped waiting for etcd: %w; the agent goes on, and the command can be run again", ctx.Err())
			}
			problem := fmt.Sprintf("etcd does not serve on this host within %s", spanWords(most))
			if w.said != "" {
				problem += ": " + w.said
			}
			return false, &Error{Problem: problem, Err: ErrWaiting, Advice: "the agent goes on: look at etcdadm status and " + w.m.speak().Log + "; run the command again to wait on"}
		case <-tick.C:
		}
	}
}

// waiter asks this host's agent.
type waiter struct {
	m    *Machine
	s    Settings
	c    *console.Console
	said string
	next time.Time
	// refused: the cluster does not begin as it was to, by a look since then.
	since   time.Time
	refused error
}

func (w *waiter) close() {
	if w.c != nil {
		w.c.Close()
	}
}

// open finds the agent, which writes where it is reached when it starts.
func (w *waiter) open() bool {
	if w.c != nil {
		return true
	}
	access, err := console.ReadAccess(w.s.Flag("data-dir"))
	if err != nil || access.Cluster != w.s.Cluster() {
		return false
	}
	w.c, err = console.Open(access)
	return err == nil
}

// served tells whether the member has just answered a read through raft, as a voter.
func (w *waiter) served(ctx context.Context) bool {
	if !w.open() || len(w.c.Access().Endpoints) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, waitAsk)
	defer cancel()
	got, err := w.c.Served(ctx, cluster.Contact{Host: w.s.HostID(), Endpoint: w.c.Access().Endpoints[0]})
	return err == nil && got.Cluster != 0
}

// look says what is waited for, where that is another thing than before, and tells whether this host is a spare.
func (w *waiter) look(ctx context.Context) (spare bool) {
	ctx, cancel := context.WithTimeout(ctx, waitAsk)
	defer cancel()
	if refused := console.ReadRefusal(w.s.Flag("data-dir")); refused != nil {
		w.tell("the agent did not start: " + refused.Why)
		return false
	}
	if !w.open() {
		w.tell("the agent is starting")
		return false
	}
	report, err := w.c.Status(ctx)
	switch {
	case errors.Is(err, console.ErrNoDaemon):
		w.tell("the agent does not answer yet")
		w.close() // the certificate that it was asked by may have ended, and another one be there
		w.c = nil
	case err != nil:
		w.tell(err.Error())
	case report.Observation == nil || report.Decision == nil:
		w.tell("no agent leads yet")
	default:
		w.tell(report.Decision.Reason.String())
		for _, b := range report.Decision.Blockers {
			if b.Code == "origin" && report.Observation.At.After(w.since) {
				w.refused = &Error{Problem: b.Sentence.String(), Err: ErrOther, Advice: b.Advice}
			}
		}
		roster, listed := report.Observation.Roster()
		_, seen := report.Observation.Host(w.s.HostID())
		spec := report.Observation.Wanted()
		return listed && seen && spec != nil && len(roster.Voters()) >= spec.MemberCount && !roster.Seated(w.s.HostID())
	}
	return false
}

func (w *waiter) tell(sentence string) {
	if sentence != w.said {
		w.said = sentence
		w.m.say("waiting: %s", strings.TrimPrefix(sentence, "waiting for "))
	}
}
