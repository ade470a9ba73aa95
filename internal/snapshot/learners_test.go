package snapshot

import (
	"fmt"
	"syscall"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/testetcd"
)

// A log in which two learners stood beside each other, as after every restore and
// recovery, is applied again, too: an etcd that accepts one only ends at it.
func TestTwoLearnersInLog(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, version string) {
		v, err := cluster.ParseVersion(version)
		must(t, err)
		if v.MaxLearners() < 2 {
			t.Skipf("etcd %s accepts one learner", version)
		}
		ctx := within(t)
		c := testetcd.Start(t, testetcd.Config{Version: version, Args: []string{fmt.Sprintf("--max-learners=%d", v.MaxLearners())}})
		fill(t, c.Client(t))
		for range v.MaxLearners() {
			_, err := c.Join(ctx)
			must(t, err)
		}
		put(t, c.Client(t, 0), "last", "v")
		for i := range c.Members {
			must(t, c.Kill(ctx, i, syscall.SIGKILL))
		}
		// Behind what was applied, so that the log has to be applied again.
		at := c.Members[0].DataDir
		appendToLog(t, at, func(after Position) []*raftpb.Entry { return []*raftpb.Entry{putEntry(t, next(&after), "tail")} })
		e, keys := extracted(t, at, version)
		if e.Applied == 0 || len(e.Survivor.Members) != 3 || keys["last"] == "" || keys["tail"] == "" {
			t.Errorf("extracted %+v with %d keys", e, len(keys))
		}
	})
}
