package host_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/testlog"
)

// gated are the ports of a host of which one does not come back from a call until its
// gate is opened.
type gated struct {
	host.Disk
	host.Process
	at   string
	gate chan struct{}
}

func (g gated) wait(call string) {
	if call == g.at {
		<-g.gate
	}
}

type gatedDisk struct{ gated }

func (g gatedDisk) Load() (record.State, bool, error) { g.wait("load"); return g.Disk.Load() }
func (g gatedDisk) Save(s record.State) error         { g.wait("save"); return g.Disk.Save(s) }
func (g gatedDisk) Inventory(token string) (aside, foreign []cluster.SetAside, err error) {
	g.wait("inventory")
	return g.Disk.Inventory(token)
}

func (g gatedDisk) Data(token string, disk cluster.DiskID) (marked, wal bool, err error) {
	g.wait("data")
	return g.Disk.Data(token, disk)
}

type gatedProcess struct{ gated }

func (g gatedProcess) Adopt(ctx context.Context, l record.Launch) (bool, error) {
	g.wait("adopt")
	return g.Process.Adopt(ctx, l)
}

func (g gatedProcess) Ensure(ctx context.Context, l record.Launch, p host.Permit) error {
	g.wait("ensure")
	return g.Process.Ensure(ctx, l, p)
}

func (g gatedProcess) Changes() <-chan struct{}       { return g.Process.Changes() }
func (g gatedProcess) Status() cluster.Process        { return g.Process.Status() }
func (g gatedProcess) Stop(ctx context.Context) error { return g.Process.Stop(ctx) }
func (g gatedProcess) Kill(ctx context.Context) error { return g.Process.Kill(ctx) }

// A host whose start does not go on says what it waits for and since when: to whoever
// looks at it, after some seconds, and in the log. It is late only after half a minute,
// and up as soon as the wait is over.
func TestAStartThatWaitsIsTold(t *testing.T) {
	for at, word := range map[string]string{
		"load":      "for its state to be read",
		"inventory": "for the listing of its data directory",
		"adopt":     "for a check for an etcd left running by an earlier daemon",
		"save":      "its disk has not finished a write",
		"data":      "for a read of its member's data",
		"ensure":    "for its member to start",
	} {
		bubble(t, func(t *testing.T) {
			m, d := started(t)
			d.end()
			m.die()
			was := m.state()
			gate := make(chan struct{})
			var said testlog.Lines
			d = m.boot(func(s *session, o *host.Options) {
				g := gated{o.Disk, o.Process, at, gate}
				o.Disk, o.Process = gatedDisk{g}, gatedProcess{g}
				o.AskPeers = func(context.Context, []cluster.HostID) []cluster.Ping { return tells(was, was.Epoch) }
				o.Log = slog.New(slog.NewTextHandler(&said, nil))
			})
			defer d.end()
			began := time.Now()
			ask := func() *cluster.Busy {
				t.Helper()
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				r := d.Observe(ctx, cluster.ObserveRequest{Fence: fence(2)})
				if r.Busy == nil || r.Busy.Op.Kind != cluster.OpBoot {
					t.Fatalf("%s: %+v", at, r)
				}
				return r.Busy
			}
			told := func(s string) bool {
				return strings.Contains(s, word) && (strings.Contains(s, began.UTC().Format(time.RFC3339)) || strings.Contains(s, began.Add(time.Second).UTC().Format(time.RFC3339)))
			}
			if b := ask(); b.Word() != "" {
				t.Errorf("%s: at once: %+v", at, b)
			}
			later(7 * time.Second)
			synctest.Wait()
			if b := ask(); !told(b.Word()) || (b.Why != "") != (at == "save") || said.String() != "" {
				t.Errorf("%s: after 8 s: %+v; it is said:\n%s", at, b, &said)
			}
			later(23 * time.Second)
			if b := ask(); !told(b.Why) || b.Awaits != "" {
				t.Errorf("%s: after half a minute: %+v", at, b)
			}
			later(time.Minute)
			synctest.Wait() // what is told at that minute is written
			if n := strings.Count(said.String(), "the host is not up yet: "); n != 2 || !told(said.String()) {
				t.Errorf("%s: it is said:\n%s", at, &said)
			}
			close(gate)
			if r := d.Observe(context.Background(), cluster.ObserveRequest{Fence: fence(2)}); r.State == nil {
				t.Errorf("%s: afterwards: %+v", at, r.Busy)
			}
		})
	}
}
