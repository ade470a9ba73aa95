package cli

import (
	"strings"
	"testing"

	"etcdadm.io/cluster"
)

// What is asked of upgrade has to be one thing, and a way that is not there is
// no wish.
func TestUpgradeWords(t *testing.T) {
	for _, args := range [][]string{
		{"upgrade"}, {"upgrade", "3.7.3", "--resume"}, {"upgrade", "--resume", "--rollback"}, {"upgrade", "--rollback", "--pause-before-last"},
		{"upgrade", "three"}, {"upgrade", "3.7"}, {"upgrade", "3.7.3", "3.6.16"}, {"upgrade", "--resume", "--dry-run"},
	} {
		if s := etcdadm(t, args...); s.code != ExitUsage || !strings.Contains(s.errs, "hint") {
			t.Errorf("%v: exit %d, %s", args, s.code, s.errs)
		}
	}
}

func TestRollbackTo(t *testing.T) {
	o := &cluster.Observation{}
	if _, err := rollbackTo(o); err == nil {
		t.Error("a cluster that nobody sees has a way back")
	}
}
