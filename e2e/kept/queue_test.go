package kept

import (
	"encoding/json"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// Where the hosts keep the record, the queue is read and written through them, on any host.
func TestQueueWithoutAStore(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3, TLS: true, Kept: true})
	c.Host(1).FoundRecord(3)
	c.Host(2).Named()
	c.Host(3).Named()
	c.Start(1, 2, 3)
	c.Voters(rig.Soon, 1, 2, 3)
	c.KeptBy(rig.Soon, 1, 2, 3)
	if r := c.Etcdadm("queue", "list", "--data-dir", c.Host(3).Dir); r.Code != cli.ExitOK || !strings.Contains(r.Stdout, "the queue is empty") {
		t.Errorf("%s", r)
	}
	if r := c.Etcdadm("backup", "create", "--wait", "60s", "--data-dir", c.Host(2).Dir); r.Code != cli.ExitOK {
		t.Fatalf("%s", r)
	}
	r := c.Etcdadm("queue", "list", "--all", "-o", "json", "--data-dir", c.Host(1).Dir)
	var l struct {
		Queue []any
		Ended []struct{ Name, Kind, Result string }
	}
	if err := json.Unmarshal([]byte(r.Stdout), &l); err != nil || r.Code != cli.ExitOK || len(l.Queue) != 0 || len(l.Ended) != 1 || l.Ended[0].Kind != "backup" || l.Ended[0].Result != "done" {
		t.Fatalf("%v: %s", err, r)
	}
	if r := c.Etcdadm("queue", "cancel", l.Ended[0].Name, "--yes", "--data-dir", c.Host(3).Dir); r.Code != cli.ExitUnsafe || !strings.Contains(r.Stderr, "has ended already: done") {
		t.Errorf("%s", r)
	}
}
