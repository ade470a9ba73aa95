package moving

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/peer"
)

// Two daemons that both take themselves for the leader move the record from the store to the hosts, in a third of the worlds to other stores
// and back, again and again, while both thaw what they see frozen; daemons end at writes by chance and begin anew; calls between hosts are
// lost; the store is silent at times, loses answers, and is reached by a marker long after its writer gave up; a person queues a command;
// and host c is started from an older image of its disk, as its host has heard. In the end one place counts, and has all that was confirmed
// to a person; no command that was confirmed is left behind.
func TestRandomMovesHome(t *testing.T) {
	ends := map[string]int{}
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) { ends[randomMoveHome(t, seed)]++ })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Log(ends)
	for _, end := range []string{"moved", "moved in the end", "a command stays", "without c"} {
		if ends[end] < 3 {
			t.Errorf("%s: %d times", end, ends[end])
		}
	}
}

const keyCommand = control.Prefix + "2026-11-20T23:14:17Z-000001/_command.json"

func randomMoveHome(t *testing.T, seed uint64) (end string) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // a test's dice
	w := &world{leads: []cluster.HostID{"a", "b"}}
	calm := true
	chance := func(of int) func() bool {
		return func() bool {
			w.dice.Lock()
			defer w.dice.Unlock()
			return !calm && r.IntN(of) == 0
		}
	}
	w.wraps = func(s blob.Store) blob.Store { return tardy{moody{s, chance(40)}, s, chance(30)} }
	w.store, w.loses = w.wraps(memory.New()), chance(60)
	newWorldIn(t, w)
	w.calms(&calm, false)
	defer w.end()
	wrote, stop := make(chan int, 1), make(chan struct{})
	go func() { wrote <- w.person(stop, true) }()
	command := seed%8 == 0 && w.queues(t)
	var movers sync.WaitGroup
	for _, h := range []cluster.HostID{"a", "b"} {
		movers.Go(func() {
			for range 4 {
				switch l, err := w.living(h); {
				case err != nil:
				case l.Home != nil:
					_ = l.mover.Home(l.ctx, home(w.mint()))
				case seed%3 == 0:
					name := w.mint()
					_ = l.mover.Move(l.ctx, peer.MoveRequest{Name: name, URL: "s3://other/" + name})
				}
				time.Sleep(time.Duration(w.roll(r, 1000)) * time.Millisecond)
			}
		})
	}
	image := w.image("c")
	older := maps.Clone(image)
	command = seed%8 == 4 && w.queues(t) || command
	for range w.roll(r, 4) {
		at, after := w.roll(r, 30), w.roll(r, 2) == 0
		w.mu.Lock()
		w.crashAt, w.after = w.writes+1+at, after
		w.mu.Unlock()
		time.Sleep(time.Duration(w.roll(r, 2000)) * time.Millisecond)
		if w.roll(r, 2) == 0 {
			image = w.image("c")
		}
		time.Sleep(time.Duration(w.roll(r, 2000)) * time.Millisecond)
		w.revive()
	}
	switch {
	case seed%6 == 5: // of before all offers
		w.rollBack(t, "c", older)
	case seed%2 == 0:
		w.rollBack(t, "c", image)
	}
	w.mu.Lock()
	w.crashAt = 0
	w.mu.Unlock()
	w.revive()
	movers.Wait()
	w.calms(&calm, true)
	w.revive()
	time.Sleep(3 * time.Minute)
	end = "moved"
	if w.places("b") != w.places("c") { // it has no part in that
		w.kill("c")
		w.mu.Lock()
		delete(w.all, "c")
		w.mu.Unlock()
		if end = "without c"; !w.atHome() {
			close(stop)
			<-wrote
			return end
		}
	}
	if !w.atHome() {
		end = "moved in the end"
		a, _ := w.living("a")
		switch err := a.mover.Home(t.Context(), home(w.mint())); {
		case errors.As(err, new(*NotReadyError)) && seed%4 == 0:
			close(stop)
			<-wrote
			return "a command stays"
		case err != nil:
			t.Errorf("the last move: %v", err)
		}
		time.Sleep(time.Minute)
	}
	if command {
		t.Error("the record has moved without a command that was confirmed")
	}
	close(stop)
	confirmed := <-wrote
	if !w.atHome() {
		t.Error("not all hosts are where the record is")
		return end
	}
	w.checkHome(confirmed)
	return end
}

// places names where a host is, and where it is left.
func (w *world) places(h cluster.HostID) (at string) {
	l, err := w.living(h)
	if err != nil {
		w.t.Error(err)
		return ""
	}
	if p := l.File.Notes().Place; p != nil {
		at = p.Name
	}
	return at + l.Home.Left()
}

func (w *world) calms(calm *bool, is bool) {
	w.dice.Lock()
	defer w.dice.Unlock()
	*calm = is
}

// tardy is a store at which a marker arrives long after its writer gave up.
type tardy struct {
	blob.Store
	late  blob.Store
	hangs func() bool
}

func (s tardy) Put(ctx context.Context, key string, body io.Reader, c blob.Condition) (blob.ETag, error) {
	if key != control.KeyIntent || !s.hangs() {
		return s.Store.Put(ctx, key, body, c)
	}
	time.AfterFunc(20*time.Second, func() { _, _ = s.late.Put(context.WithoutCancel(ctx), key, body, c) })
	return "", errSilent
}

func home(name string) peer.MoveRequest { return peer.MoveRequest{Name: name, Hosts: true} }

// queues has a person queue a command, and tells whether that was confirmed.
func (w *world) queues(t *testing.T) bool {
	t.Helper()
	if _, err := blob.PutBytes(t.Context(), w.store, keyCommand, []byte("{}"), blob.Any); err != nil {
		return false
	}
	l, _, err := readLeaving(t.Context(), w.store)
	return err == nil && l == nil
}

// shelf is a machine's disk between two daemons.
type shelf map[string][]byte

func (s shelf) Read(path string) ([]byte, error) {
	data, ok := s[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return data, nil
}

func (s shelf) Replace(path string, data []byte) error {
	s[path] = data
	return nil
}

// image is what a machine's disk has at this moment.
func (w *world) image(h cluster.HostID) shelf {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.all[h].files)
}

// rollBack starts a host from an image of its disk. Its daemon hears of that before anything else, and forgets.
func (w *world) rollBack(t *testing.T, h cluster.HostID, image shelf) {
	t.Helper()
	w.kill(h)
	k, err := keeper.OpenOn("", image)
	if err != nil {
		t.Fatal(err)
	}
	var n Notes
	if data, ok := image[FileName]; ok {
		if err := json.Unmarshal(data, &n); err != nil {
			t.Fatal(err)
		}
	}
	if n.Place.AtHosts() {
		if err := k.Renew(t.Context(), w.mint); err != nil {
			t.Fatal(err)
		}
	}
	f := &File{path: FileName, on: noteShelf{image}, notes: n}
	if err := f.Forget(); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.all[h].files = image
	w.mu.Unlock()
	w.start(h)
}

type noteShelf struct{ shelf }

func (s noteShelf) Replace(path string, data []byte, _ fs.FileMode) error {
	return s.shelf.Replace(path, data)
}
