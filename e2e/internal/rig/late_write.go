package rig

import (
	"context"
	"errors"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/cli"
)

// Met is a daemon that was stopped on its way to a new generation.
type Met struct {
	H       *Host
	At      time.Time
	Release chan struct{} // closed when its request may go on
	Answer  chan int      // what the server said to the request then
}

func (c *Cluster) Met(reached <-chan *Met) *Met {
	c.T.Helper()
	m := Comes(c, reached)
	c.T.Logf("the daemon of host %d is stopped", m.H.N)
	return m
}

// Comes waits for what a daemon does before it writes a further generation.
func Comes[T any](c *Cluster, reached <-chan T) (it T) {
	c.T.Helper()
	Eventually(c.T, RestoreWithin, "a daemon comes to its write", func(ctx context.Context) error {
		if n := c.Intent().Generation; n > 1 {
			c.T.Fatalf("generation %d is written, and no daemon did what it does before", n)
		}
		select {
		case it = <-reached:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
			return errors.New("none does")
		}
	})
	return it
}

// GoOn ends the stop of a daemon.
func (m *Met) GoOn(t *testing.T) {
	t.Helper()
	if err := ContinueProcess(m.H.Cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	t.Logf("the daemon of host %d goes on after %s", m.H.N, time.Since(m.At).Round(time.Millisecond))
}

// Withdraws is a person who takes a command back: with our program, or with the
// predecessor's, which deletes the objects and nothing else.
func (c *Cluster) Withdraws(command string, byObjects bool) {
	c.T.Helper()
	if !byObjects {
		if r := c.Ctl("--backup-store="+c.StoreURL(), "delete-command", command); r.Code != cli.ExitOK {
			c.T.Fatalf("%s", r)
		}
		return
	}
	store := c.OpenStore()
	for _, file := range []string{CommandFile, BesideFile, wishFile} {
		if err := store.Delete(c.T.Context(), ControlFolder+command+file); err != nil {
			c.T.Fatal(err)
		}
	}
}

// NotRun is that nothing came of a command: the generation is the first one still.
func (c *Cluster) NotRun(command string) {
	c.T.Helper()
	in := c.Intent()
	if in.Generation != 1 || in.State != cluster.IntentFounded || in.Ran(command) {
		c.T.Errorf("generation %d is %s, and of command %s the record says that it was run: %t", in.Generation, in.State, command, in.Ran(command))
	}
	if queued, err := c.Folder().Commands(c.T.Context()); err != nil || len(queued) != 0 {
		c.T.Errorf("in the queue is %+v (%v)", queued, err)
	}
	if e, err := EndOf(c.T.Context(), c.Folder(), command); err == nil && e.Result == "done" {
		c.T.Errorf("the command ended as %+v", e)
	}
}

// OnlyCommand is the name of the one command in the queue.
func (c *Cluster) OnlyCommand() string {
	c.T.Helper()
	queued, err := c.Folder().Commands(c.T.Context())
	if err != nil || len(queued) != 1 {
		c.T.Fatalf("in the queue is %+v (%v), want one command", queued, err)
	}
	return queued[0].Name
}

// CountVoters is how many voters etcd has.
func (c *Cluster) CountVoters() (n int) {
	c.T.Helper()
	Eventually(c.T, Soon, "the voters are counted", func(ctx context.Context) error {
		list, err := c.Etcd().MemberList(ctx)
		if err != nil {
			return err
		}
		n = 0
		for _, m := range list.Members {
			if !m.IsLearner {
				n++
			}
		}
		return nil
	})
	return n
}
