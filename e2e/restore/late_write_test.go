package restore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/control"
)

// A generation is written on what is true at that moment, or not at all (docs/adr/023). In
// these tests something comes between what a leading daemon has seen and its write: it is
// stopped, the network is late, a person takes a command back, hosts return.

// stopFor is how long a daemon is stopped that is about to write. What it relies on counts
// for five seconds.
func stopFor() time.Duration {
	if *rig.Long {
		return time.Minute
	}
	return 12 * time.Second
}

// about is what the daemon that leads is about to do when something comes between.
type about string

const (
	toReadAgain about = "about to read the command again"
	toWrite     about = "about to write"
	toTryAgain  about = "about to try the write again"
)

// meet has the first daemon stopped that is about to do this for a further generation.
// Its request is kept, too: a read is answered with what is true now, while the daemon is
// stopped, and a write goes on to the server when it is released.
func meet(t *testing.T, taps []*tap, when about) <-chan *rig.Met {
	reached := make(chan *rig.Met, 1)
	var first atomic.Bool
	for _, p := range taps {
		p.on(func(call *storeCall) *storeAnswer {
			in := call.record()
			writes := in != nil && in.Generation > 1
			if when == toReadAgain && !call.again || when == toWrite && !writes || when == toTryAgain && !call.again && !writes {
				return nil
			}
			if when == toTryAgain && !writes { // so that more time has passed since its look than since its write began
				time.Sleep(slowRead)
				return nil
			}
			if !first.CompareAndSwap(false, true) {
				return nil
			}
			var answer *storeAnswer
			if when == toReadAgain {
				answer = call.send()
			}
			m := &rig.Met{H: p.h, At: time.Now(), Release: make(chan struct{}), Answer: make(chan int, 1)}
			if err := p.h.StopNow(); err != nil {
				t.Errorf("stop the daemon of host %d: %v", p.h.N, err)
			}
			reached <- m
			if when == toReadAgain {
				return answer
			}
			select {
			case <-m.Release:
			case <-t.Context().Done():
			}
			if answer = unavailable(); when == toWrite {
				answer = call.send()
			}
			if answer == nil {
				m.Answer <- 0
				return nil
			}
			m.Answer <- answer.status
			return answer
		})
	}
	return reached
}

// slowRead is how long the store thinks about one request. A read of a daemon may take two seconds.
const slowRead = 600 * time.Millisecond

// further are the writes of generations after the first one that daemons sent.
func further(taps []*tap) (all []storeWrite) {
	for _, p := range taps {
		for _, w := range p.writes() {
			if w.intent.Generation > 1 {
				all = append(all, w)
			}
		}
	}
	return all
}

// quiet is how long nothing may happen after everything that was going to happen has.
const quiet = 5 * time.Second

// The leading daemon is stopped when all that is left of a restore is its write. Meanwhile
// a person takes the command back, and another daemon leads. When it goes on, it does not
// write; and what it had sent, and what the network brings late, is refused by the store,
// since the new leader has written its name into the record.
func TestLeaderIsStoppedBeforeItsWrite(t *testing.T) {
	rig.TakesLong(t, "half a minute")
	t.Parallel()
	for _, when := range []about{toReadAgain, toWrite} {
		for how, byObjects := range map[string]bool{"deleted": false, "its objects deleted": true} {
			t.Run(string(when)+", "+how, func(t *testing.T) {
				t.Parallel()
				if byObjects != (when == toWrite) && !*rig.Long {
					t.Skip("the others are enough for every day: -e2e.long")
				}
				c, taps := tapped(t, rig.Options{Hosts: 3})
				c.Form(3)
				w := c.Write()
				w.WaitFor(50)
				backup := c.TakeBackup()
				w.WaitFor(50) // which the restore would take back
				pids := c.Pids()
				reached := meet(t, taps, when)
				command := c.RestoreByCtl(backup)
				m := c.Met(reached)
				c.Withdraws(command, byObjects)
				next := c.Leader(rig.Soon, c.Others([]int{m.H.N})[0], m.H)
				w.WaitFor(50)
				if left := time.Until(m.At.Add(stopFor())); left > 0 {
					c.Passes(left)
				}
				want := 0
				if when == toWrite {
					want = 1
					close(m.Release)
					if status := <-m.Answer; status != http.StatusPreconditionFailed {
						t.Errorf("the store answers %d to a write that comes after host %d leads, want %d", status, next.N, http.StatusPreconditionFailed)
					}
				}
				m.GoOn(t)
				c.Agree()
				c.Passes(quiet)
				if sent := further(taps); len(sent) != want {
					t.Errorf("a further generation was sent to the store %d times, want %d", len(sent), want)
				}
				c.NotRun(command)
				if e, ok := c.Intent().EndOf(command); !byObjects && (!ok || e.Result != control.ResultCancelled) {
					t.Errorf("of the command the record has %+v", e)
				}
				if now := c.Pids(); !slices.Equal(pids, now) {
					t.Errorf("the etcds had the pids %v and have %v", pids, now)
				}
				c.Voters(rig.Soon, 1, 2, 3)
				w.Check()
			})
		}
	}
}

