package sight

import (
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// NewestBackup is when the newest backup in the store was taken, by the clock of
// the host that took it.
func (v *Sight) NewestBackup() (last time.Time) {
	for _, b := range v.Obs.Backups.Newest {
		last = v.Newer(last, b.At)
	}
	return last
}

// LastTaken is the newest try of a backup for a command, on any host in sight, and
// when it began by the leader's clock; nil: there is none.
func (v *Sight) LastTaken(command string) (best *cluster.Taken, began time.Time) {
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if h.Taken == nil || h.Taken.Command != command {
			continue
		}
		if at := v.LeadersTime(h, h.Taken.Began); best == nil || at.After(began) {
			best, began = h.Taken, at
		}
	}
	return best, began
}

// BackingUp reports whether a host takes a backup, and has not been at it for too long.
func (v *Sight) BackingUp() bool {
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if t := h.Taken; t != nil && t.Running && v.Obs.At.Sub(v.LeadersTime(h, t.Began)) < BackupTry {
			return true
		}
	}
	return false
}

// LastBackup is the newest that is known of, also before the store was listed
// again, and how old it is: by the clock of the host that took it, as long as that
// remembers it, or one of a host whose clock is off would never be fresh.
func LastBackup(v *Sight) (newest cluster.Backup, age time.Duration) {
	age = LongAgo
	for _, b := range v.Obs.Backups.Newest {
		if a := v.Obs.At.Sub(v.Newer(time.Time{}, b.At)); a < age {
			newest, age = b, a
		}
	}
	for i := range v.Obs.Hosts {
		h := &v.Obs.Hosts[i]
		if h.Taken == nil || h.Taken.Backup == nil {
			continue
		}
		if a := v.Ago(h, h.Taken.Began); a < age {
			newest, age = *h.Taken.Backup, a
		}
	}
	return newest, age
}

// Unsaved reports whether the generation was made from data, and there is no backup of it. The
// newest one is then of what was given up, and after a loss it is the first that
// somebody would take.
func Unsaved(v *Sight) bool {
	in := v.Intent
	if in == nil || in.State != cluster.IntentFounded || !in.Source.FromData() || in.Quarantined {
		return false
	}
	// Clocks may be apart, and each generation has a cluster ID of its own; only
	// where none was recorded the time has to do, and never for what it was made from.
	ofIt := func(b cluster.Backup) bool {
		if b.Cluster != 0 {
			return b.Cluster == in.Cluster
		}
		return b.Name != in.Source.Backup && !b.At.Before(time.Unix(0, in.Timestamp))
	}
	return !slices.ContainsFunc(v.Obs.Backups.Newest, ofIt) && !slices.ContainsFunc(v.Obs.Hosts, func(h cluster.HostReport) bool {
		return h.Taken != nil && h.Taken.Backup != nil && ofIt(*h.Taken.Backup)
	})
}

const (
	// BackupTry is how long a new generation waits for the backup of the
	// running cluster before it.
	BackupTry = 2 * time.Minute
)

// BackupFresh is how old the newest backup may be when the membership is
// changed on purpose.
const BackupFresh = 5 * time.Minute
