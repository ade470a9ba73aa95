package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"etcdadm.io/internal/daemon"
	"github.com/spf13/cobra"
)

// SignalContext ends with SIGINT, SIGTERM or SIGHUP. A later signal ends the program
// at once, whatever it waits for: a disk that does not answer heeds no context.
func SignalContext() (context.Context, func()) {
	return untilSignal(func(os.Signal) error { return context.Canceled }, interrupted)
}

// daemonContext is SignalContext for a daemon; its cause says whether etcd is to go on. SIGUSR1 ends the daemon for
// the next one to take its place, whatever SIGTERM does: it is how a supervisor replaces the program.
func daemonContext(onSigterm daemon.SigtermAction) (context.Context, func()) {
	return untilSignal(func(s os.Signal) error { return endBy(s, onSigterm, os.Getpid()) }, interrupted, syscall.SIGUSR1)
}

// endBy is the end of a daemon that a signal asks for. The first process of a container takes all others with it: an
// etcd that it left running would be killed, where it can be stopped.
func endBy(s os.Signal, onSigterm daemon.SigtermAction, pid int) error {
	if leave := s == syscall.SIGUSR1 || s != os.Interrupt && onSigterm == daemon.SigtermLeave; leave && pid != 1 {
		return daemon.ErrLeaveEtcd
	}
	return context.Canceled
}

// endsWhole marks a command whose end takes its time, is bounded and must not be cut
// short: further signals change nothing.
const endsWhole = "ends-whole"

// commandContext is SignalContext for what the arguments name.
func commandContext(root *cobra.Command, args []string) (context.Context, func()) {
	if c, _, err := root.Find(args); err == nil && c.Annotations[endsWhole] != "" {
		return untilSignal(func(os.Signal) error { return context.Canceled }, func() {})
	}
	return SignalContext()
}

// interrupted ends the program, which has said what it was about.
func interrupted() {
	if q := lastWords.Load(); q != nil {
		q.Flush(logFlush)
	}
	os.Exit(ExitInterrupted)
}

// untilSignal is a context that the first signal ends, for the cause that belongs to
// it; a later one calls now. What it returns is called once; it gives signals back
// their own meaning.
func untilSignal(cause func(os.Signal) error, now func(), more ...os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, append(endingSignals(), more...)...)
	go heed(signals, func(s os.Signal) { cancel(cause(s)) }, now)
	return ctx, func() {
		signal.Stop(signals) // nothing is sent from here on
		close(signals)
		cancel(context.Canceled)
	}
}

// endingSignals leaves out a SIGHUP that the program was started to ignore, as nohup
// does.
func endingSignals() []os.Signal {
	ending := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ending = append(ending, syscall.SIGHUP)
	}
	return ending
}

// sameWord is for how long further signals say the same as the first one: the
// kernel tells of a parent's death once for each of its threads, and a terminal
// and a supervisor may both speak. Taken for impatience, they would end the
// daemon before it has stopped etcd.
const sameWord = time.Second

// heed calls first for the first signal, and now for one that comes later than
// sameWord after it. It ends when the channel is closed.
func heed(signals <-chan os.Signal, first func(os.Signal), now func()) {
	s, ok := <-signals
	if !ok {
		return
	}
	first(s)
	began := time.Now()
	for range signals {
		if time.Since(began) >= sameWord {
			now()
			return
		}
	}
}