// The store was too busy for a write, and before the second attempt the daemon is stopped
// for so long that what it relies on is too old, though the write itself still has time.
func TestLeaderIsStoppedBeforeItsSecondAttempt(t *testing.T) {
	rig.TakesLong(t, "20 s")
	t.Parallel()
	c, taps := tapped(t, rig.Options{Hosts: 1})
	c.Form(1)
	w := c.Write()
	w.WaitFor(50)
	backup := c.TakeBackup()
	w.WaitFor(50)
	pids := c.Pids()
	reached := meet(t, taps, toTryAgain)
	command := c.RestoreByCtl(backup)
	m := c.Met(reached)
	c.Withdraws(command, true)
	c.Passes(time.Until(m.At.Add(4400 * time.Millisecond))) // five seconds less what the reads took is too short
	close(m.Release)
	<-m.Answer
	m.GoOn(t)
	c.Passes(quiet)
	if sent := further(taps); len(sent) != 0 {
		t.Errorf("a further generation was sent to the store again, %d times", len(sent))
	}
	c.NotRun(command)
	if now := c.Pids(); !slices.Equal(pids, now) {
		t.Errorf("the etcds had the pids %v and have %v", pids, now)
	}
	w.Check()
}

// A majority is gone, and a person has the cluster go on from the third host without it.
// Before that is written, its daemon is stopped, and those who were named lost come back
// and serve. What clients wrote then is not taken back, and the command is rejected.
func TestLostHostsReturnBeforeTheWrite(t *testing.T) {
	rig.TakesLong(t, "a minute")
	t.Parallel()
	for _, when := range []about{toReadAgain, toWrite} {
		t.Run(string(when), func(t *testing.T) {
			t.Parallel()
			if when == toWrite && !*rig.Long {
				t.Skip("the other one is enough for every day: -e2e.long")
			}
			c, taps := tapped(t, rig.Options{Hosts: 3})
			c.Form(3)
			w := c.Write()
			w.WaitFor(100)
			survivor := c.Host(1)
			ids := []string{string(c.Host(2).ID()), string(c.Host(3).ID())}
			c.Host(2).Crash()
			c.Host(3).Crash()
			c.Blocked(survivor, "quorum", "missing: ", ids[0]+" (unreachable", "offered once the loss has lasted")
			reached := meet(t, taps, when)
			if r := c.Recovers(survivor, "--store", c.StoreURL(), "--from", string(survivor.ID()), "--lost", ids[0], "--lost", ids[1], "--yes", "--wait", "1s"); r.Code != cli.ExitWaiting {
				t.Fatalf("%s", r)
			}
			m := c.Met(reached)
			command := c.OnlyCommand()
			c.Start(2, 3)
			c.Host(2).Serves(rig.Soon)
			c.Host(3).Serves(rig.Soon)
			w.WaitFor(100) // which the recovery would take back
			c.Leader(rig.Soon, c.Host(2), survivor)
			c.Ended(command, "rejected")
			if left := time.Until(m.At.Add(stopFor())); left > 0 {
				c.Passes(left)
			}
			want := 0
			if when == toWrite {
				want = 1
				close(m.Release)
				if status := <-m.Answer; status != http.StatusPreconditionFailed {
					t.Errorf("the store answers %d to the late write, want %d", status, http.StatusPreconditionFailed)
				}
			}
			m.GoOn(t)
			c.Agree()
			c.Passes(quiet)
			if sent := further(taps); len(sent) != want {
				t.Errorf("a further generation was sent to the store %d times, want %d", len(sent), want)
			}
			c.NotRun(command)
			c.Voters(rig.Soon, 1, 2, 3)
			w.Check()
		})
	}
}

