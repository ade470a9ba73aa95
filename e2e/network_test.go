package e2e

import (
	"context"
	"errors"
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
	hosts map[string]*namespace // by address
}

// networkPrefix is the same for every network: none knows of another.
const networkPrefix = "10.77.0."

// newNetwork makes the wire, or skips the test where that is not possible.
func newNetwork(t *testing.T) *network {
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
	if err := wire.ip("link set lo up", "link add wire type bridge", "addr add "+networkPrefix+"254/24 dev wire", "link set wire up"); err != nil {
		t.Skipf("there are no bridges here: %v", err)
	}
	return &network{wire: wire, hosts: map[string]*namespace{}}
}

// add makes a namespace with one address and plugs it in.
func (n *network) add(t *testing.T, address string) {
	t.Helper()
	host, err := newNamespace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.handle.Close() })
	port := fmt.Sprintf("port%d", len(n.hosts)+1)
	if err := n.wire.ip("link add "+port+" type veth peer name eth0 netns "+host.path(), "link set "+port+" master wire up"); err != nil {
		t.Fatal(err)
	}
	if err := host.ip("link set lo up", "link set eth0 up", "addr add "+address+"/24 dev eth0"); err != nil {
		t.Fatal(err)
	}
	n.hosts[address] = host
}

// move gives the host at one address another. Connections end for both sides as
// they do in the field: nobody answers any more.
func (n *network) move(from, to string) error {
	host := n.hosts[from]
	if err := host.ip("addr flush dev eth0", "addr add "+to+"/24 dev eth0"); err != nil {
		return err
	}
	delete(n.hosts, from)
	n.hosts[to] = host
	return nil
}

// nowhere is a station that is not on the wire.
const nowhere = "02:00:00:00:00:99"

// cut has what one address sends to another lost. The way back stays open.
func (n *network) cut(from, to string) error {
	return n.hosts[from].ip("neigh replace " + to + " lladdr " + nowhere + " dev eth0 nud permanent")
}

// uncut ends what cut did on one way.
func (n *network) uncut(from, to string) error {
	return n.hosts[from].ip("neigh del " + to + " dev eth0")
}

// lose has a host lose so many of a hundred packets that arrive, by chance. It is
// the four instructions that tcpdump would call: load a random number; if it is
// below the bound, drop; else let pass.
func (n *network) lose(address string, percent int) error {
	bound := uint64(percent) << 32 / 100
	return n.hosts[address].tc("qdisc add dev eth0 clsact", fmt.Sprintf(
		"filter add dev eth0 ingress bpf direct-action bytecode \"4,32 0 0 %d,53 1 0 %d,6 0 0 2,6 0 0 0\"", uint32(0xfffff000+56), bound))
}

// loseNothing ends what lose did.
func (n *network) loseNothing(address string) error {
	return n.hosts[address].tc("qdisc del dev eth0 clsact")
}

// heal has everything arrive again.
func (n *network) heal() error {
	for _, host := range n.hosts {
		if err := host.ip("neigh flush dev eth0 nud permanent"); err != nil {
			return err
		}
	}
	return nil
}

// dial connects from the wire.
func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	return n.wire.dial(ctx, address)
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

