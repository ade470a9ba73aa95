package discovery

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// seedsFunc is a source.
type seedsFunc func(context.Context) ([]Seed, error)

func (f seedsFunc) Seeds(ctx context.Context) ([]Seed, error) { return f(ctx) }

// A source that does not even end with its context, as a file on a mount that
// hangs, keeps nobody from the others; it is asked again when it has ended.
func TestMergedLeavesASourceThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stands := make(chan struct{})
		var asked atomic.Int32
		said := []string{}
		m := Merge(func(_ string, err error) {
			if err != nil {
				said = append(said, err.Error())
			}
		},
			Source{"mount", seedsFunc(func(context.Context) ([]Seed, error) {
				asked.Add(1)
				<-stands
				return []Seed{{ID: "m", Endpoint: "10.0.0.2:1"}}, nil
			})},
			Source{"named", seedsFunc(func(context.Context) ([]Seed, error) { return []Seed{{ID: "n", Endpoint: "10.0.0.1:1"}}, nil })},
		)
		look := func() []string {
			t.Helper()
			began := time.Now()
			seeds, err := m.Seeds(t.Context())
			if err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > SourceTimeout+sourceEnds {
				t.Errorf("it took %s", took)
			}
			var ids []string
			for _, s := range seeds {
				ids = append(ids, s.ID)
			}
			return ids
		}
		for range 3 {
			if ids := look(); !slices.Equal(ids, []string{"n"}) {
				t.Errorf("found %v", ids)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the source that stands still was asked %d times", n)
		}
		if len(said) == 0 || !strings.Contains(said[0], "did not answer") {
			t.Errorf("said %q", said)
		}
		close(stands)
		synctest.Wait()
		if ids := look(); !slices.Equal(ids, []string{"m", "n"}) {
			t.Errorf("found %v once it answers", ids)
		}
	})
}

// announceFunc is a place to announce oneself at.
type announceFunc func(context.Context) error

func (f announceFunc) Announce(ctx context.Context, _ Seed) error { return f(ctx) }

// An announcement that does not end with its context is left to itself, and no other one is begun before it has ended.
func TestAnAnnouncementThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stands := make(chan struct{})
		var begun atomic.Int32
		p := &Patient{Announcer: announceFunc(func(context.Context) error { begun.Add(1); <-stands; return nil })}
		announce := func() (time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			err := p.Announce(ctx, Seed{})
			return time.Since(began), err
		}
		if took, err := announce(); took != time.Second+sourceEnds || err == nil || !strings.Contains(err.Error(), "did not answer") {
			t.Errorf("it ended after %s with %v", took, err)
		}
		if took, err := announce(); took != 0 || err == nil || !strings.Contains(err.Error(), "has not answered since ") || begun.Load() != 1 {
			t.Errorf("the second of %d ended after %s with %v", begun.Load(), took, err)
		}
		close(stands)
		synctest.Wait()
		if _, err := announce(); err != nil || begun.Load() != 2 {
			t.Errorf("%d were begun, the last one ended with %v", begun.Load(), err)
		}
	})
}

// Who ends a watch over a hung directory does not wait for the disk.
func TestTheEndOfAWatchThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		changes, out := make(chan struct{}, 1), make(chan struct{}, 1)
		go forward(ctx, changes, make(chan struct{}), out)
		changes <- struct{}{}
		if _, open := <-out; !open {
			t.Fatal("a change ends the watch")
		}
		cancel()
		began := time.Now()
		if _, open := <-out; open || time.Since(began) != sourceEnds {
			t.Errorf("open %v after %s", open, time.Since(began))
		}
	})
}
