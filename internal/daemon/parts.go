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
	mu    sync.Mutex // guards parts and fail
	parts map[string]*part
	fail  chan error
	left  []string // parts of which something did not end; for stop alone
}

// errLeft: the end of the program ends what did not end in its time, and only then
// is anything begun anew or the state unlocked.
var errLeft = errors.New("not all of this daemon has ended")

type part struct {
	cancel context.CancelFunc
	done   chan struct{}
	behind error // what the part itself gave up waiting for; to be read once done is closed
}

func (g *group) failed() <-chan error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fail
}

// start runs a part under a context of its own, which the end of ctx does not
// end: the order of stopping is serve's. A part that returns errLeft has left something
// behind that goes on without it.
func (g *group) start(ctx context.Context, name string, run func(context.Context) error) {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{cancel: cancel, done: make(chan struct{})}
	g.mu.Lock()
	if g.fail == nil {
		g.fail, g.parts = make(chan error, 16), map[string]*part{}
	}
	g.parts[name] = p
	fail := g.fail
	g.mu.Unlock()
	go func() {
		defer close(p.done)
		err := run(inner)
		if errors.Is(err, errLeft) {
			p.behind = err
		}
		if err != nil && inner.Err() == nil {
			select {
			case fail <- fmt.Errorf("%s: %w", name, err):
			default:
			}
		}
	}()
}

// stop ends parts, and waits for all of them up to a moment. That what stands still
// takes no time from others, they end beside each other.
func (g *group) stop(until time.Time, names ...string) {
	var waited []string
	for _, name := range names {
		if p := g.part(name); p != nil && !slices.Contains(g.left, name) { // what was given up once is not waited for again
			p.cancel()
			waited = append(waited, name)
		}
	}
	g.await(until, waited)
	for _, name := range waited {
		if p := g.part(name); ended(p) && p.behind != nil {
			g.log.Error("a part of this daemon left something running; it ends with the process", "part", name, "err", p.behind)
			g.left = append(g.left, name)
		}
	}
}

// has reports whether a part was started.
func (g *group) has(name string) bool { return g.part(name) != nil }

func (g *group) part(name string) *part {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.parts[name]
}

// await waits for the end of parts, and says so while that takes long.
func (g *group) await(until time.Time, names []string) {
	began := time.Now()
	says := time.NewTicker(partSays)
	defer says.Stop()
	up := time.NewTimer(max(time.Until(until), partLeast))
	defer up.Stop()
	for _, name := range names {
		for p := g.part(name); !ended(p); {
			select {
			case <-p.done:
			case <-says.C:
				g.log.Warn("waiting for parts of this daemon to end", "parts", g.running(names), "since", began.UTC().Format(time.RFC3339), "until", until.UTC().Format(time.RFC3339))
			case <-up.C:
				left := g.running(names)
				g.log.Error("parts of this daemon did not stop; they end with the process", "parts", left, "waited", time.Since(began).Round(time.Second))
				g.left = append(g.left, left...)
				return
			}
		}
	}
}

// running are those of the parts that have not ended.
func (g *group) running(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return ended(g.part(name)) })
}

func ended(p *part) bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
