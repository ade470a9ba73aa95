package daemon

import (
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/pki"
	"github.com/google/go-cmp/cmp"
)

// A person's tool is told of certificates where there are some, and of none where the
// daemon, or etcd, speaks without TLS.
func TestAccess(t *testing.T) {
	c := &Config{
		ClusterName: "blue", Address: "127.0.0.1", BackupStore: "s3://b/x?secretKey=hidden", ControlStore: "kubernetes://team/main", LeavesDir: "/leaves", PKIDir: "/pki",
		ReleaseDirs: []string{"/r"},
	}
	urls := cluster.URLs{Client: []string{"https://127.0.0.1:4001"}}
	plain := console.Access{Cluster: "blue", Endpoints: []string{c.Endpoint()}, Etcd: console.EtcdAccess{Endpoints: urls.Client}, Settings: &console.Settings{
		URLs: urls, ControlStore: "kubernetes://team/main", Store: "s3://b/x", Secret: true, Leaves: "/leaves", Releases: []string{"/r"},
	}}
	daemons, etcd := plain, plain
	daemons.Credentials = "/data/etcdadm/pki/operator"
	etcd.Etcd.CA, etcd.Etcd.Cert, etcd.Etcd.Key = "/data/etcdadm/pki/etcdctl/ca.crt", "/data/etcdadm/pki/etcdctl/etcdadm.crt", "/data/etcdadm/pki/etcdctl/etcdadm.key"
	for _, x := range []struct {
		k    *certs
		want console.Access
	}{
		{&certs{dataDir: "/data"}, plain},
		{&certs{dataDir: "/data", daemons: &pki.Live{}}, daemons},
		{&certs{dataDir: "/data", etcdTLS: true}, etcd},
	} {
		if diff := cmp.Diff(x.want, x.k.access(c, urls)); diff != "" {
			t.Error(diff)
		}
	}
}
