package host_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/testlog"
)

// stillDisk is a disk of which one kind of look stands still while it is told to.
type stillDisk struct {
	host.Disk
	at   string
	gate *atomic.Pointer[chan struct{}]
}

func (d stillDisk) wait(call string) {
	if gate := d.gate.Load(); gate != nil && call == d.at {
		<-*gate
	}
}

func (d stillDisk) Inventory(token string) (aside, foreign []cluster.SetAside, err error) {
	d.wait("inventory")
	return d.Disk.Inventory(token)
}

func (d stillDisk) Save(s record.State) error { d.wait("save"); return d.Disk.Save(s) }

// What the host looks at by itself may stand still with its disk. It goes on with what
// does not need that: it hears what becomes of the member's process. What it waits for and
// since when is told, by whoever looks at it; and once the disk answers, all is as before.
func TestAHostWhoseOwnLookStandsStill(t *testing.T) {
	for at, code := range map[string]string{"inventory": "disk-unreadable", "save": "state-not-written"} {
		bubble(t, func(t *testing.T) {
			m, d := started(t)
			d.end()
			var gate atomic.Pointer[chan struct{}]
			d = m.boot(func(_ *session, o *host.Options) { o.Disk = stillDisk{o.Disk, at, &gate} })
			defer d.end()
			d.look(1)
			closed := make(chan struct{})
			gate.Store(&closed)
			later(21 * time.Second)
			synctest.Wait()
			for ready := true; ready; { // what was told of before
				select {
				case <-d.Changes():
				default:
					ready = false
				}
			}
			before := d.Identity().Changes
			process{d.session}.changed()
			later(2 * time.Second)
			synctest.Wait()
			if d.Identity().Changes == before {
				t.Errorf("%s: a change of the process is not heard of", at)
			}
			r := d.Observe(context.Background(), cluster.ObserveRequest{})
			if r.State == nil {
				t.Fatalf("%s: %+v", at, r.Busy)
			}
			var told bool
			for _, p := range r.State.Problems {
				told = told || p.Code == code && strings.Contains(p.Sentence, "T") && strings.Contains(p.Sentence, "Z")
			}
			if !told {
				t.Errorf("%s: %+v", at, r.State.Problems)
			}
			gate.Store(nil)
			close(closed)
			later(11 * time.Second)
			synctest.Wait()
			if st := d.look(2); len(st.Problems) > 0 {
				t.Errorf("%s: afterwards: %+v", at, st.Problems)
			}
		})
	}
}

// The end of a host that waits for its disk is told, with what it waits for.
func TestTheEndOfAHostThatWaitsIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, d := started(t)
		d.end()
		var gate atomic.Pointer[chan struct{}]
		var said testlog.Lines
		d = m.boot(func(_ *session, o *host.Options) {
			o.Disk, o.Log = stillDisk{o.Disk, "inventory", &gate}, slog.New(slog.NewTextHandler(&said, nil))
		})
		d.look(1)
		closed := make(chan struct{})
		gate.Store(&closed)
		later(11 * time.Second)
		ended := make(chan struct{})
		go func() { d.end(); close(ended) }()
		later(time.Minute + 11*time.Second)
		synctest.Wait()
		const word = "this host is shutting down and waits: it has been waiting since"
		if n := strings.Count(said.String(), word); n != 2 || !strings.Contains(said.String(), "for the listing of its data directory") {
			t.Errorf("told %d times:\n%s", n, &said)
		}
		select {
		case <-ended:
			t.Error("it has ended, and what it began has not")
		default:
		}
		close(closed)
		<-ended
	})
}
