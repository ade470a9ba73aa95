package plan

import (
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/words"
)

// A backup of etcd-manager tells no revision, which is not revision 0.
func TestRevisionWords(t *testing.T) {
	for revision, want := range map[int64]string{0: "unknown revision", 7: "revision 7"} {
		if got := words.RevisionOf(cluster.Backup{Revision: revision}); got != want {
			t.Errorf("%d: %q", revision, got)
		}
	}
}
