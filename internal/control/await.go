package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// lookEvery is how often a command that is waited for is looked at.
const lookEvery = 500 * time.Millisecond

// Wait waits for a command of the queue, until it has ended and, where it made
// a generation, until that lets clients in. The store alone is asked.
type Wait struct {
	Folder *Folder
	Name   string // of the command
	// Say is told what is waited for, when that changes; nil: nobody is.
	Say func(string)

	said  string
	heard bool // what was said of the quarantine is the leader's
}

// Said is what was waited for last; empty: nothing was said yet.
func (w *Wait) Said() string { return w.said }

// End waits for the end of the command.
//
// Errors: the context's; ErrMalformed.
func (w *Wait) End(ctx context.Context) (Ended, error) {
	w.tell("the leading daemon has not begun it")
	var end Ended
	err := w.poll(ctx, func() (ok bool, err error) {
		end, ok, err = w.ended(ctx)
		return ok, err
	})
	return end, err
}

// Opening is how far a generation is in letting ordinary clients in.
type Opening struct {
	// Closed: a look found that they were not let in by every member.
	Closed bool
	// Lifted: the quarantine has ended, and members are restarted one at a time for that.
	Lifted bool
}

// Open waits until ordinary clients are let in by every member: a generation serves
// in quarantine until a majority of the spec has joined it, and then its members are
// restarted one at a time to listen to clients.
//
// Errors: the context's; ErrMalformed.
func (w *Wait) Open(ctx context.Context) (o Opening, err error) {
	err = w.poll(ctx, func() (bool, error) {
		in, err := w.intent(ctx)
		if err != nil || in == nil {
			return err == nil, err
		}
		if in.Quarantined {
			o.Closed = true
			w.tell(w.quarantine(ctx, in))
			return false, nil
		}
		o.Lifted = true
		if left := w.quarantined(ctx); left > 0 {
			o.Closed = true
			members := "1 member"
			if left > 1 {
				members = fmt.Sprintf("%d members", left)
			}
			w.tell("clients are let in by some members already; " + members + " left to be restarted for that")
			return false, nil
		}
		return true, nil
	})
	return o, err
}

// quarantined is how many members the leader's status has in quarantine.
func (w *Wait) quarantined(ctx context.Context) (n int) {
	s, ok, err := w.Folder.ReadStatus(ctx)
	if err != nil || !ok {
		return 0
	}
	for _, m := range s.Members {
		if m.Quarantined {
			n++
		}
	}
	return n
}

// poll looks until it is so, at most until the context ends. A store that does
// not answer may do so again.
func (w *Wait) poll(ctx context.Context, look func() (bool, error)) error {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		ok, err := look()
		switch {
		case errors.Is(err, ErrMalformed):
			return err
		case err != nil && ctx.Err() == nil:
			w.tell(fmt.Sprintf("the backup store: %v", err))
		case ok && err == nil:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

// ended tells how the command ended, and meanwhile what it waits for.
func (w *Wait) ended(ctx context.Context) (Ended, bool, error) {
	all, err := w.Folder.EndedCommands(ctx)
	if err != nil {
		return Ended{}, false, err
	}
	if i := slices.IndexFunc(all, func(e Ended) bool { return e.Name == w.Name }); i >= 0 {
		return all[i], true, nil
	}
	s, ok, err := w.Folder.ReadStatus(ctx)
	if err != nil || !ok {
		return Ended{}, false, err
	}
	for _, c := range s.Commands {
		if c.Command == w.Name && c.For != "" {
			w.tell(c.For)
		}
	}
	return Ended{}, false, nil
}

// intent is the one in the store, whatever the cluster is called.
func (w *Wait) intent(ctx context.Context) (*cluster.Intent, error) {
	in, _, _, err := w.Folder.ReadIntent(ctx)
	if errors.Is(err, ErrOtherCluster) {
		err = nil
	}
	return in, err
}

// quarantine says what has to come before clients are let in, in the leader's
// words where it has said it.
func (w *Wait) quarantine(ctx context.Context, in *cluster.Intent) string {
	if s, ok, err := w.Folder.ReadStatus(ctx); err == nil && ok {
		for _, b := range s.Blockers {
			if b.Code == "quarantine" {
				w.heard = true
				return b.Sentence
			}
		}
	}
	if w.heard { // it is at something else for a moment
		return w.said
	}
	return fmt.Sprintf("generation %d is quarantined: ordinary clients are not served until a majority of the members that the spec asks for is up, and %d joined", in.Generation, len(in.Voters))
}

// tell says what is waited for, once.
func (w *Wait) tell(sentence string) {
	if sentence == w.said {
		return
	}
	w.said = sentence
	if w.Say != nil {
		w.Say(sentence)
	}
}
