package testetcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Ports are taken from below the range that the kernel gives to outgoing
// connections (32768 and up), or one of those could be sitting on a port that a
// member wants back after a restart.
const (
	portMin   = 12000
	portMax   = 31999
	portTries = 500
)

// Port is a TCP port on loopback that no other test process is given while it
// is reserved, also while nobody listens on it.
type Port struct {
	Number int
	unlock func()
}

// Release gives the port back.
func (p *Port) Release() { p.unlock() }

// FreePort reserves a port for the time of a test.
func FreePort(t testing.TB) int {
	t.Helper()
	p, err := ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	return p.Number
}

// ReservePort reserves a port by a file lock, which ends with the process at
// the latest, after seeing that nobody listens on it.
func ReservePort() (*Port, error) {
	dir, err := portLocks()
	if err != nil {
		return nil, fmt.Errorf("reserve port: %w", err)
	}
	for range portTries {
		number := portMin + rand.IntN(portMax-portMin+1)
		unlock, err := tryLock(filepath.Join(dir, strconv.Itoa(number)))
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reserve port: %w", err)
		}
		if portIsFree(number) {
			return &Port{Number: number, unlock: unlock}, nil
		}
		unlock()
	}
	return nil, fmt.Errorf("reserve port: none of %d tried between %d and %d is free", portTries, portMin, portMax)
}

// portLocks is where the locks lie. It is not below $TMPDIR: tests that were given
// directories of their own for what they write share the ports all the same, and a
// member that is down for a moment would find its port taken.
func portLocks() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "etcdadm", "test-ports")
	return dir, os.MkdirAll(dir, 0o700)
}

func portIsFree(number int) bool {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", number))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
