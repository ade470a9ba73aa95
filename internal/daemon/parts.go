package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// group runs parts that are stopped one by one.
type group struct {
	log   *slog.Logger
	mu    sync.Mutex // guards parts
	parts map[string]*part
	fail  chan error
	left  []string // parts that did not end; for stop alone
}

// errLeft: the end of the program ends these parts, and only then is anything
// begun anew or the state unlocked.
var errLeft = errors.New("parts of this daemon did not end within " + partEnds.String())

type part struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func (g *group) failed() <-chan error { return g.fail }

// start runs a part under a context of its own, which the end of ctx does not
// end: the order of stopping is serve's.
func (g *group) start(ctx context.Context, name string, run func(context.Context) error) {
	if g.fail == nil {
		g.fail, g.parts = make(chan error, 16), map[string]*part{}
	}
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{cancel: cancel, done: make(chan struct{})}
	g.mu.Lock()
	g.parts[name] = p
	g.mu.Unlock()
	go func() {
		defer close(p.done)
		if err := run(inner); err != nil && inner.Err() == nil {
			select {
			case g.fail <- fmt.Errorf("%s: %w", name, err):
			default:
			}
		}
	}()
}

// stop ends parts, one after the other, and waits for each, up to partEnds.
func (g *group) stop(names ...string) {
	for _, name := range names {
		g.mu.Lock()
		p := g.parts[name]
		g.mu.Unlock()
		if p != nil && !slices.Contains(g.left, name) { // what was given up once is not waited for again
			p.cancel()
			g.await(name, p)
		}
	}
}

// await waits for the end of a part, and says so while that takes long.
func (g *group) await(name string, p *part) {
	began := time.Now()
	t := time.NewTicker(partSays)
	defer t.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-t.C:
		}
		if time.Since(began) >= partEnds {
			g.log.Error("a part of this daemon did not end, and is left to the end of the program", "part", name, "waited", partEnds)
			g.left = append(g.left, name)
			return
		}
		g.log.Warn("waiting for a part of this daemon to end", "part", name, "since", began.UTC().Format(time.RFC3339), "at most", partEnds)
	}
}
