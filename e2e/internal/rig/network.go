package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// network is a wire that a test has for itself, with a network namespace for
// each host: what one host sends to another can be lost, in both directions or
// in one, as on a real network, and nobody is told.
//
// The test itself stands on the wire (a bridge, in one more namespace): its
// clients and tools reach every host whatever is cut, and so see what each side
// of a partition does.
//
// The namespaces have no names. They live as long as this process holds them or
// a process runs in them, so the watchdog that ends the processes leaves none.
type network struct {
	wire  *namespace
	Hosts map[string]*namespace // by address
}

// NetworkPrefix is the same for every network: none knows of another.
const NetworkPrefix = "10.77.0."

// NewNetwork makes the wire, or skips the test where that is not possible.
func NewNetwork(t *testing.T) *network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("network namespaces need ip, of iproute2")
	}
	wire, err := newNamespace()
	if err != nil {
		t.Skipf("there are no network namespaces here: %v", err)
	}
	t.Cleanup(func() { wire.handle.Close() })
	if err := wire.ip("link set lo up", "link add wire type bridge", "addr add "+NetworkPrefix+"254/24 dev wire", "link set wire up"); err != nil {
		t.Skipf("there are no bridges here: %v", err)
	}
	return &network{wire: wire, Hosts: map[string]*namespace{}}
}

// Add makes a namespace with one address and plugs it in.
func (n *network) Add(t *testing.T, address string) {
	t.Helper()
	host, err := newNamespace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.handle.Close() })
	port := fmt.Sprintf("port%d", len(n.Hosts)+1)
	if err := n.wire.ip("link add "+port+" type veth peer name eth0 netns "+host.path(), "link set "+port+" master wire up"); err != nil {
		t.Fatal(err)
	}
	if err := host.ip("link set lo up", "link set eth0 up", "addr add "+address+"/24 dev eth0"); err != nil {
		t.Fatal(err)
	}
	n.Hosts[address] = host
}

// Move gives the host at one address another. Connections end for both sides as
// they do in the field: nobody answers any more.
func (n *network) Move(from, to string) error {
	host := n.Hosts[from]
	if err := host.ip("addr flush dev eth0", "addr add "+to+"/24 dev eth0"); err != nil {
		return err
	}
	delete(n.Hosts, from)
	n.Hosts[to] = host
	return nil
}

// nowhere is a station that is not on the wire.
const nowhere = "02:00:00:00:00:99"

// Cut has what one address sends to another lost. The way back stays open.
func (n *network) Cut(from, to string) error {
	return n.Hosts[from].ip("neigh replace " + to + " lladdr " + nowhere + " dev eth0 nud permanent")
}

// Uncut ends what cut did on one way.
func (n *network) Uncut(from, to string) error {
	return n.Hosts[from].ip("neigh del " + to + " dev eth0")
}

// Lose has a host lose so many of a hundred packets that arrive, by chance. It is
// the four instructions that tcpdump would call: load a random number; if it is
// below the bound, drop; else let pass.
func (n *network) Lose(address string, percent int) error {
	bound := uint64(percent) << 32 / 100
	return n.Hosts[address].Tc("qdisc add dev eth0 clsact", fmt.Sprintf(
		"filter add dev eth0 ingress bpf direct-action bytecode \"4,32 0 0 %d,53 1 0 %d,6 0 0 2,6 0 0 0\"", uint32(0xfffff000+56), bound))
}

// Mute has what a host sends to a port of others lost, and nothing else: it can be called
// there and answer, as behind a firewall that lets no connection out. It is: if IPv4, and
// TCP, and to that port, drop; else let pass. LoseNothing ends it.
func (n *network) Mute(address string, port int) error {
	return n.Hosts[address].Tc("qdisc add dev eth0 clsact", fmt.Sprintf(
		"filter add dev eth0 egress bpf direct-action bytecode \"8,40 0 0 12,21 0 5 2048,48 0 0 23,21 0 3 6,40 0 0 36,21 0 1 %d,6 0 0 2,6 0 0 0\"", port))
}

