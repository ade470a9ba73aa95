package daemon

import (
	"testing"

	"etcdadm.io/cluster"
)

// Only a halt, which can be taken back, waits for a word about a list of losses.
func TestAcceptsAny(t *testing.T) {
	for kind, want := range map[string]bool{
		cluster.SourceHalted: false, cluster.SourceSetAside: true, cluster.SourceSurvivor: true, cluster.SourceBackup: true,
	} {
		if got := acceptsAny(cluster.Source{Kind: kind}); got != want {
			t.Errorf("%s: %t", kind, got)
		}
	}
}
