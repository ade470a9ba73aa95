package adoption_test

import (
	"fmt"
	"testing"

	"etcdadm.io/internal/adoption"
)

// Flags are read as etcd reads them, and no secret of an image is among them.
func TestParseFlags(t *testing.T) {
	got := fmt.Sprint(adoption.ParseFlags(
		[]string{"etcd", "--name", "a", "-snapshot-count=5", "--client-cert-auth", "--listen-metrics-urls=http://127.0.0.1:2381", "--snapshot-count=7"},
		[]string{"PATH=/bin", "ETCD_SNAPSHOT_COUNT=9", "ETCD_HEARTBEAT_INTERVAL=200", "ETCD_ROOT_PASSWORD=hunter2", "ETCD_VERSION=v3.5.0", "ETCD_DEBUG="}))
	if want := "[--client-cert-auth ETCD_HEARTBEAT_INTERVAL=200 --listen-metrics-urls=http://127.0.0.1:2381 --name=a --snapshot-count=7]"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if adoption.ParseFlags([]string{"etcd"}, nil) == nil {
		t.Error("an etcd without flags is taken for one that nobody could look at")
	}
}
