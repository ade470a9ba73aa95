package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/host/datadir"
)

const (
	// lastWordTimeout is what a daemon that does not start takes to tell the others why.
	lastWordTimeout = 2 * time.Second
	// lastWordMost bounds what is believed of one, in bytes, and lastWordsMost of how many
	// hosts.
	lastWordMost  = 2 << 10
	lastWordsMost = 64
)

// sayLastWord tells the daemons that this host knows why its own does not start. It does so
// with the operator's certificate that a daemon before left, and only where the data
// directory is of this machine and of the cluster that the daemon was started for: on an
// image nobody is told anything. Nothing of it is needed by anybody; older daemons do not
// know the question.
func sayLastWord(cfg Config, r console.Refusal) {
	ctx, cancel := context.WithTimeout(context.Background(), lastWordTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		tellPeers(ctx, cfg, r)
	}()
	select {
	case <-done:
	case <-ctx.Done(): // a hung disk is left to the end of the program
	}
}

func tellPeers(ctx context.Context, cfg Config, r console.Refusal) {
	a, err := console.ReadAccess(cfg.DataDir)
	if err != nil || cfg.ClusterName != "" && a.Cluster != cfg.ClusterName || len(a.Endpoints) == 0 {
		return
	}
	if own, known := console.OnThisMachine(a.Endpoints[0]); !own || !known {
		return
	}
	state, err := datadir.KnownState(cfg.DataDir)
	if err != nil || state.Cluster != a.Cluster {
		return
	}
	id, known := speaksOf(cfg)
	if !known {
		return
	}
	c, err := console.Open(a)
	if err != nil {
		return
	}
	defer c.Close()
	var told sync.WaitGroup
	for _, p := range state.Peers {
		if p.Address != "" && p.Host != id {
			told.Go(func() { _ = c.LastWord(ctx, cluster.Contact{Host: p.Host, Endpoint: p.Address}, id, r) })
		}
	}
	told.Wait()
}

// speaksOf is the host that a last word is of. A data directory that has another host's ID
// than the daemon was started with may be that host's, which runs: of neither anything is
// said.
func speaksOf(cfg Config) (id cluster.HostID, known bool) {
	kept, err := datadir.KnownID(cfg.DataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cfg.HostID, cfg.HostID != ""
	case err != nil, kept == "", cfg.HostID != "" && cfg.HostID != kept:
		return "", false
	}
	return kept, true
}

// lastWords are what daemons of other hosts said last of themselves, until they are heard
// again. The zero value has none.
type lastWords struct {
	mu   sync.Mutex // guards said
	said map[cluster.HostID]console.Refusal
}

// hear takes a last word in. The first of several that are alike counts: a daemon that is
// started again and again says the same at another time.
func (l *lastWords) hear(of cluster.HostID, r console.Refusal, log *slog.Logger) {
	if of == "" || r.Why == "" {
		return
	}
	r.Why, r.Hint = shortened(r.Why), shortened(r.Hint)
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, is := l.said[of]; is && was.Why == r.Why || !is && len(l.said) >= lastWordsMost {
		return
	}
	if l.said == nil {
		l.said = map[cluster.HostID]console.Refusal{}
	}
	l.said[of] = r
	log.Warn("the daemon of another host does not run", "host", of, "because", r.Why, "hint", r.Hint)
}

// heard: the host's daemon runs.
func (l *lastWords) heard(of cluster.HostID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.said, of)
}

// of is what is said of a host; empty: nothing.
func (l *lastWords) of(id cluster.HostID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, is := l.said[id]
	if !is {
		return ""
	}
	words := fmt.Sprintf("its daemon said at %s that it does not run: %s", r.At.UTC().Format(time.RFC3339), r.Why)
	if r.Hint != "" {
		words += " (" + r.Hint + ")"
	}
	return words
}

func shortened(text string) string {
	if len(text) > lastWordMost {
		return text[:lastWordMost] + "…"
	}
	return text
}

// lastWord takes in what a daemon that does not start said of its host.
func (d *daemon) lastWord(q console.Question) bool {
	if q.Refusal != nil && q.Host != d.id {
		d.words.hear(q.Host, *q.Refusal, d.log)
	}
	return true
}
