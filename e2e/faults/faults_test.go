package faults

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/teststore"
)

// fault is one thing that goes wrong. Inject makes it so, Heal ends it; what
// cannot be taken back (a process that was killed) is put where a supervisor or
// a person would put it. Both are for the goroutine of the test.
type fault interface {
	Inject(b *faultBench) error
	Heal(b *faultBench) error
	fmt.Stringer
}

// signalAll sends a signal to processes, of which some may have ended.
func signalAll(sig syscall.Signal, pids ...int) error {
	var all error
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			all = errors.Join(all, fmt.Errorf("send %s to %d: %w", sig, pid, err))
		}
	}
	return all
}

// again starts the daemon of a host if it does not run, as a supervisor would.
func (b *faultBench) again(h *rig.Host) error {
	if !h.Running() {
		h.Start()
	}
	return nil
}

// daemonKilled is kill -9 of a daemon; its etcd is left.
type daemonKilled struct{ h *rig.Host }

func (f daemonKilled) Inject(*faultBench) error {
	if f.h.Running() {
		f.h.Kill()
	}
	return nil
}
func (f daemonKilled) Heal(b *faultBench) error { return b.again(f.h) }
func (f daemonKilled) String() string           { return fmt.Sprintf("daemon of host %d killed", f.h.N) }

// etcdKilled is kill -9 of etcd, whose daemon runs on.
type etcdKilled struct{ h *rig.Host }

func (f etcdKilled) Inject(*faultBench) error {
	return signalAll(syscall.SIGKILL, f.h.EtcdPIDs()...)
}
func (f etcdKilled) Heal(*faultBench) error { return nil }
func (f etcdKilled) String() string         { return fmt.Sprintf("etcd of host %d killed", f.h.N) }

// hostKilled ends daemon and etcd at once, as a power cut does.
type hostKilled struct{ h *rig.Host }

func (f hostKilled) Inject(*faultBench) error { f.h.Crash(); return nil }
func (f hostKilled) Heal(b *faultBench) error { return b.again(f.h) }
func (f hostKilled) String() string           { return fmt.Sprintf("host %d without power", f.h.N) }

// paused is SIGSTOP for the daemon, etcd, or both: they keep their connections
// and say nothing.
type paused struct {
	h            *rig.Host
	daemon, etcd bool
	pids         []int
}

func (f *paused) Inject(*faultBench) error {
	if f.daemon && f.h.Running() {
		f.pids = append(f.pids, f.h.Cmd.Process.Pid)
	}
	if f.etcd {
		f.pids = append(f.pids, f.h.EtcdPIDs()...)
	}
	return signalAll(syscall.SIGSTOP, f.pids...)
}
func (f *paused) Heal(*faultBench) error { return signalAll(syscall.SIGCONT, f.pids...) }
func (f *paused) String() string {
	what := map[[2]bool]string{{true, false}: "daemon", {false, true}: "etcd", {true, true}: "daemon and etcd"}[[2]bool{f.daemon, f.etcd}]
	return fmt.Sprintf("%s of host %d stand still", what, f.h.N)
}

// way is one direction between two places on the wire.
type way struct{ from, to int }

// cutOff has everything lost on some ways.
type cutOff struct {
	what string
	ways []way
}

func (f cutOff) Inject(b *faultBench) error {
	for _, w := range f.ways {
		if err := b.Net.Cut(b.Block.Host(w.from), b.Block.Host(w.to)); err != nil {
			return err
		}
	}
	return nil
}

func (f cutOff) Heal(b *faultBench) error {
	for _, w := range f.ways {
		if err := b.Net.Uncut(b.Block.Host(w.from), b.Block.Host(w.to)); err != nil {
			return err
		}
	}
	return nil
}
func (f cutOff) String() string { return f.what }

// between are the ways between two groups of places, in both directions.
func between(these, those []int) []way {
	var ways []way
	for _, a := range these {
		for _, b := range those {
			ways = append(ways, way{a, b}, way{b, a})
		}
	}
	return ways
}

