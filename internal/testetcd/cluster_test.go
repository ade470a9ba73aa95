package testetcd_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"etcdadm.io/internal/testetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every release serves, with and without TLS, and keeps what was acknowledged
// over a kill -9 of a member.
func TestClusterOfEachRelease(t *testing.T) {
	for i, version := range append(testetcd.Versions(), testetcd.V34) {
		t.Run(version, func(t *testing.T) {
			c := testetcd.Start(t, testetcd.Config{Version: version, Members: 3, TLS: i%2 == 0})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			client := c.Client(t)
			if _, err := client.Put(ctx, "k", "v"); err != nil {
				t.Fatal(err)
			}
			status, err := client.Status(ctx, c.Endpoints()[0])
			if err != nil {
				t.Fatal(err)
			}
			if status.Version != version {
				t.Errorf("the member runs %s, want %s", status.Version, version)
			}
			if err := c.Kill(ctx, 0, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := c.Restart(ctx, 0); err != nil {
				t.Fatal(err)
			}
			wantValue(ctx, t, c.Client(t, 0), "k", "v")
		})
	}
}

func TestJoinAndPromote(t *testing.T) {
	c := testetcd.Start(t, testetcd.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := c.Client(t, 0)
	if _, err := client.Put(ctx, "k", "v"); err != nil {
		t.Fatal(err)
	}
	i, err := c.Join(ctx)
	if err != nil {
		t.Fatal(err)
	}
	members, err := client.MemberList(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members.Members {
		if m.IsLearner {
			promote(ctx, t, client, m.ID)
		}
	}
	if err := c.WaitHealthy(ctx); err != nil {
		t.Fatal(err)
	}
	wantValue(ctx, t, c.Client(t, i), "k", "v")
}

// promote asks until the learner has caught up; etcd has no event for that.
func promote(ctx context.Context, t *testing.T, client *clientv3.Client, id uint64) {
	t.Helper()
	for {
		_, err := client.MemberPromote(ctx, id)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("promote: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A member without its quorum can be started, and a graceful stop and another
// release are one Restart away.
func TestLaunchWithoutQuorumAndUpgrade(t *testing.T) {
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36, Members: 3})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range c.Members {
		if err := c.Kill(ctx, i, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := c.Use(ctx, i, testetcd.V37); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Launch(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if !c.Members[0].Running() {
		t.Fatal("a member without a quorum does not run")
	}
	for i := 1; i < 3; i++ {
		if err := c.Launch(ctx, i); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WaitHealthy(ctx); err != nil {
		t.Fatal(err)
	}
	status, err := c.Client(t).Status(ctx, c.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	if status.Version != testetcd.V37 {
		t.Errorf("after the upgrade it runs %s", status.Version)
	}
}

// A member that cannot start is reported at once, in its own words.
func TestStartReportsTheMembersWords(t *testing.T) {
	testetcd.Binary(t, testetcd.V37)
	began := time.Now()
	c, err := testetcd.StartIn(t.Context(), t.TempDir(), testetcd.Config{Args: []string{"--election-timeout=1"}})
	if c != nil {
		defer c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "election-timeout") {
		t.Errorf("got %v, want etcd's complaint about the time-out", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v to notice", took)
	}
}

// What a cleanup has to leave behind: no process.
func TestNoMemberOutlivesItsTest(t *testing.T) {
	var pids []int
	t.Run("inner", func(t *testing.T) {
		c := testetcd.Start(t, testetcd.Config{Members: 2})
		for i, m := range c.Members {
			pids = append(pids, m.PID())
			if i == 0 { // a stopped process has to be ended too
				if err := c.Kill(t.Context(), i, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	for _, pid := range pids {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(cmdline), "--initial-cluster-token") {
			t.Errorf("etcd %d is still running", pid)
		}
	}
}

func TestUnknownRelease(t *testing.T) {
	if _, err := testetcd.Fetch(t.Context(), "9.9.9"); err == nil || !strings.Contains(err.Error(), testetcd.V36) {
		t.Errorf("got %v, want the list of what there is", err)
	}
}

func TestPortsAreNotGivenTwice(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		p := testetcd.FreePort(t)
		if p >= 32768 || seen[p] {
			t.Fatalf("port %d: too high, or given before", p)
		}
		seen[p] = true
	}
}

func wantValue(ctx context.Context, t *testing.T, client *clientv3.Client, key, value string) {
	t.Helper()
	got, err := client.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != value {
		t.Errorf("%s: got %v, want %q", key, got.Kvs, value)
	}
}
