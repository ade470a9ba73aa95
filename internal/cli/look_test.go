package cli

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/peer"
)

// elected is a daemon that leads from its third answer on.
type elected struct {
	answering
	asked atomic.Int32
}

func (e *elected) Report(context.Context, peer.Caller, json.RawMessage) (json.RawMessage, error) {
	r := console.Report{Cluster: "test", Host: "a"}
	if e.asked.Add(1) > 2 {
		r.Leading, r.Leader, r.Observation = true, "a", &cluster.Observation{Cluster: "test"}
	}
	return json.Marshal(r)
}

// A command that needs the leader waits while the daemons elect one, as right after a join.
func TestCommandsWaitForALeader(t *testing.T) {
	e := &elected{}
	at := serveDaemon(t, "test", "a", e)
	code, out, errs := runEtcdadm("auto-manage", "status", "--endpoint="+at, "--cluster-name=test")
	if code != ExitOK || !strings.Contains(out, "self-management: on") || e.asked.Load() != 3 {
		t.Errorf("exit code %d after %d answers\n%s%s", code, e.asked.Load(), out, errs)
	}
}
