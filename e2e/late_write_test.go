package e2e

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
	"etcdadm.io/internal/cli"
	"etcdadm.io/internal/control"
)

// A generation is written on what is true at that moment, or not at all (docs/adr/023). In
// these tests something comes between what a leading daemon has seen and its write: it is
// stopped, the network is late, a person takes a command back, hosts return.

// stopFor is how long a daemon is stopped that is about to write. What it relies on counts
// for five seconds.
func stopFor() time.Duration {
	if *long {
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

// met is a daemon that was stopped on its way to a new generation.
type met struct {
	h       *host
	at      time.Time
	release chan struct{} // closed when its request may go on
	answer  chan int      // what the server said to the request then
}

// meet has the first daemon stopped that is about to do this for a further generation.
// Its request is kept, too: a read is answered with what is true now, while the daemon is
// stopped, and a write goes on to the server when it is released.
func meet(t *testing.T, taps []*tap, when about) <-chan *met {
	reached := make(chan *met, 1)
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
			m := &met{h: p.h, at: time.Now(), release: make(chan struct{}), answer: make(chan int, 1)}
			if err := p.h.stopNow(); err != nil {
				t.Errorf("stop the daemon of host %d: %v", p.h.n, err)
			}
			reached <- m
			if when == toReadAgain {
				return answer
			}
			select {
			case <-m.release:
			case <-t.Context().Done():
			}
			if answer = unavailable(); when == toWrite {
				answer = call.send()
			}
			if answer == nil {
				m.answer <- 0
				return nil
			}
			m.answer <- answer.status
			return answer
		})
	}
	return reached
}

// slowRead is how long the store thinks about one request. A read of a daemon may take two seconds.
const slowRead = 600 * time.Millisecond

func (c *testCluster) met(reached <-chan *met) *met {
	c.t.Helper()
	m := comes(c, reached)
	c.t.Logf("the daemon of host %d is stopped", m.h.n)
	return m
}

