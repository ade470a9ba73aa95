package rig

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// block is a range of loopback addresses that one test has for itself.
type block struct {
	prefix string // "127.a.b."
	Shift  int    // added to every port, when the usual ones are taken on this machine
}

// The ports of a host, before the shift. All are below the range that the
// kernel gives to outgoing connections.
const (
	portGRPC       = 8000
	PortClient     = 4001
	portQuarantine = 8001
	PortPeer       = 2380
	PortMetrics    = 8080
)

// reserve finds a block, by a file lock that ends with this process.
func reserve(t *testing.T) block {
	t.Helper()
	// Not below $TMPDIR: processes that were given directories of their own share the
	// addresses all the same.
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "etcdadm", "test-blocks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for try := range 200 {
		prefix := fmt.Sprintf("127.%d.%d.", 16+rand.IntN(200), rand.IntN(256))
		f, err := os.OpenFile(filepath.Join(dir, prefix+"lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		b := block{prefix: prefix, Shift: try / 20 * 100}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !b.Free() {
			f.Close()
			continue
		}
		t.Cleanup(func() { f.Close() })
		return b
	}
	t.Fatal("found no free block of loopback addresses")
	return block{}
}

func (b block) Free() bool {
	for _, port := range []int{portGRPC, PortClient, portQuarantine, PortPeer, PortMetrics} {
		l, err := net.Listen("tcp", b.At(1, port))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

func (b block) Host(n int) string { return b.prefix + strconv.Itoa(n) }

// At is the address of a port of host n, host:port.
func (b block) At(n, port int) string {
	return net.JoinHostPort(b.Host(n), strconv.Itoa(port+b.Shift))
}

// Addresses are n loopback addresses that a test has for itself, with the usual ports free on them.
func Addresses(t *testing.T, n int) (addresses []string) {
	t.Helper()
	b := reserve(t)
	if b.Shift != 0 {
		t.Skip("another program of this machine has one of the usual ports on all addresses")
	}
	for i := range n {
		addresses = append(addresses, b.Host(i+1))
	}
	return addresses
}

// Watch has the processes of a directory ended when this program ends, however that comes.
func Watch(dir string) { watch(dir) }
