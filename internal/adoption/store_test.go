package adoption

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host/record"
)

// fallsSilent is a store that answers so many calls, and none after them.
type fallsSilent struct {
	*memory.Store
	answers int
	since   time.Time // the first call that is not answered; zero: none was made
}

func (s *fallsSilent) call(ctx context.Context) error {
	if s.answers--; s.answers >= 0 {
		return nil
	}
	if s.since.IsZero() {
		s.since = time.Now()
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *fallsSilent) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if err := s.call(ctx); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, key, o)
}

func (s *fallsSilent) Put(ctx context.Context, key string, r io.Reader, c blob.Condition) (blob.ETag, error) {
	if err := s.call(ctx); err != nil {
		return "", err
	}
	return s.Store.Put(ctx, key, r, c)
}

func (s *fallsSilent) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	if err := s.call(ctx); err != nil {
		return nil, err
	}
	return s.Store.List(ctx, prefix)
}

func (s *fallsSilent) Delete(ctx context.Context, key string) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

// daemonBeside is a world whose daemons run while the command does.
type daemonBeside struct{ *world }

func (d daemonBeside) List(ctx context.Context) (cluster.MemberView, error) {
	for _, do := range d.late {
		do()
	}
	d.late = nil
	d.daemons()
	return d.world.List(ctx)
}

// Wherever the store falls silent, it is told within the bound of one call, and the
// command ends in its time, with what a person does then.
func TestJoinWhereTheStoreFallsSilent(t *testing.T) {
	told := 0
	for answers := range 60 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, 1)
			w.count = 1
			store := &fallsSilent{Store: w.store, answers: answers}
			j := w.host(1)
			j.Members, j.Folder, j.Within = daemonBeside{w}, control.New(store, "c"), 2*time.Minute
			var heard time.Time
			hear := func(line string) {
				if heard.IsZero() && strings.Contains(line, "the backup store did not answer within 30s, asked to ") {
					heard = time.Now()
				}
			}
			j.Say = func(format string, args ...any) { hear(fmt.Sprintf(format, args...)) }
			p, err := j.Plan(t.Context())
			if err == nil && len(p.Missing) > 0 {
				t.Fatalf("missing: %q", p.Missing)
			}
			if err == nil {
				err = j.Run(t.Context())
			}
			if err == nil {
				t.Fatal("it came to its end without a record")
			}
			hear(err.Error())
			var silent *SilentError
			if !errors.As(err, &silent) && !errors.Is(err, ErrAgain) || silent != nil && silent.Hint() == "" {
				t.Errorf("silent after %d calls: %v", answers, err)
			}
			if store.since.IsZero() {
				return // the time of the command was up before
			}
			told++
			// What is tried out is tidied up for ten seconds more.
			if after := heard.Sub(store.since); heard.IsZero() || after > storeTimeout+10*time.Second {
				t.Errorf("silent after %d calls: told after %s (%v)", answers, after, err)
			}
			// Its time begins when the silence is told, and the last look may begin at its end.
			if took := time.Since(store.since); took > j.Within+2*storeTimeout+10*time.Second {
				t.Errorf("silent after %d calls: it ended after %s", answers, took)
			}
		})
	}
	if told < 30 {
		t.Errorf("%d runs met the silence", told)
	}
}

// Nor does an adoption in place wait for a store that has fallen silent.
func TestAStoreThatIsSilentForAnAdoptionInPlace(t *testing.T) {
	for name, do := range map[string]func(context.Context, *control.Folder) error{
		"the look": func(ctx context.Context, f *control.Folder) error { return new(Plan).lookAtStore(ctx, f) },
		"the preparation": func(ctx context.Context, f *control.Folder) error {
			p := &Plan{}
			p.state.Version, p.state.Nodes = "3.6.16", make([]record.PredecessorNode, 1)
			return p.Prepare(ctx, f)
		},
		"the quota to keep": func(ctx context.Context, f *control.Folder) error { return KeepQuota(ctx, f, 1<<33) },
		"the quota that is kept": func(ctx context.Context, f *control.Folder) error {
			_, err := KeptQuota(ctx, f)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := do(t.Context(), control.New(&fallsSilent{Store: memory.New()}, "c"))
				var silent *SilentError
				if took := time.Since(began); took != storeTimeout || !errors.As(err, &silent) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("it ended after %s with %v", took, err)
				}
			})
		})
	}
}