// comes waits for what a daemon does before it writes a further generation.
func comes[T any](c *testCluster, reached <-chan T) (it T) {
	c.t.Helper()
	eventually(c.t, restoreWithin, "a daemon comes to its write", func(ctx context.Context) error {
		if n := c.intent().Generation; n > 1 {
			c.t.Fatalf("generation %d is written, and no daemon did what it does before", n)
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

// goOn ends the stop of a daemon.
func (m *met) goOn(t *testing.T) {
	t.Helper()
	if err := continueProcess(m.h.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	t.Logf("the daemon of host %d goes on after %s", m.h.n, time.Since(m.at).Round(time.Millisecond))
}

// withdraws is a person who takes a command back: with our program, or with the
// predecessor's, which deletes the objects and nothing else.
func (c *testCluster) withdraws(command string, byObjects bool) {
	c.t.Helper()
	if !byObjects {
		if r := c.ctl("--backup-store="+c.storeURL(), "delete-command", command); r.code != cli.ExitOK {
			c.t.Fatalf("%s", r)
		}
		return
	}
	store := c.openStore()
	for _, file := range []string{commandFile, besideFile, wishFile} {
		if err := store.Delete(c.t.Context(), controlFolder+command+file); err != nil {
			c.t.Fatal(err)
		}
	}
}

// notRun is that nothing came of a command: the generation is the first one still.
func (c *testCluster) notRun(command string) {
	c.t.Helper()
	in := c.intent()
	if in.Generation != 1 || in.State != cluster.IntentFounded || in.Ran(command) {
		c.t.Errorf("generation %d is %s, and of command %s the record says that it was run: %t", in.Generation, in.State, command, in.Ran(command))
	}
	if queued, err := c.folder().Commands(c.t.Context()); err != nil || len(queued) != 0 {
		c.t.Errorf("in the queue is %+v (%v)", queued, err)
	}
	if e, err := endOf(c.t.Context(), c.folder(), command); err == nil && e.Result == "done" {
		c.t.Errorf("the command ended as %+v", e)
	}
}

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
	t.Parallel()
	for _, when := range []about{toReadAgain, toWrite} {
		for how, byObjects := range map[string]bool{"deleted": false, "its objects deleted": true} {
			t.Run(string(when)+", "+how, func(t *testing.T) {
				t.Parallel()
				if byObjects != (when == toWrite) && !*long {
					t.Skip("the others are enough for every day: -e2e.long")
				}
				c, taps := tapped(t, options{hosts: 3})
				c.form(3)
				w := c.write()
				w.waitFor(50)
				backup := c.takeBackup()
				w.waitFor(50) // which the restore would take back
				pids := c.pids()
				reached := meet(t, taps, when)
				command := c.restoreByCtl(backup)
				m := c.met(reached)
				c.withdraws(command, byObjects)
				next := c.leader(soon, c.others([]int{m.h.n})[0], m.h)
				w.waitFor(50)
				if left := time.Until(m.at.Add(stopFor())); left > 0 {
					c.passes(left)
				}
				want := 0
				if when == toWrite {
					want = 1
					close(m.release)
					if status := <-m.answer; status != http.StatusPreconditionFailed {
						t.Errorf("the store answers %d to a write that comes after host %d leads, want %d", status, next.n, http.StatusPreconditionFailed)
					}
				}
				m.goOn(t)
				c.agree()
				c.passes(quiet)
				if sent := further(taps); len(sent) != want {
					t.Errorf("a further generation was sent to the store %d times, want %d", len(sent), want)
				}
				c.notRun(command)
				if e, ok := c.intent().EndOf(command); !byObjects && (!ok || e.Result != control.ResultCancelled) {
					t.Errorf("of the command the record has %+v", e)
				}
				if now := c.pids(); !slices.Equal(pids, now) {
					t.Errorf("the etcds had the pids %v and have %v", pids, now)
				}
				c.voters(soon, 1, 2, 3)
				w.check()
			})
		}
	}
}

// The store was too busy for a write, and before the second attempt the daemon is stopped
// for so long that what it relies on is too old, though the write itself still has time.
func TestLeaderIsStoppedBeforeItsSecondAttempt(t *testing.T) {
	t.Parallel()
	c, taps := tapped(t, options{hosts: 1})
	c.form(1)
	w := c.write()
	w.waitFor(50)
	backup := c.takeBackup()
	w.waitFor(50)
	pids := c.pids()
	reached := meet(t, taps, toTryAgain)
	command := c.restoreByCtl(backup)
	m := c.met(reached)
	c.withdraws(command, true)
	c.passes(time.Until(m.at.Add(4400 * time.Millisecond))) // five seconds less what the reads took is too short
	close(m.release)
	<-m.answer
	m.goOn(t)
	c.passes(quiet)
	if sent := further(taps); len(sent) != 0 {
		t.Errorf("a further generation was sent to the store again, %d times", len(sent))
	}
	c.notRun(command)
	if now := c.pids(); !slices.Equal(pids, now) {
		t.Errorf("the etcds had the pids %v and have %v", pids, now)
	}
	w.check()
}

// A majority is gone, and a person has the cluster go on from the third host without it.
// Before that is written, its daemon is stopped, and those who were named lost come back
// and serve. What clients wrote then is not taken back, and the command is rejected.
func TestLostHostsReturnBeforeTheWrite(t *testing.T) {
	t.Parallel()
	for _, when := range []about{toReadAgain, toWrite} {
		t.Run(string(when), func(t *testing.T) {
			t.Parallel()
			if when == toWrite && !*long {
				t.Skip("the other one is enough for every day: -e2e.long")
			}
			c, taps := tapped(t, options{hosts: 3})
			c.form(3)
			w := c.write()
			w.waitFor(100)
			survivor := c.host(1)
			ids := []string{string(c.host(2).id()), string(c.host(3).id())}
			c.host(2).crash()
			c.host(3).crash()
			c.blocked(survivor, "quorum", "missing: ", ids[0]+" (unreachable", "offered once the loss has lasted")
			reached := meet(t, taps, when)
			if r := c.recovers(survivor, "--store", c.storeURL(), "--from", string(survivor.id()), "--lost", ids[0], "--lost", ids[1], "--yes", "--wait", "1s"); r.code != cli.ExitWaiting {
				t.Fatalf("%s", r)
			}
			m := c.met(reached)
			command := c.onlyCommand()
			c.start(2, 3)
			c.host(2).serves(soon)
			c.host(3).serves(soon)
			w.waitFor(100) // which the recovery would take back
			c.leader(soon, c.host(2), survivor)
			c.ended(command, "rejected")
			if left := time.Until(m.at.Add(stopFor())); left > 0 {
				c.passes(left)
			}
			want := 0
			if when == toWrite {
				want = 1
				close(m.release)
				if status := <-m.answer; status != http.StatusPreconditionFailed {
					t.Errorf("the store answers %d to the late write, want %d", status, http.StatusPreconditionFailed)
				}
			}
			m.goOn(t)
			c.agree()
			c.passes(quiet)
			if sent := further(taps); len(sent) != want {
				t.Errorf("a further generation was sent to the store %d times, want %d", len(sent), want)
			}
			c.notRun(command)
			c.voters(soon, 1, 2, 3)
			w.check()
		})
	}
}

// onlyCommand is the name of the one command in the queue.
func (c *testCluster) onlyCommand() string {
	c.t.Helper()
	queued, err := c.folder().Commands(c.t.Context())
	if err != nil || len(queued) != 1 {
		c.t.Fatalf("in the queue is %+v (%v), want one command", queued, err)
	}
	return queued[0].Name
}

// No daemon's standard error takes anything. A restore that a person takes back right
// before it would be written is not run, not even when the log is read after all; and one
// that is wanted is run as ever.
func TestRestoreWithLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	c, taps := tapped(t, options{hosts: 3})
	var logs []func()
	for _, h := range c.hosts {
		read, write := fullPipe(t)
		h.stderr = write
		logs = append(logs, func() { go h.copyLog(read) })
	}
	t.Cleanup(func() {
		if t.Failed() { // else nobody learns what they said
			for _, show := range logs {
				show()
			}
			time.Sleep(time.Second)
		}
	})
	c.form(3)
	w := c.write()
	w.waitFor(50)
	backup := c.takeBackup()
	w.waitFor(50)
	pids := c.pids()
	asked, withdrawn := make(chan struct{}, 1), make(chan struct{})
	for _, p := range taps {
		p.on(func(call *storeCall) *storeAnswer {
			if call.again && strings.HasSuffix(call.key, commandFile) {
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
	command := c.restoreByCtl(backup)
	comes(c, asked)
	c.withdraws(command, true)
	close(withdrawn)
	c.passes(quiet)
	c.notRun(command)
	if sent := further(taps); len(sent) != 0 {
		t.Errorf("a further generation was sent to the store %d times, want never", len(sent))
	}
	if now := c.pids(); !slices.Equal(pids, now) {
		t.Errorf("the etcds had the pids %v and have %v", pids, now)
	}
	w.check()
	for _, p := range taps {
		p.on(nil)
	}

	w = c.writeUnder("before/")
	w.waitFor(20)
	wanted := c.takeBackup()
	w.end()
	c.restoreByCtl(wanted)
	c.generation(2, 1, 2, 3)
	for _, show := range logs {
		show()
	}
	c.passes(2 * time.Second)
	if in := c.intent(); in.Generation != 2 || in.Ran(command) {
		t.Errorf("generation %d; the record says that the command that was taken back was run: %t", in.Generation, in.Ran(command))
	}
	c.write().check()
}

// The store gives objects and no lists any more. A restore for which everything is ready is
// not run on what the queue was before: a person has taken it back, and no daemon can see
// that. It is not run either when the store lists again.
func TestQueueThatCannotBeListed(t *testing.T) {
	t.Parallel()
	c, taps := tapped(t, options{hosts: 3})
	c.form(3)
	w := c.write()
	w.waitFor(50)
	backup := c.takeBackup()
	w.waitFor(50)
	pids := c.pids()
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
			case call.list && strings.HasPrefix(controlFolder, call.key) || call.list && strings.HasPrefix(call.key, controlFolder):
				return unavailable()
			}
			return nil
		})
	}
	command := c.restoreByCtl(backup)
	comes(c, ready)
	leader := c.agree()
	const words = "cannot be listed"
	c.blocked(leader, words, command)
	c.withdraws(command, true)
	c.passes(20 * time.Second)
	c.blocked(leader, words)
	if r := c.etcdadm("status", "--data-dir", leader.dir); !strings.Contains(r.stdout, words) {
		t.Errorf("%s", r)
	}
	mu.Lock()
	if len(tried) != 0 {
		t.Errorf("a daemon was about to write for a command in a queue that it could not see: it read %q", tried)
	}
	healed = true
	mu.Unlock()
	eventually(t, soon, "the queue is seen again", func(ctx context.Context) error {
		r, err := c.report(ctx, leader)
		if err == nil && (r.Observation == nil || r.Observation.Unlisted != "" || len(r.Observation.Commands) > 0) {
			err = errors.New("it is not")
		}
		return err
	})
	c.passes(quiet)
	if sent := further(taps); len(sent) != 0 {
		t.Errorf("a further generation was sent to the store %d times, want never", len(sent))
	}
	c.notRun(command)
	if now := c.pids(); !slices.Equal(pids, now) {
		t.Errorf("the etcds had the pids %v and have %v", pids, now)
	}
	w.check()
}

// Between a leader's look and its write another leader writes the same generation, nonce
// and write number. Whatever the contents differ in, the leader does not take that for its
// own, no host ever keeps what the store does not have, and the change is made in the end.
func TestWriteOfARivalInBetween(t *testing.T) {
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
			c, taps := tapped(t, options{hosts: 3})
			c.form(1)
			c.start(2, 3)
			c.leader(soon, c.host(2))
			c.leader(soon, c.host(3))
			w := c.write()
			w.waitFor(20)
			folder := c.folder()
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
					differs(mine, c.host(2).id())
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
			c.configure(3)
			select {
			case status := <-in:
				if status != http.StatusPreconditionFailed {
					t.Fatalf("the store answers %d to the leader's write", status)
				}
			case <-time.After(soon):
				t.Fatal("no change of the voters is written down")
			}
			mu.Lock()
			there := *rival
			mu.Unlock()
			end := time.Now().Add(6 * time.Second)
			heard := map[int]bool{}
			for time.Now().Before(end) {
				for _, h := range c.hosts {
					kept, err := h.kept()
					if err != nil {
						t.Fatal(err)
					}
					if kept.Generation != there.Generation || kept.Write < there.Write {
						continue
					}
					heard[h.n] = true
					if err := sameRecord(&there, kept); err != nil {
						t.Fatalf("host %d keeps what the store does not have: %v", h.n, err)
					}
				}
				time.Sleep(5 * time.Millisecond) // a file tells nothing
			}
			if len(heard) == 0 {
				t.Error("no host was told of the rival's write")
			}
			if n := c.countVoters(); len(there.Next) == 0 && n != 1 {
				t.Errorf("there are %d voters, and that is written nowhere", n)
			}
			mu.Lock()
			open = true
			mu.Unlock()
			c.voters(2*soon, 1, 2, 3)
			eventually(t, soon, "all hosts keep what the store has", func(context.Context) error {
				stored := c.intent()
				for _, h := range c.hosts {
					kept, err := h.kept()
					if err == nil {
						err = sameRecord(stored, kept)
					}
					if err != nil {
						return fmt.Errorf("host %d: %w", h.n, err)
					}
				}
				return nil
			})
			if in := c.intent(); in.Generation != 1 || in.Write <= there.Write {
				t.Errorf("at the end the record is generation %d, write %d", in.Generation, in.Write)
			}
			w.check()
		})
	}
}

// countVoters is how many voters etcd has.
func (c *testCluster) countVoters() (n int) {
	c.t.Helper()
	eventually(c.t, soon, "the voters are counted", func(ctx context.Context) error {
		list, err := c.etcd().MemberList(ctx)
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