// No daemon's standard error takes anything. A restore that a person takes back right
// before it would be written is not run, not even when the log is read after all; and one
// that is wanted is run as ever.
func TestRestoreWithLogThatNobodyReads(t *testing.T) {
	rig.TakesLong(t, "half a minute")
	t.Parallel()
	c, taps := tapped(t, rig.Options{Hosts: 3})
	var logs []func()
	for _, h := range c.Hosts {
		read, write := rig.FullPipe(t)
		h.Stderr = write
		logs = append(logs, func() { go h.CopyLog(read) })
	}
	t.Cleanup(func() {
		if t.Failed() { // else nobody learns what they said
			for _, show := range logs {
				show()
			}
			time.Sleep(time.Second)
		}
	})
	c.Form(3)
	w := c.Write()
	w.WaitFor(50)
	backup := c.TakeBackup()
	w.WaitFor(50)
	pids := c.Pids()
	asked, withdrawn := make(chan struct{}, 1), make(chan struct{})
	for _, p := range taps {
		p.on(func(call *storeCall) *storeAnswer {
			if call.again && strings.HasSuffix(call.key, rig.CommandFile) {
				select {
				case asked <- struct{}{}:
				default:
				}
				select {
				case <-withdrawn:
				case <-t.Context().Done():
				}
			}
			return nil
		})
	}
	command := c.RestoreByCtl(backup)
	rig.Comes(c, asked)
	c.Withdraws(command, true)
	close(withdrawn)
	c.Passes(quiet)
	c.NotRun(command)
	if sent := further(taps); len(sent) != 0 {
		t.Errorf("a further generation was sent to the store %d times, want never", len(sent))
	}
	if now := c.Pids(); !slices.Equal(pids, now) {
		t.Errorf("the etcds had the pids %v and have %v", pids, now)
	}
	w.Check()
	for _, p := range taps {
		p.on(nil)
	}

	w = c.WriteUnder("before/")
	w.WaitFor(20)
	wanted := c.TakeBackup()
	w.End()
	c.RestoreByCtl(wanted)
	c.Generation(2, 1, 2, 3)
	for _, show := range logs {
		show()
	}
	c.Passes(2 * time.Second)
	if in := c.Intent(); in.Generation != 2 || in.Ran(command) {
		t.Errorf("generation %d; the record says that the command that was taken back was run: %t", in.Generation, in.Ran(command))
	}
	c.Write().Check()
}

// The store gives objects and no lists any more. A restore for which everything is ready is
// not run on what the queue was before: a person has taken it back, and no daemon can see
// that. It is not run either when the store lists again.
func TestQueueThatCannotBeListed(t *testing.T) {
	rig.TakesLong(t, "40 s")
	t.Parallel()
	c, taps := tapped(t, rig.Options{Hosts: 3})
	c.Form(3)
	w := c.Write()
	w.WaitFor(50)
	backup := c.TakeBackup()
	w.WaitFor(50)
	pids := c.Pids()
	var mu sync.Mutex // guards what follows
	var broken time.Time
	var tried []string
	healed := false
	ready := make(chan struct{})
	for _, p := range taps {
		p.on(func(call *storeCall) *storeAnswer {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case healed:
			case call.again && broken.IsZero():
				broken = time.Now()
				close(ready)
				return unavailable()
			case broken.IsZero():
			case call.again && time.Since(broken) < 3*time.Second: // further attempts at that
				return unavailable()
			case call.again:
				tried = append(tried, call.key)
			case call.list && strings.HasPrefix(rig.ControlFolder, call.key) || call.list && strings.HasPrefix(call.key, rig.ControlFolder):
				return unavailable()
			}
			return nil
		})
	}
	command := c.RestoreByCtl(backup)
	rig.Comes(c, ready)
	leader := c.Agree()
	const words = "cannot be listed"
	c.Blocked(leader, words, command)
	c.Withdraws(command, true)
	c.Passes(20 * time.Second)
	c.Blocked(leader, words)
	if r := c.Etcdadm("status", "--data-dir", leader.Dir); !strings.Contains(r.Stdout, words) {
		t.Errorf("%s", r)
	}
	mu.Lock()
	if len(tried) != 0 {
		t.Errorf("a daemon was about to write for a command in a queue that it could not see: it read %q", tried)
	}
	healed = true
	mu.Unlock()
	rig.Eventually(t, rig.Soon, "the queue is seen again", func(ctx context.Context) error {
		r, err := c.Report(ctx, leader)
		if err == nil && (r.Observation == nil || r.Observation.Unlisted != "" || len(r.Observation.Commands) > 0) {
			err = errors.New("it is not")
		}
		return err
	})
	c.Passes(quiet)
	if sent := further(taps); len(sent) != 0 {
		t.Errorf("a further generation was sent to the store %d times, want never", len(sent))
	}
	c.NotRun(command)
	if now := c.Pids(); !slices.Equal(pids, now) {
		t.Errorf("the etcds had the pids %v and have %v", pids, now)
	}
	w.Check()
}