// dial connects from the namespace.
func (n *namespace) dial(ctx context.Context, address string) (conn net.Conn, err error) {
	inside := n.do(func() error {
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

// do runs a function in the namespace: the sockets that it opens and the
// processes that it starts are inside.
func (n *namespace) do(f func() error) error {
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

// tc runs commands of tc, which says how packets queue, in the namespace.
func (n *namespace) tc(commands ...string) error { return n.batch("tc", commands...) }

func (n *namespace) batch(tool string, commands ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return n.do(func() error {
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
func (h *host) spawn(cmd *exec.Cmd) error {
	if h.c.net == nil {
		return cmd.Start()
	}
	return h.c.net.hosts[h.address].do(cmd.Start)
}

// logTime is how the daemons' logs have the time of day, for comparison.
const logTime = "15:04:05.000"

// partition splits the hosts into groups that do not hear each other.
func (c *testCluster) partition(groups ...[]int) {
	c.t.Helper()
	defer func() { c.t.Logf("%s: partitioned into %v", time.Now().UTC().Format(logTime), groups) }()
	for i, group := range groups {
		for j, other := range groups {
			if i == j {
				continue
			}
			for _, from := range group {
				for _, to := range other {
					c.cut(from, to)
				}
			}
		}
	}
}

// cut has host to hear nothing of host from any more, and not the other way
// round.
func (c *testCluster) cut(from, to int) {
	c.t.Helper()
	if err := c.net.cut(c.host(from).address, c.host(to).address); err != nil {
		c.t.Fatal(err)
	}
}

func (c *testCluster) heal() {
	c.t.Helper()
	if err := c.net.heal(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Logf("%s: healed", time.Now().UTC().Format(logTime))
}

// A network of a test is what the tests take it for: what is cut is lost in one
// direction, also on connections that are open, the test reaches every host
// all the same, and nothing is lost any more once it is healed.
func TestNetwork(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	one, two := networkPrefix+"1", networkPrefix+"2"
	n.add(t, one)
	n.add(t, two)
	packets := func(on string) net.PacketConn {
		var conn net.PacketConn
		if err := n.hosts[on].do(func() (err error) {
			conn, err = net.ListenPacket("udp", on+":2000")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	at := map[string]net.PacketConn{one: packets(one), two: packets(two)}
	arrives := func(from, to, what string, want bool) {
		t.Helper()
		target, err := net.ResolveUDPAddr("udp", to+":2000")
		if err != nil {
			t.Fatal(err)
		}
		wait := 5 * time.Second
		if !want {
			wait = 300 * time.Millisecond
		}
		at[to].SetReadDeadline(time.Now().Add(wait))
		if _, err := at[from].WriteTo([]byte(what), target); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 64)
		length, _, err := at[to].ReadFrom(got)
		if (err == nil) != want || want && string(got[:length]) != what {
			t.Errorf("%s from %s to %s: %q, %v; want it to arrive: %t", what, from, to, got[:length], err, want)
		}
	}
	arrives(one, two, "before", true)
	arrives(two, one, "before", true)
	if err := n.cut(one, two); err != nil {
		t.Fatal(err)
	}
	arrives(one, two, "cut", false)
	arrives(two, one, "the other way", true)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for address := range n.hosts {
		if _, err := n.dial(ctx, address+":2000"); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("the test does not reach %s: %v, want a refusal", address, err)
		}
	}
	if err := n.heal(); err != nil {
		t.Fatal(err)
	}
	arrives(one, two, "healed", true)
	if err := errors.Join(n.cut(one, two), n.uncut(one, two)); err != nil {
		t.Fatal(err)
	}
	arrives(one, two, "healed alone", true)

	const sent = 200 // as many as a socket holds
	if err := n.lose(two, 30); err != nil {
		t.Skipf("SKIPPED, packets cannot be lost by chance here: %v", err)
	}
	target, err := net.ResolveUDPAddr("udp", two+":2000")
	if err != nil {
		t.Fatal(err)
	}
	for range sent {
		if _, err := at[one].WriteTo([]byte("some"), target); err != nil {
			t.Fatal(err)
		}
	}
	came, got := 0, make([]byte, 64)
	for at[two].SetReadDeadline(time.Now().Add(300*time.Millisecond)) == nil {
		if _, _, err := at[two].ReadFrom(got); err != nil {
			break
		}
		came++
	}
	if came < sent*5/10 || came > sent*9/10 {
		t.Errorf("%d of %d packets arrive, and 30 %% are to be lost", came, sent)
	}
	if err := n.loseNothing(two); err != nil {
		t.Fatal(err)
	}
	arrives(one, two, "without loss", true)
}

// enter moves the calling thread to where the host is.
func (h *host) enter() error {
	if h.c.net == nil {
		return nil
	}
	return unix.Setns(int(h.c.net.hosts[h.address].handle.Fd()), unix.CLONE_NEWNET)
}
