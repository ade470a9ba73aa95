package snapshot

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"etcdadm.io/internal/testetcd"
)

// A young member of 3.5 has published itself by a request of version 2; later
// releases have not, and a raft snapshot puts it out of sight.
func TestV2InLog(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		c := testetcd.Start(t, testetcd.Config{Version: version})
		put(t, c.Client(t), "k", "v")
		dir := c.Members[0].DataDir
		old := strings.HasPrefix(version, "3.5.")
		if got, err := V2InLog(within(t), dir); err != nil || got != old {
			t.Errorf("while it runs: %t, %v", got, err)
		}
		must(t, c.Kill(within(t), 0, syscall.SIGKILL))
		if got, err := V2InLog(within(t), dir); err != nil || got != old {
			t.Errorf("after its end: %t, %v", got, err)
		}
	})
	if _, err := V2InLog(within(t), t.TempDir()); err == nil {
		t.Error("an empty directory has a log")
	}
}

// The cure: a member of 3.6 that comes from 3.5 is started so that it cuts a raft
// snapshot, which leaves nothing of it in the part of the log that is read.
func TestV2IsCutAway(t *testing.T) {
	t.Parallel()
	for _, v := range []string{testetcd.V36, testetcd.V37} {
		testetcd.Binary(t, v)
	}
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V35})
	put(t, c.Client(t), "k", "v")
	m := c.Members[0]
	must(t, c.Use(within(t), 0, testetcd.V36))
	must(t, c.Restart(within(t), 0))
	put(t, c.Client(t), "k", "w")
	if got, err := V2InLog(within(t), m.DataDir); err != nil || !got {
		t.Fatalf("after 3.6 took over: %t, %v", got, err)
	}
	m.Args = append(m.Args, "--snapshot-count=1")
	must(t, c.Restart(within(t), 0))
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		got, err := V2InLog(within(t), m.DataDir)
		if err == nil && !got {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after it was to cut a snapshot: %t, %v", got, err)
		}
	}
}

// A look through a log ends with its context, in either of its two readings.
func TestV2InLogEndsWithItsContext(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	dir := filepath.Join(data, "member", "wal")
	must(t, os.MkdirAll(filepath.Dir(dir), 0o700))
	owner, err := proto.Marshal(&etcdserverpb.Metadata{NodeID: new(uint64(7)), ClusterID: new(uint64(9))})
	must(t, err)
	w, err := wal.Create(nil, dir, owner)
	must(t, err)
	const entries = 3 * lookEvery
	var all []*raftpb.Entry
	for i := range uint64(entries) {
		all = append(all, &raftpb.Entry{Term: new(uint64(1)), Index: new(i + 1)})
	}
	must(t, w.Save(&raftpb.HardState{Term: new(uint64(1)), Commit: new(uint64(entries))}, all))
	must(t, w.Close())
	looks := 0
	if found, err := V2InLog(countedContext{t.Context(), &looks, math.MaxInt}, data); err != nil || found {
		t.Fatalf("%t, %v", found, err)
	}
	many := looks
	if many < 4 {
		t.Fatalf("%d looks at the context in %d records", many, entries)
	}
	for n := range many {
		looks = 0
		if _, err := V2InLog(countedContext{t.Context(), &looks, n}, data); !errors.Is(err, context.Canceled) {
			t.Errorf("called off at look %d: %v", n, err)
		}
	}
}

// countedContext ends after so many looks at it.
type countedContext struct {
	context.Context
	looks *int
	most  int
}

func (c countedContext) Err() error {
	if *c.looks++; *c.looks > c.most {
		return context.Canceled
	}
	return nil
}
