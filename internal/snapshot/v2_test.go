package snapshot

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
)

// A young member of 3.5 has published itself by a request of version 2; later
// releases have not, and a raft snapshot puts it out of sight.
func TestV2InLog(t *testing.T) {
	eachVersion(t, func(t *testing.T, version string) {
		c := testetcd.Start(t, testetcd.Config{Version: version})
		put(t, c.Client(t), "k", "v")
		dir := c.Members[0].DataDir
		old := strings.HasPrefix(version, "3.5.")
		if got, err := V2InLog(dir); err != nil || got != old {
			t.Errorf("while it runs: %t, %v", got, err)
		}
		must(t, c.Kill(within(t), 0, syscall.SIGKILL))
		if got, err := V2InLog(dir); err != nil || got != old {
			t.Errorf("after its end: %t, %v", got, err)
		}
	})
	if _, err := V2InLog(t.TempDir()); err == nil {
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
	if got, err := V2InLog(m.DataDir); err != nil || !got {
		t.Fatalf("after 3.6 took over: %t, %v", got, err)
	}
	m.Args = append(m.Args, "--snapshot-count=1")
	must(t, c.Restart(within(t), 0))
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		got, err := V2InLog(m.DataDir)
		if err == nil && !got {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after it was to cut a snapshot: %t, %v", got, err)
		}
	}
}
