package form

import (
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// A daemon that is started anew with another setting for etcd adopts the etcd that runs, and
// names the command that has the setting take effect. That command, as it is printed,
// restarts this one member.
func TestSettingsAreAppliedByTheCommandThatIsPrinted(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 3, rig.Options{Flags: []string{"--on-sigterm=leave"}})
	w := c.Write()
	h := c.RaftLeader(1, 2, 3)
	pids := c.Pids()
	h.Term()
	h.Env = append(h.Env, "ETCD_SNAPSHOT_COUNT=7777")
	h.Start()
	c.Blocked(h, "ETCD_SNAPSHOT_COUNT", "etcdadm member restart "+string(h.ID()))
	status := c.Etcdadm("status", "--data-dir", h.Dir)
	_, line, _ := strings.Cut(status.Stdout, "→ etcdadm ")
	line, _, _ = strings.Cut(line, "\n")
	if r := c.Etcdadm(strings.Fields(line)...); r.Code != cli.ExitOK {
		t.Fatalf("%q: %s", line, r)
	}
	c.Voters(rig.Soon, 1, 2, 3)
	for i, pid := range c.Pids() {
		if restarted := pid != pids[i]; restarted != (i == h.N-1) {
			t.Errorf("the etcd of host %d was %d and is %d", i+1, pids[i], pid)
		}
	}
	if r := c.Etcdadm("status", "--data-dir", h.Dir); strings.Contains(r.Stdout, "settings-not-applied") {
		t.Errorf("%s", r)
	}
	w.Check()
}
