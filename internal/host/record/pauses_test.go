package record

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
)

// oneFile is the disk under the pauses.
type oneFile struct {
	data   []byte
	broken error
}

func (f *oneFile) ReadRecord(string) ([]byte, error) { return f.data, f.broken }

func (f *oneFile) WriteRecord(_ string, data []byte) error {
	if f.broken == nil {
		f.data = data
	}
	return f.broken
}

// A pause is durable before it is told, lasts by the host's own clock, begins anew with the
// first starts of the daemon and not for ever, and ends by its ID, by its time, and with its
// generation.
func TestPausesOfAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &oneFile{}
		boot := func() *Pauses {
			p := NewPauses("b", disk, slog.New(slog.DiscardHandler))
			p.Load()
			p.Began()
			return p
		}
		op := func(id string) cluster.Op {
			return cluster.Op{Kind: cluster.OpPause, Host: "b", Pause: &cluster.Pause{ID: id, Host: "b", For: time.Hour, Reason: "kernel"}}
		}
		p := boot()
		has := func(step string, generation uint64, ids ...string) {
			t.Helper()
			now := p.Now(generation)
			same := len(now) == len(ids)
			for i := range ids {
				same = same && now[i].ID == ids[i]
			}
			if !same {
				t.Errorf("%s: %+v, want %v", step, now, ids)
			}
		}
		disk.broken = errors.New("no space left on device")
		if err := p.Take(op("p1"), 1); err == nil || p.Refused() == nil || p.Refused().ID != "p1" {
			t.Errorf("a pause that is not on the disk: %v, %+v", err, p.Refused())
		}
		has("it is not told", 1)
		time.Sleep(refusalTold + time.Second)
		if p.Refused() != nil {
			t.Error("it is never tried again")
		}
		disk.broken = nil
		for _, spoil := range []func(*cluster.Pause){
			func(x *cluster.Pause) { x.Host = "c" }, func(x *cluster.Pause) { x.ID = "" }, func(x *cluster.Pause) { x.For = 0 },
			func(x *cluster.Pause) { x.For = cluster.MaxPause + time.Second },
		} {
			bad := op("p1")
			spoil(bad.Pause)
			if p.Take(bad, 1) == nil {
				t.Errorf("taken: %+v", bad.Pause)
			}
		}
		if err := errors.Join(p.Take(op("p1"), 1), p.Take(op("p1"), 1), p.Take(op("p2"), 1)); err != nil {
			t.Fatal(err)
		}
		has("granted", 1, "p1", "p2")
		has("a later generation runs", 2)
		disk.broken = errors.New("read-only file system")
		p.End([]string{"p2"})
		has("its end is not on the disk", 1, "p1", "p2")
		disk.broken = nil
		p.End([]string{"p2", "p9"})
		has("ended", 1, "p1")
		for range renewals {
			time.Sleep(50 * time.Minute)
			p = boot()
			has("the daemon started", 1, "p1")
		}
		time.Sleep(50 * time.Minute)
		p = boot()
		has("once more", 1, "p1")
		time.Sleep(11 * time.Minute)
		has("its time is over", 1)
		if err := p.Take(op("p3"), 1); err != nil {
			t.Fatal(err)
		}
		disk.data = []byte("{")
		p = boot()
		has("unreadable", 99, unreadID+"b")
		p.End([]string{unreadID + "b"})
		has("resumed", 1)
		if p = boot(); len(p.Now(1)) != 0 {
			t.Error("it comes back")
		}
		if none := NewPauses("b", nil, slog.Default()); none.Takes() || none.Take(op("p1"), 1) == nil {
			t.Error("a host without a disk for it takes a pause")
		}
	})
}
