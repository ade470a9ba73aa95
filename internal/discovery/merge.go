package discovery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"etcdadm.io/internal/wake"
)

const (
	// SourceTimeout bounds what one source may take in one call to Merged.Seeds.
	SourceTimeout = 10 * time.Second
	// retell is the least time between two reports about a source that goes on failing with changing words: some errors carry a
	// number that is another one each time.
	retell = 5 * time.Minute
)

// Source is one source of a union, with the name by which its errors are told.
type Source struct {
	Name  string
	Seeds Seeds
}

// Merged is the union of several sources. Use Merge.
type Merged struct {
	report  func(source string, err error)
	sources []Source

	asking []patience // by index of sources

	mu     sync.Mutex // guards what follows
	states []state    // by index of sources
}

type state struct {
	last []Seed    // the last good answer, and what came beside errors since
	told string    // the error that was last reported, or empty
	at   time.Time // of that report
}

// answer is what one source said.
type answer struct {
	seeds []Seed
	err   error
}

// Merge gives the union of the sources. A source that fails counts with its last good answer, and with whatever it gave beside
// errors since. The function (which may be nil) is told each error once, and a nil error when the source has recovered. It is
// never called twice at a time, and must not call back.
func Merge(report func(source string, err error), sources ...Source) *Merged {
	if report == nil {
		report = func(string, error) {}
	}
	return &Merged{report: report, sources: sources, asking: make([]patience, len(sources)), states: make([]state, len(sources))}
}

// Seeds implements Seeds. The sources are asked at the same time, each for SourceTimeout at most, so that a slow one delays the
// others by no more. It fails only when every source failed and nothing was ever learned; all other errors go to the report.
func (m *Merged) Seeds(ctx context.Context) ([]Seed, error) {
	answers := make([]answer, len(m.sources))
	var asked sync.WaitGroup
	for i := range m.sources {
		asked.Go(func() { answers[i] = m.ask(ctx, i) })
	}
	asked.Wait()
	if errors.Is(ctx.Err(), context.Canceled) {
		// The caller gave up, which is no failure of a source. A deadline is one, of those that did not keep it.
		return nil, fmt.Errorf("find seeds: %w", ctx.Err())
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	var union []Seed
	var errs []error
	for i, a := range answers {
		state := &m.states[i]
		if a.err != nil {
			a.seeds = tidy(append(a.seeds, state.last...))
			errs = append(errs, fmt.Errorf("%s: %w", m.sources[i].Name, a.err))
		}
		state.last = a.seeds
		union = append(union, a.seeds...)
		m.tell(i, a.err)
	}
	if len(union) == 0 && len(errs) > 0 && len(errs) == len(m.sources) {
		return nil, fmt.Errorf("find seeds: %w", errors.Join(errs...))
	}
	return tidy(union), nil
}

// ask asks one source, and does not wait longer than that may take. One that was given up is asked again when it has ended.
func (m *Merged) ask(ctx context.Context, i int) answer {
	ctx, cancel := context.WithTimeout(ctx, SourceTimeout)
	defer cancel()
	seeds, err := within(ctx, &m.asking[i], m.sources[i].Seeds.Seeds)
	return answer{seeds, err}
}

// tell reports how a source fared, if that is news. The caller holds m.mu.
func (m *Merged) tell(i int, err error) {
	state := &m.states[i]
	var text string
	if err != nil {
		text = err.Error()
	}
	if text == state.told || text != "" && state.told != "" && time.Since(state.at) < retell {
		return
	}
	state.told, state.at = text, time.Now()
	m.report(m.sources[i].Name, err)
}

// Watch implements Watcher for those sources that do. Without any, the channel only closes.
func (m *Merged) Watch(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	var watching sync.WaitGroup
	for _, source := range m.sources {
		watcher, ok := source.Seeds.(Watcher)
		if !ok {
			continue
		}
		changes := watcher.Watch(ctx)
		watching.Go(func() {
			for range changes {
				wake.Up(out)
			}
		})
	}
	go func() {
		<-ctx.Done()
		watching.Wait()
		close(out)
	}()
	return out
}
