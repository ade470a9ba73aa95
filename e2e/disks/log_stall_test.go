package disks

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testlog"
)

// A daemon whose standard error takes nothing works: it makes a cluster, answers, ends when it is
// told to, with its etcd, and takes that up again. What it says comes out once somebody reads.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1})
	c.Configure(1)
	h := c.Host(1)
	_, h.Stderr = rig.FullPipe(t)
	c.Start(1)
	h.Serves(rig.Soon)
	says := func() {
		t.Helper()
		rig.Eventually(t, rig.Soon, "status with a member that is up", func(context.Context) error {
			if r := c.Etcdadm("status", "--data-dir="+h.Dir); r.Code != 0 || !strings.Contains(r.Stdout, string(h.ID())) {
				return fmt.Errorf("status ends with %d: %s%s", r.Code, r.Stdout, r.Stderr)
			}
			return nil
		})
	}
	says()
	h.Interrupt()

	read, write := rig.FullPipe(t)
	h.Stderr = write
	c.Start(1)
	h.Serves(rig.Soon)
	says()
	var log testlog.Lines
	go func() { // ends with the pipe
		_, _ = read.WriteTo(&log)
	}()
	brings := func(words string) {
		t.Helper()
		rig.Eventually(t, rig.Soon, words, func(context.Context) error {
			if !strings.Contains(log.String(), words) {
				return fmt.Errorf("the log is\n%s", strings.TrimLeft(log.String(), "\n"))
			}
			return nil
		})
	}
	brings(`msg="daemon is up"`)
	h.Interrupt()
	brings(`msg="daemon has ended"`)
	if strings.Contains(log.String(), "were dropped") {
		t.Errorf("it lost lines:\n%s", strings.TrimLeft(log.String(), "\n"))
	}
}
