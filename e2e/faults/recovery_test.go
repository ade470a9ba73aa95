package faults

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/teststore"
)

var measureFaults = flag.Int("e2e.faults.measure", 0, "measure how long the way back from each fault takes, so many times each, beside plain etcd")

// hurt is one row of the table: a fault that lasts for a time.
type hurt struct {
	name string
	hold time.Duration
	make func(b *faultBench, led, other *rig.Host) fault // led: raft leads there
	// alone is the fault for plain etcd, which has no daemon; nil: there is none.
	alone func(b *faultBench, led, other *rig.Host) fault
	// never says why plain etcd does not come back from it by itself.
	never string
}

func hurts() []hurt {
	both := func(name string, hold time.Duration, make func(b *faultBench, led, other *rig.Host) fault) hurt {
		return hurt{name: name, hold: hold, make: make, alone: make}
	}
	power := func(_ *faultBench, led, _ *rig.Host) fault { return hostKilled{led} }
	return []hurt{
		both("kill etcd, raft's leader", 0, func(_ *faultBench, led, _ *rig.Host) fault { return etcdKilled{led} }),
		both("kill etcd, a follower", 0, func(_ *faultBench, _, other *rig.Host) fault { return etcdKilled{other} }),
		{name: "kill daemon", make: func(_ *faultBench, led, _ *rig.Host) fault { return daemonKilled{led} }},
		both("kill both, raft's leader, back after 2 s", 2*time.Second, power),
		both("SIGSTOP both, raft's leader, 5 s", 5*time.Second, func(_ *faultBench, led, _ *rig.Host) fault {
			return &paused{h: led, daemon: true, etcd: true}
		}),
		both("raft's leader cut off, 5 s", 5*time.Second, func(b *faultBench, led, _ *rig.Host) fault { return b.apart("cut off", led) }),
		both("10 % loss at raft's leader, 5 s", 5*time.Second, func(_ *faultBench, led, _ *rig.Host) fault { return lossy{led, 10} }),
		both("200 kbit/s from raft's leader, 5 s", 5*time.Second, func(_ *faultBench, led, _ *rig.Host) fault { return slowLink{led, 200} }),
		both("disk of raft's leader stalled, 5 s", 5*time.Second, func(_ *faultBench, led, _ *rig.Host) fault { return &diskStalled{h: led} }),
		both("disk of raft's leader full, 5 s", 5*time.Second, func(_ *faultBench, led, _ *rig.Host) fault { return diskFull{led} }),
		{name: "disk of raft's leader wiped", make: func(_ *faultBench, led, _ *rig.Host) fault { return wiped{led, false} }, alone: power,
			never: "never by itself"},
		{name: "database of raft's leader damaged", make: func(_ *faultBench, led, _ *rig.Host) fault { return damaged{led, false} }, alone: power,
			never: "never by itself"},
		{name: "store answers 503, 5 s", hold: 5 * time.Second, make: func(*faultBench, *rig.Host, *rig.Host) fault { return storeFails{teststore.Refuse, 1} }},
	}
}

// times are what one measure came to; zero where nothing was seen.
type times struct{ detected, decided, whole, stall time.Duration }

// TestRecoveryTimes prints a table: from the fault until a daemon says something,
// until it decides on a step, until three voters answer again, and the longest
// time without an acknowledged write; then the same for three members of plain
// etcd under the same fault on hosts of the same kind. There, whoever died is
// started again at once, as a supervisor does, and nothing else is done.
func TestRecoveryTimes(t *testing.T) {
	if *measureFaults == 0 {
		t.Skip("a measure, no test: -e2e.faults.measure=3")
	}
	ours := newFaultBench(t, rig.Options{Hosts: 3, Flags: []string{"--dead-after=8s", "--backup-interval=0", "--hashkv-interval=0"}})
	ours.Configure(3)
	ours.Start(1, 2, 3)
	plain := newFaultBench(t, rig.Options{Hosts: 3})
	plain.runAlone()
	for _, b := range []*faultBench{ours, plain} {
		b.Voters(2*rig.Soon, 1, 2, 3)
	}
	t.Log("TABLE | fault | detected | decided | full strength | longest write stall | etcd alone: full strength | longest write stall |")
	t.Log("TABLE |---|---|---|---|---|---|---|")
	for _, h := range hurts() {
		var mine, theirs []times
		for range *measureFaults {
			mine = append(mine, ours.measured(h.hold, h.make))
			if h.alone != nil {
				theirs = append(theirs, plain.measured(h.hold, h.alone))
			}
		}
		alone := "no such thing | –"
		if h.alone != nil {
			whole := median(theirs, func(t times) time.Duration { return t.whole })
			if h.never != "" {
				whole = h.never
			}
			alone = whole + " | " + median(theirs, func(t times) time.Duration { return t.stall })
		}
		t.Logf("TABLE | %s | %s | %s | %s | %s | %s |", h.name, median(mine, func(t times) time.Duration { return t.detected }),
			median(mine, func(t times) time.Duration { return t.decided }), median(mine, func(t times) time.Duration { return t.whole }),
			median(mine, func(t times) time.Duration { return t.stall }), alone)
	}
}

