package history

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"etcdadm.io/internal/testetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// record is a run of some seconds on a real cluster of three, in which members are killed and stand still.
func record(t *testing.T) *Clients {
	t.Helper()
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36, Members: 3})
	var endpoints []string
	for _, m := range c.Members {
		endpoints = append(endpoints, m.ClientURL)
	}
	clients, err := Start(t.Context(), Config{Endpoints: endpoints, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer clients.Stop()
	more := func(n int) {
		t.Helper()
		from, _ := clients.Counts()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if now, _ := clients.Counts(); now >= from+n {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("no %d more operations within a minute", n)
			}
		}
	}
	more(200)
	for i := range c.Members {
		healed := clients.Fault("kill member " + c.Members[i].Name)
		if err := c.Kill(t.Context(), i, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		more(50)
		if err := c.Restart(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		healed()
		more(50)
	}
	healed := clients.Fault("member 1 stands still")
	if err := c.Kill(t.Context(), 1, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	more(100)
	if err := c.Kill(t.Context(), 1, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	healed()
	more(100)
	return clients
}

// What a real etcd does while its members are killed one after the other is as it promises; and what was seen can be kept
// and checked again.
func TestRealEtcd(t *testing.T) {
	clients := record(t)
	clients.Stop()
	report := clients.Check()
	t.Log(report)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Acknowledged < 500 || report.Watches != 6 || report.Events < 500 || report.Leases == 0 {
		t.Errorf("too little was seen: %s", report)
	}
	path := filepath.Join(t.TempDir(), "history.json")
	if err := clients.History().Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if was, is := report.String(), Check(again).String(); was != is {
		t.Errorf("checked again it is %s, and was %s", is, was)
	}
}
