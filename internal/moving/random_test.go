package moving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/register"
)

// Two daemons that both take themselves for the leader move the record, again and again; daemons end at writes by chance and begin anew;
// the store is silent at times; and in half of the worlds a majority is given up in the middle, and comes back after the record was made
// again on the host that is left. In the end one place counts, and has all that was confirmed to a writer.
func TestRandomMoves(t *testing.T) {
	ends := map[string]int{}
	for seed := range uint64(120) {
		synctest.Test(t, func(t *testing.T) { ends[randomMove(t, seed)]++ })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Log(ends)
	for _, end := range []string{"moved", "made again", "followed instead"} {
		if ends[end] < 3 {
			t.Errorf("%s: %d times", end, ends[end])
		}
	}
}

// moody is a store that is silent at times.
type moody struct {
	blob.Store
	away func() bool
}

var errSilent = errors.New("the store does not answer")

func (m moody) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if m.away() {
		return nil, errSilent
	}
	return m.Store.Get(ctx, key, o)
}

func (m moody) Put(ctx context.Context, key string, body io.Reader, c blob.Condition) (blob.ETag, error) {
	if m.away() {
		return "", errSilent
	}
	tag, err := m.Store.Put(ctx, key, body, c)
	if m.away() { // the answer is lost
		return "", errSilent
	}
	return tag, err
}

func randomMove(t *testing.T, seed uint64) (end string) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // a test's dice
	w := newWorld(t)
	calm := false
	w.store = moody{w.store, func() bool {
		w.dice.Lock()
		defer w.dice.Unlock()
		return !calm && r.IntN(40) == 0
	}}
	wrote := make(chan int, 1)
	stop := make(chan struct{})
	go func() { wrote <- w.writerUntil("c", stop) }()
	for _, h := range []cluster.HostID{"a", "b"} {
		go func() {
			for range 6 {
				if l, err := w.living(h); err == nil {
					_ = l.mover.Move(l.ctx, to(w.mint()))
				}
				time.Sleep(time.Duration(w.roll(r, 1000)) * time.Millisecond)
			}
		}()
	}
	for range w.roll(r, 4) {
		at, after := w.roll(r, 30), w.roll(r, 2) == 0
		w.mu.Lock()
		w.crashAt, w.after = w.writes+1+at, after
		w.mu.Unlock()
		time.Sleep(time.Duration(w.roll(r, 2000)) * time.Millisecond)
		w.revive()
	}
	again := ""
	if seed%2 == 0 {
		time.Sleep(time.Duration(w.roll(r, 1000)) * time.Millisecond)
		again = w.giveUp(t)
	}
	w.dice.Lock()
	calm = true
	w.dice.Unlock()
	w.mu.Lock()
	w.crashAt = 0
	w.mu.Unlock()
	w.revive()
	time.Sleep(3 * time.Minute)
	close(stop)
	confirmed := <-wrote
	defer w.end()
	counts := state(t, w.store.(moody).Store) == "counts"
	switch {
	case again == "made again" && counts:
		t.Error("the store counts, and the record that was made again")
	case again != "":
		return again
	case !counts:
		l, _ := w.living("a")
		if err := l.mover.Move(t.Context(), to(w.mint())); err != nil {
			t.Errorf("the last move: %v", err)
		}
		time.Sleep(time.Minute)
	}
	if !w.settled() {
		t.Error("not all hosts are where the record is")
	}
	w.check(confirmed)
	return "moved"
}

func (w *world) roll(r *rand.Rand, n int) int {
	w.dice.Lock()
	defer w.dice.Unlock()
	return r.IntN(n)
}

// revive begins the daemons that ended.
func (w *world) revive() {
	for _, h := range []cluster.HostID{"a", "b", "c"} {
		if _, err := w.living(h); err != nil {
			w.start(h)
		}
	}
}

// kill ends a daemon.
func (w *world) kill(h cluster.HostID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.all[h].life; l != nil {
		l.end()
		w.all[h].life = nil
	}
}

// giveUp ends two hosts, and has the third go on as a person says who names them lost: by the record made again, as package keeping does
// it, or by following a seal. The two come back afterwards.
func (w *world) giveUp(t *testing.T) string {
	t.Helper()
	for try := range 20 {
		w.kill("a")
		w.kill("b")
		c, err := w.living("c")
		if err != nil {
			c = w.start("c")
		}
		state, err := c.keeper.State(t.Context())
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		base := state.Newest()
		switch place := c.File.Notes().Place; {
		case place != nil:
			return ""
		case base.Doc.Moved != nil:
			if why := c.GoAnyway(t.Context(), base, false); why != "" {
				t.Errorf("try %d: %s", try, why)
			}
			w.revive()
			return "followed instead"
		}
		done, why := c.BeforeAgain(t.Context(), w.mint(), false)
		if why == "" {
			_, err = c.keeper.Again(t.Context(), w.mint, time.Now(), base, []cluster.HostID{"a", "b"}, control.OfCommand)
		}
		done()
		if why == "" && err == nil {
			w.revive()
			return "made again"
		}
		time.Sleep(time.Second)
	}
	w.revive()
	return ""
}

// writerUntil is a writer that ends at a moment.
func (w *world) writerUntil(at cluster.HostID, stop chan struct{}) (confirmed int) {
	for n := 1; ; n++ {
		select {
		case <-stop:
			return confirmed
		case <-time.After(100 * time.Millisecond):
		}
		l, err := w.living(at)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		_, err = blob.PutBytes(ctx, l.record, keySpec, fmt.Append(nil, n), blob.Any)
		cancel()
		switch {
		case err == nil:
			confirmed = n
		case errors.Is(err, register.ErrMoved):
			<-stop
			return confirmed
		}
	}
}
