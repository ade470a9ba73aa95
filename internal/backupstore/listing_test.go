package backupstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/backup"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
)

// paged lists one backup after another, each on a page of its own.
type paged struct {
	*memory.Store
	pages int
	pause time.Duration // before each page
	last  time.Duration // before the last one, if it is longer
}

func (p paged) List(ctx context.Context, _ string) (infos []blob.Info, err error) {
	for n := range p.pages {
		wait := p.pause
		if n == p.pages-1 {
			wait = max(wait, p.last)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("list the pages: %w", ctx.Err())
		case <-time.After(wait):
		}
		infos = append(infos, blob.Info{Key: fmt.Sprintf("2026-11-20T23:08:18Z-%06d/%s", n, backup.FileMeta)})
		blob.Heard(ctx, len(infos))
	}
	return infos, nil
}

// A long listing is given its time as long as it comes on, and the end of one that
// does not says how far it came.
func TestALongListingComesOn(t *testing.T) {
	for _, test := range []struct {
		name  string
		store paged
		took  time.Duration
		words []string // none: it is listed
	}{
		{name: "slow pages", store: paged{pages: 100, pause: 2 * time.Second}, took: 200 * time.Second},
		{name: "silent from the beginning", store: paged{pages: 1, pause: time.Hour}, took: ObjectTimeout,
			words: []string{"no further answer within 30s", "after 0 objects in 30s"}},
		{name: "silent later", store: paged{pages: 100, pause: time.Second, last: time.Hour}, took: 99*time.Second + ObjectTimeout,
			words: []string{"no further answer within 30s", "after 99 objects in 2m9s"}},
		{name: "without an end", store: paged{pages: 1 << 20, pause: time.Second}, took: ListMost,
			words: []string{"it was not over after 10m0s", "objects in 10m0s"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				entries, err := New(test.store).List(t.Context())
				if took := time.Since(began); took != test.took {
					t.Errorf("it took %s, want %s", took, test.took)
				}
				if test.words == nil {
					if err != nil || len(entries) != test.store.pages {
						t.Errorf("%d of %d backups, %v", len(entries), test.store.pages, err)
					}
					return
				}
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
					t.Fatalf("the error is %v", err)
				}
				for _, w := range test.words {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("%q is not in %q", w, err)
					}
				}
			})
		})
	}
}

// The caller's own end is told as that.
func TestAListingThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5500*time.Millisecond, cancel)
		_, err := New(paged{pages: 100, pause: time.Second}).List(ctx)
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "given up after 5 objects") {
			t.Error(err)
		}
	})
}
