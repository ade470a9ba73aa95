package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// scripted is a source that answers as told.
type scripted struct {
	seeds []Seed
	err   error
	delay time.Duration
}

func (s *scripted) Seeds(ctx context.Context) ([]Seed, error) {
	select {
	case <-time.After(s.delay):
		return slices.Clone(s.seeds), s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		report := func(source string, err error) { told = append(told, fmt.Sprintf("%s: %v", source, err)) }
		reported := func(want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
			told = nil
		}
		one, two := &scripted{}, &scripted{}
		merged := Merge(report, Source{"one", one}, Source{"two", two})
		if err := wantSeeds(t, merged); err != nil {
			t.Error(err)
		}

		// Nothing was ever learned, and nothing can be: that is an error.
		one.err, two.err = errors.New("one is down"), errors.New("two is down")
		if err := wantSeeds(t, merged); !errors.Is(err, one.err) || !errors.Is(err, two.err) {
			t.Error(err)
		}
		reported("one: one is down", "two: two is down")

		// A union, in order, in which an address with an ID stands for the same without.
		a, b, c := Seed{"a", "10.0.0.1:1"}, Seed{"b", "10.0.0.2:1"}, Seed{"", "10.0.0.3:1"}
		*one = scripted{seeds: []Seed{b, a}}
		*two = scripted{seeds: []Seed{c, {"", b.Endpoint}, a}}
		if err := wantSeeds(t, merged, c, a, b); err != nil {
			t.Error(err)
		}
		reported("one: <nil>", "two: <nil>")

		// A failing source counts with its last good answer, and is reported once.
		*two = scripted{err: errors.New("no route")}
		for range 3 {
			if err := wantSeeds(t, merged, c, a, b); err != nil {
				t.Error(err)
			}
		}
		reported("two: no route")
		// Changing words are not news, for a while.
		two.err = errors.New("no route (request 17)")
		wantSeeds(t, merged, c, a, b)
		reported()
		time.Sleep(retell)
		wantSeeds(t, merged, c, a, b)
		reported("two: no route (request 17)")
		// What comes beside an error counts too, and is kept.
		d := Seed{"d", "10.0.0.4:1"}
		two.seeds = []Seed{d}
		wantSeeds(t, merged, c, a, b, d)
		two.seeds = nil
		wantSeeds(t, merged, c, a, b, d)
		// Recovered, its answer is the truth again, also when it is shorter.
		two.err = nil
		wantSeeds(t, merged, a, b)
		reported("two: <nil>")

		// A slow source delays the others by no more than its time.
		two.delay, two.seeds = time.Hour, []Seed{d}
		start := time.Now()
		wantSeeds(t, merged, a, b)
		if took := time.Since(start); took != SourceTimeout {
			t.Errorf("took %v", took)
		}
		reported("two: context deadline exceeded")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got, err := merged.Seeds(ctx); err != nil || len(got) != 2 {
			t.Errorf("with a shorter deadline: %v, %v", got, err)
		}

		// Giving up is no failure of a source.
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err := merged.Seeds(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		reported()
	})
}

func TestMergeWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := make(chan struct{}), make(chan struct{})
		merged := Merge(nil, Source{"static", Static{}}, Source{"first", watched{first}}, Source{"second", watched{second}})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		changes := merged.Watch(ctx)
		for _, source := range []chan struct{}{first, second, first} {
			source <- struct{}{}
			<-changes
		}
		cancel()
		close(first)
		synctest.Wait()
		select {
		case _, ok := <-changes:
			t.Fatalf("a note %v while a source still runs", ok)
		default:
		}
		close(second)
		if _, ok := <-changes; ok {
			t.Error("a note at the end")
		}
	})
}

type watched struct{ changes chan struct{} }

func (watched) Seeds(context.Context) ([]Seed, error)   { return nil, nil }
func (w watched) Watch(context.Context) <-chan struct{} { return w.changes }

// A newcomer in a directory is seen through the union at once.
func TestMergeDirectoryWatch(t *testing.T) {
	dir := Directory{Path: t.TempDir(), Poll: time.Hour}
	merged := Merge(func(source string, err error) { t.Errorf("%s: %v", source, err) }, Source{"directory", dir}, Source{"static", Static{{"a", "10.0.0.1:1"}}})
	ctx, cancel := context.WithCancel(t.Context())
	changes := merged.Watch(ctx)
	await(t, changes, "the first note", func() bool { return true })
	if err := dir.Announce(t.Context(), Seed{"b", "10.0.0.2:1"}); err != nil {
		t.Fatal(err)
	}
	await(t, changes, "a newcomer", func() bool {
		got, err := merged.Seeds(t.Context())
		return err == nil && len(got) == 2
	})
	cancel()
	for range changes {
	}
}

func TestErrorsAreLines(t *testing.T) {
	_, err := ParseStatic([]string{"a b", "c d"}, 1)
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 2 {
		t.Errorf("%q", lines)
	}
}
