package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
)

// Parts that end are waited for, with a word while it takes long; those that do not
// are left behind, and named, when the time of all is up.
func TestPartsEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		g := group{log: slog.New(slog.NewTextHandler(&said, nil))}
		wedged := make(chan struct{})
		g.start(t.Context(), "quick", func(ctx context.Context) error { <-ctx.Done(); return nil })
		g.start(t.Context(), "slow", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(25 * time.Second); return nil })
		for _, name := range []string{"wedged", "another", "the third"} {
			g.start(t.Context(), name, func(context.Context) error { <-wedged; return nil })
		}
		for _, name := range []string{"quick one", "later"} {
			g.start(t.Context(), name, func(ctx context.Context) error { <-ctx.Done(); return nil })
		}
		began := time.Now()
		g.stop(began.Add(partsEnd), "slow", "quick")
		if took := time.Since(began); took != 25*time.Second || len(g.left) > 0 {
			t.Errorf("two parts that end took %s; left: %v", took, g.left)
		}
		if n := strings.Count(said.String(), "parts=[slow]"); n != 2 || strings.Contains(said.String(), "quick") {
			t.Errorf("said of the slow part %d times:\n%s", n, &said)
		}
		began = time.Now()
		g.stop(began.Add(decidingEnds), "wedged", "another", "quick one")
		g.stop(began.Add(hostEnds), "wedged") // asked again, as the order of an end has it
		if took := time.Since(began); took != decidingEnds || !slices.Equal(g.left, []string{"wedged", "another"}) {
			t.Errorf("two that do not end took %s; left: %v", took, g.left)
		}
		g.stop(began.Add(partsEnd), "the third")
		if took := time.Since(began); took != partsEnd || len(g.left) != 3 {
			t.Errorf("three that do not end took %s in all; left: %v", took, g.left)
		}
		if !strings.Contains(said.String(), `level=ERROR msg="parts of this daemon did not stop`) || !strings.Contains(said.String(), `parts="[wedged another]" since=`) {
			t.Errorf("nobody heard of it:\n%s", &said)
		}
		again := time.Now()
		g.stop(began.Add(partsEnd), "later") // its time is up before it begins to end
		if took := time.Since(again); took > partLeast || len(g.left) != 3 {
			t.Errorf("one that ends took %s; left: %v", took, g.left)
		}
		close(wedged)
	})
}

// stuck is a handler whose reports heed no deadline, as one that waits for a disk that
// stands still.
type stuck struct {
	peer.Handler
	entered, open, returned chan struct{}
}

func (s stuck) Report(context.Context, peer.Caller, json.RawMessage) (json.RawMessage, error) {
	defer close(s.returned)
	close(s.entered)
	<-s.open
	return nil, nil
}

// A call that still runs when the daemon ends counts as a part that did not end: it is
// told, and the state is not unlocked over what it may still write.
func TestACallThatRunsOnIsLeftBehind(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for the whole grace of calls")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := stuck{entered: make(chan struct{}), open: make(chan struct{}), returned: make(chan struct{})}
	server, err := peer.NewServer(peer.ServerOptions{Cluster: "c", Host: "a", Handler: h, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := peer.NewPool(pki.Identity{Cluster: "c", Role: pki.RoleOperator, ID: "p"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var said bytes.Buffer
	g := group{log: slog.New(slog.NewTextHandler(&said, nil))}
	g.start(t.Context(), "peers", func(ctx context.Context) error { return answerPeers(ctx, server, l) })
	client, err := pool.To(cluster.Contact{Host: "a", Endpoint: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := client.Report(t.Context(), json.RawMessage("{}"))
		answered <- err
	}()
	select {
	case <-h.entered:
	case err := <-answered:
		t.Fatalf("the call ended by itself: %v", err)
	}
	g.stop(time.Now().Add(partsEnd), "peers")
	if !slices.Equal(g.left, []string{"peers"}) {
		t.Errorf("left behind: %v", g.left)
	}
	if !strings.Contains(said.String(), "left something running") || !strings.Contains(said.String(), peer.ErrCallsRun.Error()) {
		t.Errorf("it is said:\n%s", &said)
	}
	close(h.open)
	<-h.returned
	<-answered
}
