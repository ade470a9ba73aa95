package sight

import (
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/path"
)

// Change is the question for [FindPath].
func Change(v *Sight, run cluster.Running) path.Change {
	// What is lost is judged by the list that the rehearsal makes.
	c := path.Change{AcceptLoss: true, Target: v.Spec.EtcdVersion, Options: v.Spec.Options, Cluster: run.Agreed, Downgrade: run.Downgrading}
	if run.Auth != nil {
		c.Auth = path.No
		if *run.Auth {
			c.Auth = path.Yes
		}
	}
	for _, s := range v.Roster.Seats {
		c.Servers = append(c.Servers, s.Release())
		if s.Host == nil {
			continue
		}
		c.Hosts = append(c.Hosts, path.HostReleases{
			Host: s.Host.Host, Releases: s.Host.Releases, LeftVariables: s.Host.LeftVariables,
		})
		if st := s.Host.Status; st != nil && st.StorageVersion.Compare(c.Storage) > 0 {
			c.Storage = st.StorageVersion
		}
		if st := s.Host.Status; st != nil {
			c.Size = max(c.Size, st.DBSize)
		}
	}
	return c
}

func (v *Sight) RunningWords() string {
	run := v.Roster.Running()
	if run.Low == run.High {
		return run.Low.String()
	}
	return fmt.Sprintf("%s to %s", run.Low, run.High)
}

// FailedRelease is a host on which the release did not start.
func FailedRelease(v *Sight, r cluster.Version) (cluster.HostID, bool) {
	for _, s := range v.Roster.Seats {
		if s.Host != nil && s.Host.FailedRelease == r {
			return s.HostID, true
		}
	}
	return "", false
}
