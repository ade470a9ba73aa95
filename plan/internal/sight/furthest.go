package sight

import "etcdadm.io/cluster"

// Survivors are hosts that hold the data of a member, and how far it goes.
type Survivors struct {
	// Furthest goes furthest: the newest generation first, and in it raft's order, by the
	// ends of the logs that were read. Where none of that generation was read it is the one
	// that remembers most, and its Log is nil. Nil: no host holds any data.
	Furthest *cluster.HostReport
	// Unread hold data of that generation, and nobody knows yet where their log ends: each
	// of them may go further. Reading is set for those whose log is being read.
	Unread []*cluster.HostReport
}

// Furthest judges the hosts that count. It is the one answer to who survives furthest: a
// recovery, the daemons' own one, what is offered to a person, and the command line ask it.
func Furthest(hosts []cluster.HostReport, counts func(*cluster.HostReport) bool) (out Survivors) {
	for i := range hosts {
		h := &hosts[i]
		if !h.Local.HasData || h.Local.State != cluster.MemberStarted || !counts(h) {
			continue
		}
		if out.Furthest != nil && h.Local.Generation > out.Furthest.Local.Generation {
			out = Survivors{}
		}
		if out.Furthest != nil && h.Local.Generation < out.Furthest.Local.Generation {
			continue
		}
		if h.Log == nil {
			out.Unread = append(out.Unread, h)
		}
		if out.Furthest == nil || goesFurther(h, out.Furthest) {
			out.Furthest = h
		}
	}
	return out
}

// goesFurther compares hosts of one generation. A log that was read counts before what a
// host remembers, which its disk may not have any more.
func goesFurther(h, than *cluster.HostReport) bool {
	switch {
	case h.Log != nil && than.Log != nil:
		return than.Log.Before(*h.Log)
	case h.Log == nil && than.Log == nil:
		return than.Highest.Before(h.Highest)
	default:
		return h.Log != nil
	}
}

// Rivals are what speaks against going on from the data of a host: the one of the same
// cluster and generation whose log goes further than its own, if there is one, and those
// whose logs are still being read.
func Rivals(hosts []cluster.HostReport, of *cluster.HostReport) (further *cluster.HostReport, reading []*cluster.HostReport) {
	all := Furthest(hosts, func(h *cluster.HostReport) bool {
		return h.Local.Generation == of.Local.Generation && h.Local.Cluster == of.Local.Cluster
	})
	for _, h := range all.Unread {
		if h.Host != of.Host && h.Reading != nil {
			reading = append(reading, h)
		}
	}
	if f := all.Furthest; f != nil && f.Log != nil && of.Log != nil && of.Log.Before(*f.Log) {
		further = f
	}
	return further, reading
}

// FurthestAside is the data of a cluster that goes furthest of what hosts set aside, and
// its host, where its log ends beyond a point; empty: none does.
func FurthestAside(hosts []cluster.HostReport, of cluster.ClusterID, beyond cluster.Progress) (at cluster.HostID, furthest cluster.SetAside) {
	for i := range hosts {
		for _, a := range hosts[i].SetAside {
			if a.Cluster == of && beyond.Before(a.Log) {
				beyond, furthest, at = a.Log, a, hosts[i].Host
			}
		}
	}
	return at, furthest
}