// median shows the middle of the times and, behind it, the longest.
func median(of []times, what func(times) time.Duration) string {
	var all []time.Duration
	for _, one := range of {
		if d := what(one); d > 0 {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return "–"
	}
	slices.Sort(all)
	shown := fmt.Sprintf("%.2f s", all[(len(all)-1)/2].Seconds())
	if last := all[len(all)-1]; len(all) > 1 && last > all[(len(all)-1)/2] {
		shown += fmt.Sprintf(" (%.2f)", last.Seconds())
	}
	return shown
}

// runAlone starts plain etcd on the hosts, in place of daemons.
func (b *faultBench) runAlone() {
	b.T.Helper()
	var initial []string
	for _, h := range b.Hosts {
		initial = append(initial, fmt.Sprintf("m%d=%s://%s", h.N, h.Scheme(), b.Block.At(h.Place, rig.PortPeer)))
	}
	for _, h := range b.Hosts {
		peer := fmt.Sprintf("http://%s", b.Block.At(h.Place, rig.PortPeer))
		h.Alone = []string{testetcd.Binary(b.T, b.Options.Version).Etcd, fmt.Sprintf("--name=m%d", h.N), "--data-dir=" + h.Dir + "/data",
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
			"--listen-client-urls=" + h.ClientURL(), "--advertise-client-urls=" + h.ClientURL(),
			"--initial-cluster=" + strings.Join(initial, ","), "--initial-cluster-token=alone"}
		h.Start()
	}
}

// measured injects a fault, heals it after a time, and takes the times.
func (b *faultBench) measured(hold time.Duration, make func(b *faultBench, led, other *rig.Host) fault) times {
	t := b.T
	t.Helper()
	b.Voters(wholeWithin, 1, 2, 3)
	led := b.RaftLeader(1, 2, 3)
	other := b.Host(rig.Without(3, led)[0])
	if b.Hosts[0].Alone == nil {
		b.Agree()
	}
	w := b.Write()
	defer w.End()
	w.WaitFor(30)
	marks := map[*rig.Host]int{}
	for _, h := range b.Hosts {
		marks[h] = h.Mark()
	}
	f := make(b, led, other)
	began := time.Now()
	err := f.Inject(b)
	timer := time.NewTimer(hold)
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
	err = errors.Join(err, f.Heal(b))
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	took := times{}
	b.wholeAgain()
	took.whole = time.Since(began)
	w.WaitFor(30)
	w.End()
	w.Mu.Lock()
	took.stall = w.Longest
	w.Mu.Unlock()
	if b.Hosts[0].Alone == nil {
		took.detected, took.decided = b.told(began, marks)
	}
	t.Logf("%s: %s: %+v", map[bool]string{true: "etcd alone", false: "ours"}[b.Hosts[0].Alone != nil], f, took)
	return took
}

// wholeAgain waits until there are three voters, and each answers a linearizable
// read.
func (b *faultBench) wholeAgain() {
	b.T.Helper()
	rig.Eventually(b.T, wholeWithin, "three voters that answer", func(ctx context.Context) error {
		for _, h := range b.Hosts {
			if h.Alone != nil {
				h.RestartAlone()
			}
			if err := h.Votes(ctx, 3); err != nil {
				return fmt.Errorf("host %d: %w", h.N, err)
			}
		}
		return nil
	})
}

// What daemons say all the time, or only pass on.
var (
	saysNothing = regexp.MustCompile(`msg="?(etcd's log|carried out|backup|decision rule=(backup|upkeep|drill))`)
	saidAt      = regexp.MustCompile(`^time=(\S+) `)
)

// told is when a daemon said something first, and when one decided on a step.
func (b *faultBench) told(began time.Time, marks map[*rig.Host]int) (detected, decided time.Duration) {
	b.T.Helper()
	earlier := func(known *time.Duration, at time.Duration) {
		if at > 0 && (*known == 0 || at < *known) {
			*known = at
		}
	}
	for _, h := range b.Hosts {
		data, err := os.ReadFile(h.Log)
		if err != nil {
			b.T.Fatal(err)
		}
		for line := range bytes.Lines(data[marks[h]:]) {
			m := saidAt.FindSubmatch(line)
			if m == nil || saysNothing.Match(line) {
				continue
			}
			at, err := time.Parse(time.RFC3339, string(m[1]))
			if err != nil {
				continue
			}
			earlier(&detected, at.Sub(began))
			if bytes.Contains(line, []byte("msg=decision")) && bytes.Contains(line, []byte(" action=")) {
				earlier(&decided, at.Sub(began))
			}
		}
	}
	return detected, decided
}
