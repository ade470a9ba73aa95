package daemon

import (
	"slices"
	"testing"

	"etcdadm.io/internal/runtime"
)

// What differs is named, and no value is told.
func TestDiffering(t *testing.T) {
	ran := runtime.Spec{Path: "/old/etcd", Args: []string{"--name=a", "--data-dir=/d", "--log-level=info", "--initial-cluster-state=new"}, Env: []string{"PATH=/bin", "ETCD_QUOTA_BACKEND_BYTES=1", "ETCD_X=secret"}}
	would := runtime.Spec{Path: "/new/etcd", Args: []string{"--name=a", "--data-dir=/d", "--log-level=debug", "--pre-vote"}, Env: []string{"PATH=/sbin", "ETCD_QUOTA_BACKEND_BYTES=2"}}
	if got := differing(ran, ran); got != nil {
		t.Errorf("the same: %v", got)
	}
	if got := differing(ran, would); !slices.Equal(got, []string{"--log-level", "--pre-vote", "ETCD_QUOTA_BACKEND_BYTES", "ETCD_X"}) {
		t.Errorf("%v", got)
	}
}