// apart cuts a group of hosts off from all others; clients and store reach both.
func (b *faultBench) apart(what string, group ...*rig.Host) cutOff {
	var in, out []int
	for _, h := range b.Hosts {
		if slices.Contains(group, h) {
			in = append(in, h.N)
		} else {
			out = append(out, h.N)
		}
	}
	return cutOff{fmt.Sprintf("%s: hosts %v cut off from %v", what, in, out), between(in, out)}
}

// Split cuts groups of hosts off from each other; a host of no group is heard by all.
func (b *faultBench) Split(what string, groups ...[]*rig.Host) cutOff {
	f := cutOff{what: what + ":"}
	numbers := make([][]int, len(groups))
	for i, group := range groups {
		for _, h := range group {
			numbers[i] = append(numbers[i], h.N)
		}
		f.what += fmt.Sprintf(" %v", numbers[i])
		for _, before := range numbers[:i] {
			f.ways = append(f.ways, between(before, numbers[i])...)
		}
	}
	return f
}

// alone cuts every host off from every other.
func (b *faultBench) alone() cutOff {
	var ways []way
	for _, from := range b.Hosts {
		for _, to := range b.Hosts {
			if from != to {
				ways = append(ways, way{from.N, to.N})
			}
		}
	}
	return cutOff{"full partition: every host alone", ways}
}

// deaf has one host hear nothing of another, which still hears it.
func deaf(to, of *rig.Host) cutOff {
	return cutOff{fmt.Sprintf("one way: host %d does not hear host %d", to.N, of.N), []way{{of.N, to.N}}}
}

// fromStore cuts hosts off from the store.
func fromStore(hosts ...*rig.Host) cutOff {
	var in []int
	for _, h := range hosts {
		in = append(in, h.N)
	}
	return cutOff{fmt.Sprintf("hosts %v cut off from the store", in), between(in, []int{storePlace})}
}

// lossy has a host lose so many percent of the packets that arrive.
type lossy struct {
	h       *rig.Host
	percent int
}

func (f lossy) Inject(b *faultBench) error { return b.Net.Lose(f.h.Address, f.percent) }
func (f lossy) Heal(b *faultBench) error   { return b.Net.LoseNothing(f.h.Address) }
func (f lossy) String() string {
	return fmt.Sprintf("host %d loses %d %% of what arrives", f.h.N, f.percent)
}

// slowLink bounds what a host sends, and has it wait in a queue.
type slowLink struct {
	h    *rig.Host
	kbit int
}

func (f slowLink) Inject(b *faultBench) error {
	return b.Net.Hosts[f.h.Address].Tc(fmt.Sprintf("qdisc add dev eth0 root tbf rate %dkbit burst 16kb latency 400ms", f.kbit))
}
func (f slowLink) Heal(b *faultBench) error {
	return b.Net.Hosts[f.h.Address].Tc("qdisc del dev eth0 root")
}
func (f slowLink) String() string {
	return fmt.Sprintf("host %d sends %d kbit/s at most", f.h.N, f.kbit)
}

// diskFull takes all the room of a host's disk at once.
type diskFull struct{ h *rig.Host }

func (f diskFull) path() string { return filepath.Join(f.h.Dir, "of-somebody-else") }

