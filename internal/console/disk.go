package console

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/runtime"
)

// ErrOtherDisk says that a data directory is another machine's. Nobody was asked.
var ErrOtherDisk = errors.New("nobody was asked")

// DiskError is ErrOtherDisk with the way out.
type DiskError struct {
	Problem string
	Advice  string
}

func (e *DiskError) Error() string { return e.Problem + "; " + ErrOtherDisk.Error() }

// Unwrap gives ErrOtherDisk.
func (e *DiskError) Unwrap() error { return ErrOtherDisk }

// Hint is the way out.
func (e *DiskError) Hint() string { return e.Advice }

// CheckDisk refuses to ask by a data directory that is not this machine's: nobody runs a
// daemon on it here, and the one that wrote it had an address which this machine has not.
// Such is an image of another host's disk. Whoever answers at that address is another host,
// mostly of another cluster, and is neither asked nor told anything on its behalf. What
// cannot be found out refuses nothing. Named is the cluster that is meant; empty: whichever it is.
func CheckDisk(dataDir string, a Access, named string) error {
	const least = "move that directory away to make this a new host"
	if named != "" && named != a.Cluster {
		return &DiskError{fmt.Sprintf("%s is the data directory of cluster %q, and %q was named", dataDir, a.Cluster, named),
			"name the --data-dir of that cluster's daemon, or leave out --cluster-name; " + least}
	}
	if len(a.Endpoints) == 0 {
		return nil
	}
	if own, known := OnThisMachine(a.Endpoints[0]); own || !known {
		return nil
	}
	wrote, _, _ := net.SplitHostPort(a.Endpoints[0])
	if held, err := runtime.StateDirHeld(filepath.Join(dataDir, "etcdadm")); held || err != nil {
		return nil
	}
	of := "the daemon"
	if id, err := datadir.KnownID(dataDir); err == nil {
		of = "host " + string(id)
	}
	dir := cluster.ShellWord(filepath.Clean(dataDir))
	asks := fmt.Sprintf("etcdadm status --endpoint %s --cluster-name %s", a.Endpoints[0], cluster.ShellWord(a.Cluster))
	if a.Credentials != "" {
		asks += " --credentials " + cluster.ShellWord(a.Credentials)
	}
	return &DiskError{fmt.Sprintf("%s is the data directory of %s of cluster %q at %s, which is no address of this machine, and no daemon runs on it here", dataDir, of, a.Cluster, wrote),
		fmt.Sprintf("if this machine is that host with another address, start its daemon. To ask that cluster from here: %s. Only if the disk is a copy, as of a machine's image, set it aside before this host's own daemon starts: mv %s %s.aside", asks, dir, dir)}
}

// OnThisMachine reports whether an endpoint is at an address of this machine. Known is false
// where that cannot be said, as of a name.
func OnThisMachine(endpoint string) (own, known bool) {
	at, _, err := net.SplitHostPort(endpoint)
	ip := net.ParseIP(at)
	if err != nil || ip == nil || ip.IsUnspecified() {
		return false, false
	}
	if ip.IsLoopback() {
		return true, true
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false, false
	}
	for _, a := range addresses {
		if n, is := a.(*net.IPNet); is && n.IP.Equal(ip) {
			return true, true
		}
	}
	return false, true
}
