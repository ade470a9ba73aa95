package plan

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
)

// never ends a command that nothing could ever come of: a host that nobody has
// heard of, a directory that its host has not set aside, a release that does not
// read the data. Those behind it in the queue would wait for it for ever.
func (v *view) never(c *cluster.Command) *Decision {
	reject := func(format string, args ...any) *Decision {
		return endCommand(c.Name, CommandRejected, fmt.Sprintf(format, args...))
	}
	if c.Kind == cluster.CommandRestore && c.Found != nil {
		wrote := c.Found.Version
		if _, known := wrote.Line(); !known && !wrote.IsZero() && !v.runs(wrote) {
			return reject("etcd %s is said to have written backup %s, and neither this release of etcdadm nor a host in sight knows etcd %d.%d: look at its meta; etcdadm backup list prints the others", wrote, c.Backup, wrote.Major, wrote.Minor)
		}
		if c.Version.IsZero() {
			return nil
		}
		if why := RestoresTo(c.Found.Version, c.Version); why != "" {
			return reject("%s", why)
		}
		return nil
	}
	if c.Kind != cluster.CommandRecover && c.Kind != cluster.CommandUndo {
		return nil
	}
	h, inSight := v.obs.Host(c.Host)
	switch {
	case !inSight && !v.heardOf(c.Host):
		return reject("no host %s is known; etcdadm status lists those that are", c.Host)
	case slices.Contains(c.Lost, c.Host):
		return reject("host %s cannot be lost and be what the cluster goes on from", c.Host)
	case inSight && c.Kind == cluster.CommandUndo && v.intent != nil && h.UnderFence && problem(h) == "" &&
		!slices.ContainsFunc(h.SetAside, func(a cluster.SetAside) bool { return a.Name() == c.Dir }):
		return reject("host %s has set nothing aside as %s; etcdadm status lists what it has", c.Host, c.Dir)
	}
	return nil
}

// runs: a host in sight has a release of that line.
func (v *view) runs(line cluster.Version) bool {
	return slices.ContainsFunc(v.obs.Hosts, func(h cluster.HostReport) bool { return slices.ContainsFunc(h.Releases, line.SameMinor) })
}

// heardOf: somebody has a record of the host.
func (v *view) heardOf(id cluster.HostID) bool {
	if v.presence(id) != cluster.PresenceUnknown {
		return true
	}
	if v.intent == nil {
		return false
	}
	sets := v.intent.VoterSets()
	for _, g := range v.intent.History {
		sets = append(sets, g.Voters...)
	}
	sets = append(sets, founderVoters(v.intent))
	return slices.ContainsFunc(sets, func(set []cluster.Voter) bool {
		return slices.ContainsFunc(set, func(w cluster.Voter) bool { return w.Host == id })
	})
}
