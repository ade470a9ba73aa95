package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
)

// awaited is a command that is waited for, until it has ended and, where it made
// a generation, until that lets clients in. The store alone is asked.
type awaited struct {
	folder *control.Folder
	name   string
	bound  time.Duration
	out    io.Writer // how it ended
	say    io.Writer // what is waited for, when that changes

	said string
	err  error // of the last look at the store
}

// await waits for the end of a command, and says it.
func (q *queue) await(ctx context.Context, f *control.Folder, name string, out, say io.Writer) error {
	if q.wait <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, q.wait)
	defer cancel()
	a := awaited{folder: f, name: name, bound: q.wait, out: out, say: say}
	a.tell(fmt.Sprintf("the leading daemon has not taken the command up yet; this waits %s at most, and the command stays in the queue", q.wait))
	var end control.Ended
	failed := a.poll(ctx, func() (ok bool, err error) {
		end, ok, err = a.ended(ctx)
		return ok, err
	})
	switch {
	case failed != nil && ctx.Err() == nil:
		return failed
	case failed != nil:
		return a.failure(ctx, fmt.Errorf("command %s was not run within %s", name, q.wait), "etcdadm status says what it waits for; it stays in the queue")
	case end.Result != "done":
		fmt.Fprintf(out, "%s: %s\n", end.Result, end.Reason)
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("command %s was %s", name, end.Result)}
	}
	fmt.Fprintf(out, "%s: %s\n", end.Result, end.Reason)
	if end.Kind == cluster.CommandBackup {
		return nil
	}
	return a.opened(ctx)
}

// opened waits until ordinary clients are let in: a generation serves in
// quarantine until a majority of the spec has joined it.
func (a *awaited) opened(ctx context.Context) error {
	var closed bool
	err := a.poll(ctx, func() (bool, error) {
		in, err := a.intent(ctx)
		if err != nil || in == nil || !in.Quarantined {
			return err == nil, err
		}
		closed = true
		a.tell(a.quarantine(ctx, in))
		return false, nil
	})
	switch {
	case err == nil && closed:
		fmt.Fprintln(a.out, "opened: ordinary clients are let in")
	case err != nil && ctx.Err() != nil:
		return a.failure(ctx, fmt.Errorf("command %s was run, and ordinary clients are not let in after %s", a.name, a.bound),
			"start more daemons; it opens by itself")
	}
	return err
}

// poll looks until it is so, at most until the context ends. A store that does
// not answer may do so again.
func (a *awaited) poll(ctx context.Context, look func() (bool, error)) error {
	t := time.NewTicker(queueEvery)
	defer t.Stop()
	for {
		ok, err := look()
		switch {
		case errors.Is(err, control.ErrMalformed):
			return err
		case err != nil && ctx.Err() == nil:
			a.err = err
			a.tell(fmt.Sprintf("the backup store: %v", err))
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
func (a *awaited) ended(ctx context.Context) (control.Ended, bool, error) {
	all, err := a.folder.EndedCommands(ctx)
	if err != nil {
		return control.Ended{}, false, err
	}
	if i := slices.IndexFunc(all, func(e control.Ended) bool { return e.Name == a.name }); i >= 0 {
		return all[i], true, nil
	}
	s, ok, err := a.folder.ReadStatus(ctx)
	if err != nil || !ok {
		return control.Ended{}, false, err
	}
	for _, c := range s.Commands {
		if c.Command == a.name && c.For != "" {
			a.tell(c.For)
		}
	}
	return control.Ended{}, false, nil
}

// intent is the one in the store, whatever the cluster is called.
func (a *awaited) intent(ctx context.Context) (*cluster.Intent, error) {
	in, _, _, err := a.folder.ReadIntent(ctx)
	if errors.Is(err, control.ErrOtherCluster) {
		err = nil
	}
	return in, err
}

// quarantine says what has to come before clients are let in, in the leader's
// words where it has said it.
func (a *awaited) quarantine(ctx context.Context, in *cluster.Intent) string {
	if s, ok, err := a.folder.ReadStatus(ctx); err == nil && ok {
		for _, b := range s.Blockers {
			if b.Code == "quarantine" {
				return b.Sentence
			}
		}
	}
	return fmt.Sprintf("generation %d is quarantined: ordinary clients are not served until a majority of the members that the spec asks for is up, and %d joined", in.Generation, len(in.Voters))
}

// tell says what is waited for, once.
func (a *awaited) tell(sentence string) {
	if sentence != a.said {
		a.said = sentence
		fmt.Fprintf(a.say, "waiting: %s\n", sentence)
	}
}

// failure is the end of a wait whose time is up, with what was waited for last.
func (a *awaited) failure(ctx context.Context, err error, advice string) error {
	if a.said != "" {
		err = fmt.Errorf("%w: %s", err, a.said)
	}
	return over(ctx, err, advice)
}