func (f diskFull) Inject(*faultBench) error {
	file, err := os.OpenFile(f.path(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	var st unix.Statfs_t
	if err := unix.Statfs(f.h.Dir, &st); err != nil {
		return fmt.Errorf("see how much room the disk has: %w", err)
	}
	size := int64(0)
	for step := int64(st.Bfree) * st.Bsize; step >= st.Bsize; {
		if err := unix.Fallocate(int(file.Fd()), 0, size, step); err != nil {
			step /= 2
			continue
		}
		size += step
	}
	return nil
}
func (f diskFull) Heal(b *faultBench) error {
	if err := os.Remove(f.path()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return b.again(f.h)
}
func (f diskFull) String() string { return fmt.Sprintf("disk of host %d full", f.h.N) }

// diskStalled has every write to a host's disk wait.
type diskStalled struct {
	h    *rig.Host
	thaw func()
}

func (f *diskStalled) Inject(*faultBench) error { f.thaw = f.h.Freeze(); return nil }
func (f *diskStalled) Heal(*faultBench) error   { f.thaw(); return nil }
func (f *diskStalled) String() string           { return fmt.Sprintf("disk of host %d stands still", f.h.N) }

// wiped is a host that comes back with an empty disk.
type wiped struct {
	h    *rig.Host
	keep bool // the host's ID
}

func (f wiped) Inject(*faultBench) error { f.h.Crash(); f.h.Wipe(f.keep); return nil }
func (f wiped) Heal(b *faultBench) error { return b.again(f.h) }
func (f wiped) String() string {
	return fmt.Sprintf("disk of host %d empty, its ID kept: %t", f.h.N, f.keep)
}

// damaged is a host that comes back with a file of its member overwritten.
type damaged struct {
	h   *rig.Host
	wal bool // the log; else the database
}

func (f damaged) Inject(*faultBench) error {
	f.h.Crash()
	pattern := filepath.Join(f.h.Dir, "data", "*", "member", "snap", "db")
	if f.wal {
		pattern = filepath.Join(f.h.Dir, "data", "*", "member", "wal", "*.wal")
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, name := range files { // none: it holds no member
		if err := os.WriteFile(name, bytes.Repeat([]byte("damaged "), 4096), 0o600); err != nil {
			return err
		}
	}
	return nil
}
func (f damaged) Heal(b *faultBench) error { return b.again(f.h) }
func (f damaged) String() string {
	return fmt.Sprintf("%s of host %d damaged", map[bool]string{true: "log", false: "database"}[f.wal], f.h.N)
}

// clockAhead puts a daemon's clock ahead of the others, or behind.
type clockAhead struct {
	h  *rig.Host
	by time.Duration
}

func (f clockAhead) Inject(*faultBench) error {
	if f.h.Running() {
		f.h.SetClock(f.by)
	}
	return nil
}
func (f clockAhead) Heal(*faultBench) error {
	if f.h.Running() {
		f.h.SetClock(0)
	}
	return nil
}
func (f clockAhead) String() string {
	return fmt.Sprintf("clock of the daemon of host %d ahead by %s", f.h.N, f.by)
}

// storeFails has the store answer one of so many requests as it should not.
type storeFails struct {
	how   teststore.Fault
	every int
}

func (f storeFails) Inject(b *faultBench) error {
	requests := make(chan int, 1)
	requests <- 0
	b.proxy.Inject(func(*http.Request) teststore.Fault {
		n := <-requests + 1
		requests <- n
		if n%f.every == 0 {
			return f.how
		}
		return teststore.Pass
	})
	return nil
}
func (f storeFails) Heal(b *faultBench) error { b.proxy.Inject(nil); return nil }
func (f storeFails) String() string {
	how := map[teststore.Fault]string{teststore.Lose: "does it and loses the answer", teststore.Drop: "drops", teststore.Refuse: "says 503 to",
		teststore.Fail: "says 500 to", teststore.Hang: "never answers", teststore.Cut: "breaks off in the middle of"}[f.how]
	return fmt.Sprintf("store %s one request of %d", how, f.every)
}

// storeSlow has the store think about each request.
type storeSlow struct{ thinks time.Duration }

func (f storeSlow) Inject(b *faultBench) error {
	b.proxy.Inject(func(r *http.Request) teststore.Fault {
		select {
		case <-r.Context().Done():
		case <-time.After(f.thinks):
		}
		return teststore.Pass
	})
	return nil
}
func (f storeSlow) Heal(b *faultBench) error { b.proxy.Inject(nil); return nil }
func (f storeSlow) String() string           { return "store thinks for " + f.thinks.String() }
