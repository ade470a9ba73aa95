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

	said  string
	heard bool  // what was said of the quarantine is the leader's
	err   error // of the last look at the store
}

// await waits for the end of a command, and says it.
func (q *queue) await(ctx context.Context, f *control.Folder, name string, out, say io.Writer) error {
	if q.wait <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, q.wait)
	defer cancel()
	a := awaited{folder: f, name: name, bound: q.wait, out: out, say: say}
	a.tell("the leading daemon has not begun it")
	fmt.Fprintf(say, "waiting up to %s; Ctrl-C is safe, the command stays in the queue\n", q.wait)
	var end control.Ended
	failed := a.poll(ctx, func() (ok bool, err error) {
		end, ok, err = a.ended(ctx)
		return ok, err
	})
	switch {
	case failed != nil && ctx.Err() == nil:
		return failed
	case failed != nil:
		return a.failure(ctx, fmt.Errorf("command %s was not run within %s", name, q.wait), "it stays in the queue: etcdadm queue list says what it waits for and when it expires, etcdadm queue cancel "+name+" withdraws it")
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

// opened waits until ordinary clients are let in by every member: a generation serves
// in quarantine until a majority of the spec has joined it, and then its members are
// restarted one at a time to listen to clients.
func (a *awaited) opened(ctx context.Context) error {
	var closed, lifted bool
	err := a.poll(ctx, func() (bool, error) {
		in, err := a.intent(ctx)
		if err != nil || in == nil {
			return err == nil, err
		}
		if in.Quarantined {
			closed = true
			a.tell(a.quarantine(ctx, in))
			return false, nil
		}
		lifted = true
		if left := a.quarantined(ctx); left > 0 {
			closed = true
			a.tell(fmt.Sprintf("clients are let in by some members already; %s left to be restarted for that", counted(left, "member")))
			return false, nil
		}
		return true, nil
	})
	switch {
	case err == nil && closed:
		fmt.Fprintln(a.out, "opened: ordinary clients are let in")
	case err != nil && ctx.Err() != nil && lifted:
		return a.failure(ctx, fmt.Errorf("command %s was run, but after %s not every member accepts ordinary clients", a.name, a.bound), "run etcdadm status to see which; it continues without you")
	case err != nil && ctx.Err() != nil:
		return a.failure(ctx, fmt.Errorf("command %s was run, and ordinary clients are not let in after %s", a.name, a.bound),
			"start more daemons; the cluster then opens without you")
	}
	return err
}

// quarantined is how many members the leader's status has in quarantine.
func (a *awaited) quarantined(ctx context.Context) (n int) {
	s, ok, err := a.folder.ReadStatus(ctx)
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
				a.heard = true
				return b.Sentence
			}
		}
	}
	if a.heard { // it is at something else for a moment
		return a.said
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

// over is the end of a wait: its time is up, and what was waited for goes on, or
// the one who waited has had enough.
func over(ctx context.Context, err error, advice string) error {
	if ended := ctx.Err(); errors.Is(ended, context.Canceled) {
		return fmt.Errorf("stopped waiting: %w; %s", ended, advice)
	}
	return &Failure{Code: ExitWaiting, Err: err, Advice: advice}
}
