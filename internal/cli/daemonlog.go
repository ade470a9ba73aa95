package cli

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/logqueue"
	"etcdadm.io/internal/peer"
)

// logFlush is what the end of a program that runs on and on gives its log: less than an init
// system gives the program, and plenty for whoever reads the log at all.
const logFlush = 2 * time.Second

// lastWords is the queue before standard error, where there is one: this program may be ended in
// the midst of anything.
var lastWords atomic.Pointer[logqueue.Queue]

// openLog puts a queue before a writer, and makes a log over it. Everything that the program says
// from then on goes to the queue, and none of it waits for whoever reads it. The queue is flushed
// at the end.
func openLog(cfg daemon.Config, w io.Writer) (*slog.Logger, *logqueue.Queue) {
	q := logqueue.New(w, func(lines uint64, over time.Duration) []byte {
		var line bytes.Buffer
		newLog(cfg, &line).Warn("lines of this log were dropped: what takes it, such as standard error, did not keep up", "lines", lines, "within", over.Round(time.Millisecond),
			"hint", "see whether what reads it goes on, such as journald, a container's runtime or a terminal")
		return line.Bytes()
	})
	log := newLog(cfg, q)
	if w == io.Writer(os.Stderr) { // where logs of libraries would go, too
		slog.SetDefault(log)
		peer.LogTo(q)
		lastWords.Store(q)
	}
	return log, q
}

func newLog(cfg daemon.Config, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo}
	if cfg.LogLevel >= 8 {
		opts.Level = slog.LevelDebug
	}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
