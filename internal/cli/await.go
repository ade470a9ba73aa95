package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/control"
)

// await waits for the end of a command, and says it.
func (q *queue) await(ctx context.Context, f *control.Folder, name string, out, say io.Writer) error {
	if q.wait <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, q.wait)
	defer cancel()
	fmt.Fprintf(say, "waiting up to %s; Ctrl-C is safe, the command stays in the queue\n", q.wait)
	w := control.Wait{Folder: f, Name: name, Say: func(s string) { fmt.Fprintf(say, "waiting: %s\n", s) }}
	end, err := w.End(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		return err
	case err != nil:
		return awaitFailure(ctx, &w, fmt.Errorf("command %s was not run within %s", name, q.wait), "it stays in the queue: etcdadm queue list says what it waits for and when it expires, etcdadm queue cancel "+name+" withdraws it")
	case end.Result != "done":
		fmt.Fprintf(out, "%s: %s\n", end.Result, end.Reason)
		return &Failure{Code: ExitUnsafe, Err: fmt.Errorf("command %s was %s", name, end.Result)}
	}
	fmt.Fprintf(out, "%s: %s\n", end.Result, end.Reason)
	if end.Kind == cluster.CommandBackup {
		return nil
	}
	opening, err := w.Open(ctx)
	switch {
	case err == nil && opening.Closed:
		fmt.Fprintln(out, "opened: ordinary clients are let in")
	case err != nil && ctx.Err() != nil && opening.Lifted:
		return awaitFailure(ctx, &w, fmt.Errorf("command %s was run, but after %s not every member accepts ordinary clients", name, q.wait), "run etcdadm status to see which; it continues without you")
	case err != nil && ctx.Err() != nil:
		return awaitFailure(ctx, &w, fmt.Errorf("command %s was run, and ordinary clients are not let in after %s", name, q.wait),
			"start more daemons; the cluster then opens without you")
	}
	return err
}

// awaitFailure is the end of a wait whose time is up, with what was waited for last.
func awaitFailure(ctx context.Context, w *control.Wait, err error, advice string) error {
	if said := w.Said(); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
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
