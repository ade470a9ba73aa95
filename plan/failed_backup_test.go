package plan

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/upkeep"
)

// TestFailedBackupStandsUntilOneSucceeds: a try that begins is no success, and ends no blocker of the one before.
func TestFailedBackupStandsUntilOneSucceeds(t *testing.T) {
	const interval = time.Hour
	failedAgo := func(h *cluster.HostReport, ago time.Duration) *cluster.Taken {
		return &cluster.Taken{Error: "denied", Began: h.Clock.Add(-ago), Ended: h.Clock.Add(-ago)}
	}
	for name, c := range map[string]struct {
		newest time.Duration // ago; 0: none
		taken  func(h *cluster.HostReport) *cluster.Taken
		says   bool
	}{
		"it failed just now":                {0, func(h *cluster.HostReport) *cluster.Taken { return failedAgo(h, time.Second) }, true},
		"it failed, and is tried again now": {0, func(h *cluster.HostReport) *cluster.Taken { return failedAgo(h, step.BackupRetry) }, true},
		"it failed, and is being tried again": {0, func(h *cluster.HostReport) *cluster.Taken {
			n := failedAgo(h, time.Minute).Next(h.Clock, "periodic", "")
			return &n
		}, true},
		"the first one is being taken": {0, func(h *cluster.HostReport) *cluster.Taken {
			n := (*cluster.Taken)(nil).Next(h.Clock, "periodic", "")
			return &n
		}, false},
		"another one has succeeded since":       {time.Second, func(h *cluster.HostReport) *cluster.Taken { return failedAgo(h, 30*time.Second) }, false},
		"one for a command failed, none is due": {30 * time.Minute, func(h *cluster.HostReport) *cluster.Taken { return failedAgo(h, step.BackupRetry) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := step.Look(decision.Goal{Kind: decision.Converge}, then(formedSight, of("b", func(h *cluster.HostReport) { h.Taken = c.taken(h) }), func(o *cluster.Observation) {
				o.Backups = cluster.BackupsView{Interval: interval, At: o.At}
				if c.newest > 0 {
					o.Backups.Newest = []cluster.Backup{{Name: "B", At: o.At.Add(-c.newest), Version: version("3.6.16")}}
				}
			})(t))
			_ = upkeep.BackUp(v)
			if says := len(v.Notices) == 1 && v.Notices[0].Code == "backup-failed"; says != c.says {
				t.Errorf("said %+v", v.Notices)
			}
		})
	}
}