// Between a leader's look and its write another leader writes the same generation, nonce
// and write number. Whatever the contents differ in, the leader does not take that for its
// own, no host ever keeps what the store does not have, and the change is made in the end.
func TestWriteOfARivalInBetween(t *testing.T) {
	rig.TakesLong(t, "half a minute")
	t.Parallel()
	rivals := map[string]func(mine *cluster.Intent, other cluster.HostID){
		"another leader's": func(mine *cluster.Intent, other cluster.HostID) {
			mine.By = cluster.Fence{Number: mine.By.Number + 1, Host: other}
		},
		"without the change": func(mine *cluster.Intent, _ cluster.HostID) { mine.Next = nil },
	}
	for what, differs := range rivals {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c, taps := tapped(t, rig.Options{Hosts: 3})
			c.Form(1)
			c.Start(2, 3)
			c.Leader(rig.Soon, c.Host(2))
			c.Leader(rig.Soon, c.Host(3))
			w := c.Write()
			w.WaitFor(20)
			folder := c.Folder()
			var mu sync.Mutex // guards what follows
			var rival *cluster.Intent
			open := false
			in := make(chan int, 1)
			for _, p := range taps {
				p.on(func(call *storeCall) *storeAnswer {
					mine := call.record()
					if mine == nil {
						return nil
					}
					mu.Lock()
					defer mu.Unlock()
					switch {
					case open:
						return nil
					case rival != nil: // so that what the hosts are told now lasts
						return unavailable()
					case len(mine.Next) == 0:
						return nil
					}
					differs(mine, c.Host(2).ID())
					_, _, tag, err := folder.ReadIntent(context.WithoutCancel(t.Context()))
					if err == nil {
						_, err = folder.ReplaceIntent(context.WithoutCancel(t.Context()), tag, mine)
					}
					if err != nil {
						t.Errorf("write as a rival: %v", err)
					}
					rival = mine
					answer := call.send()
					if answer == nil {
						in <- 0
						return nil
					}
					in <- answer.status
					return answer
				})
			}
			c.Configure(3)
			select {
			case status := <-in:
				if status != http.StatusPreconditionFailed {
					t.Fatalf("the store answers %d to the leader's write", status)
				}
			case <-time.After(rig.Soon):
				t.Fatal("no change of the voters is written down")
			}
			mu.Lock()
			there := *rival
			mu.Unlock()
			end := time.Now().Add(6 * time.Second)
			heard := map[int]bool{}
			for time.Now().Before(end) {
				for _, h := range c.Hosts {
					kept, err := h.Kept()
					if err != nil {
						t.Fatal(err)
					}
					if kept.Generation != there.Generation || kept.Write < there.Write {
						continue
					}
					heard[h.N] = true
					if err := sameRecord(&there, kept); err != nil {
						t.Fatalf("host %d keeps what the store does not have: %v", h.N, err)
					}
				}
				time.Sleep(5 * time.Millisecond) // a file tells nothing
			}
			if len(heard) == 0 {
				t.Error("no host was told of the rival's write")
			}
			if n := c.CountVoters(); len(there.Next) == 0 && n != 1 {
				t.Errorf("there are %d voters, and that is written nowhere", n)
			}
			mu.Lock()
			open = true
			mu.Unlock()
			c.Voters(2*rig.Soon, 1, 2, 3)
			rig.Eventually(t, rig.Soon, "all hosts keep what the store has", func(context.Context) error {
				stored := c.Intent()
				for _, h := range c.Hosts {
					kept, err := h.Kept()
					if err == nil {
						err = sameRecord(stored, kept)
					}
					if err != nil {
						return fmt.Errorf("host %d: %w", h.N, err)
					}
				}
				return nil
			})
			if in := c.Intent(); in.Generation != 1 || in.Write <= there.Write {
				t.Errorf("at the end the record is generation %d, write %d", in.Generation, in.Write)
			}
			w.Check()
		})
	}
}
