package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host"
	"etcdadm.io/internal/hostsfile"
)

// The block of etcd-manager names all of its hosts, and its daemons are never heard here:
// their lines stay, since raft's leader may have no other way to their members.
func TestHostsFileOfEtcdManagerStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	const head = "127.0.0.1\tlocalhost\n# Begin host entries managed by etcd-manager[c] - do not edit\n"
	const others = "10.0.0.2\tetcd-b.internal\n10.0.0.3\tetcd-c.internal\n"
	if err := os.WriteFile(path, []byte(head+"10.0.0.9\tetcd-a.internal\n"+others+"# End host entries managed by etcd-manager[c]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	cfg := Config{ClusterName: "c", Address: "10.0.0.1", GRPCPort: 3996, DNSSuffix: ".internal", HostsFile: path}
	d := &daemon{id: "etcd-a", log: log, cfg: cfg, host: host.New(host.Options{ID: "etcd-a", Log: log})}
	want := head + "10.0.0.1\tetcd-a.internal\n" + others
	var kept []string
	for range 3 {
		var err error
		if kept, err = d.keepNames(t.Context(), hostsfile.File{Path: path, Cluster: "c"}, kept); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(data), want) {
			t.Errorf("%v, the file is\n%s\nwant\n%s", err, data, want)
		}
	}
}

// A line belongs to a member by its name, and else by its URLs: one that never started
// has no name.
func TestNamesOfMembers(t *testing.T) {
	c := Config{DNSSuffix: ".internal"}
	members := []cluster.Member{
		{Name: "etcd-a", PeerURLs: []string{"https://10.0.0.1:2380"}},
		{PeerURLs: []string{"https://etcd-b.internal:2380"}},
	}
	for name, want := range map[string]bool{"etcd-a.internal": true, "etcd-b.internal": true, "etcd-c.internal": false, "etcd-a": false} {
		if got := c.names(members, name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
