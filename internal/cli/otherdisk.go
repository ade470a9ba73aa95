package cli

import (
	"fmt"
	"net"
	"path/filepath"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/runtime"
)

// otherDisk refuses to ask by a data directory that is not this machine's: nobody runs a
// daemon on it here, and the one that wrote it had an address which this machine has not.
// Such is an image of another host's disk. Whoever answers at that address is another host,
// mostly of another cluster, and is neither asked nor told anything on its behalf. What
// cannot be found out refuses nothing.
func (r *reach) otherDisk(a console.Access) error {
	const least = "move that directory away to make this a new host"
	if r.clusterName != "" && r.clusterName != a.Cluster {
		return &Failure{Code: ExitNoCluster, Err: fmt.Errorf("%s is the data directory of cluster %q, and %q was named; nobody was asked", r.dataDir, a.Cluster, r.clusterName),
			Advice: "name the --data-dir of that cluster's daemon, or leave out --cluster-name; " + least}
	}
	if len(a.Endpoints) == 0 {
		return nil
	}
	if own, known := daemon.OnThisMachine(a.Endpoints[0]); own || !known {
		return nil
	}
	wrote, _, _ := net.SplitHostPort(a.Endpoints[0])
	if held, err := runtime.StateDirHeld(filepath.Join(r.dataDir, "etcdadm")); held || err != nil {
		return nil
	}
	of := "the daemon"
	if id, err := datadir.KnownID(r.dataDir); err == nil {
		of = "host " + string(id)
	}
	dir := cluster.ShellWord(filepath.Clean(r.dataDir))
	asks := fmt.Sprintf("etcdadm status --endpoint %s --cluster-name %s", a.Endpoints[0], cluster.ShellWord(a.Cluster))
	if a.Credentials != "" {
		asks += " --credentials " + cluster.ShellWord(a.Credentials)
	}
	return &Failure{Code: ExitNoCluster,
		Err:    fmt.Errorf("%s is the data directory of %s of cluster %q at %s, which is no address of this machine, and no daemon runs on it here; nobody was asked", r.dataDir, of, a.Cluster, wrote),
		Advice: fmt.Sprintf("if this machine is that host with another address, start its daemon. To ask that cluster from here: %s. Only if the disk is a copy, as of a machine's image, set it aside before this host's own daemon starts: mv %s %s.aside", asks, dir, dir)}
}