// LoseNothing ends what Lose or Mute did.
func (n *network) LoseNothing(address string) error {
	return n.Hosts[address].Tc("qdisc del dev eth0 clsact")
}

// Heal has everything arrive again.
func (n *network) Heal() error {
	for _, host := range n.Hosts {
		if err := host.ip("neigh flush dev eth0 nud permanent"); err != nil {
			return err
		}
	}
	return nil
}

// Dial connects from the wire.
func (n *network) Dial(ctx context.Context, address string) (net.Conn, error) {
	return n.wire.Dial(ctx, address)
}

// namespace is a network namespace.
type namespace struct{ handle *os.File }

func newNamespace() (*namespace, error) {
	var handle *os.File
	err := onThreadOfItsOwn(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		handle, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return &namespace{handle}, err
}

// Dial connects from the namespace.
func (n *namespace) Dial(ctx context.Context, address string) (conn net.Conn, err error) {
	inside := n.Do(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", address)
		return nil
	})
	if inside != nil {
		return nil, inside
	}
	return conn, err
}

// path is where other programs find the namespace, while this one runs.
func (n *namespace) path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.handle.Fd())
}

// Do runs a function in the namespace: the sockets that it opens and the
// processes that it starts are inside.
func (n *namespace) Do(f func() error) error {
	return onThreadOfItsOwn(func() error {
		if err := unix.Setns(int(n.handle.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return f()
	})
}

// onThreadOfItsOwn runs a function on a thread that ends with it, so that
// nothing else ever runs where the thread went.
func onThreadOfItsOwn(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked
		done <- f()
	}()
	return <-done
}

// ip runs commands of ip in the namespace.
func (n *namespace) ip(commands ...string) error { return n.batch("ip", commands...) }

// Tc runs commands of tc, which says how packets queue, in the namespace.
func (n *namespace) Tc(commands ...string) error { return n.batch("tc", commands...) }

func (n *namespace) batch(tool string, commands ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return n.Do(func() error {
		cmd := exec.CommandContext(ctx, tool, "-batch", "-")
		cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
		cmd.WaitDelay = time.Second
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w: %s", tool, strings.Join(commands, "; "), err, said)
		}
		return nil
	})
}

// spawn starts a program on a host.
func (h *Host) spawn(cmd *exec.Cmd) error {
	if h.C.Net == nil {
		return cmd.Start()
	}
	return h.C.Net.Hosts[h.Address].Do(cmd.Start)
}

// LogTime is how the daemons' logs have the time of day, for comparison.
const LogTime = "15:04:05.000"

// Partition splits the hosts into groups that do not hear each other.
func (c *Cluster) Partition(groups ...[]int) {
	c.T.Helper()
	defer func() { c.T.Logf("%s: partitioned into %v", time.Now().UTC().Format(LogTime), groups) }()
	for i, group := range groups {
		for j, other := range groups {
			if i == j {
				continue
			}
			for _, from := range group {
				for _, to := range other {
					c.Cut(from, to)
				}
			}
		}
	}
}

// Cut has host to hear nothing of host from any more, and not the other way
// round.
func (c *Cluster) Cut(from, to int) {
	c.T.Helper()
	if err := c.Net.Cut(c.Host(from).Address, c.Host(to).Address); err != nil {
		c.T.Fatal(err)
	}
}

func (c *Cluster) Heal() {
	c.T.Helper()
	if err := c.Net.Heal(); err != nil {
		c.T.Fatal(err)
	}
	c.T.Logf("%s: healed", time.Now().UTC().Format(LogTime))
}

// enter moves the calling thread to where the host is.
func (h *Host) enter() error {
	if h.C.Net == nil {
		return nil
	}
	return unix.Setns(int(h.C.Net.Hosts[h.Address].handle.Fd()), unix.CLONE_NEWNET)
}
