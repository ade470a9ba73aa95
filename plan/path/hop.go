package path

import (
	"fmt"
	"slices"
	"time"

	"etcdadm.io/cluster"
)

// What clients notice, and which backup a hop takes.
const (
	clientsRoll = "connections to one member after the other close and are opened to another; no write fails that is tried again"
	clientsNone = "nothing"
	beforeRoll  = "one before the first restart, where the newest is older than 5 minutes"
	// SAFETY.md, rule 20.
	behindDoors = "the last one once every voter is quarantined or stopped; the new cluster is made from it"
)

// An outage is about as long as it takes to stop, to make a data directory and to
// start two members, and grows with the data, which is copied, read and sent.
const (
	outageAtLeast = 5 * time.Second
	outageBytes   = 25 << 20 // in a second
)

// hop fills a hop in: why, what is checked, what is backed up and what is lost.
func (c Change) hop(kind HopKind, from, to cluster.Version) Hop {
	h := Hop{Kind: kind, From: from, To: to, Clients: clientsRoll, Backup: beforeRoll}
	switch kind {
	case RollPatch:
		h.Why = c.whyPatch(from, to)
	case RollUp:
		h.Why = "one minor version up, one member at a time; until the last one the way back is open"
		h.Checks = c.needs(from, to)
	case RollDown:
		h.Why = "one minor version down, by etcd's own downgrade"
		h.Checks = append(c.needs(from, to), "no member is added or replaced before it has ended")
		if c.Downgrade.SameMinor(to) && !c.Downgrade.IsZero() {
			h.Why = "finishes the downgrade that is enabled"
		}
	case RollBack:
		h.Why = "some members run the version above and the cluster version was not raised yet, so they go back"
		h.Checks = []string{fmt.Sprintf("the cluster version is still %d.%d", to.Major, to.Minor)}
	case CancelDowngrade:
		h.Why = "etcd's downgrade is enabled, and this leads elsewhere"
		h.Clients, h.Backup = clientsNone, ""
	case Physical:
		c.physical(&h)
	case Logical:
		c.logical(&h)
	}
	return h
}

// whyPatch: a patch is the target, or the floor of the next hop.
func (c Change) whyPatch(from, to cluster.Version) string {
	if to == c.Target {
		return "patches of one release line mix"
	}
	return fmt.Sprintf("the next version is not rolled to from %s", from)
}

// needs are etcd's conditions that are not known to hold.
func (c Change) needs(from, to cluster.Version) []string {
	var checks []string
	for _, n := range cluster.RollNeeds(from, to) {
		if n == cluster.NeedNoAuth && c.Auth == No || n == cluster.NeedNoV2Data && c.V2Data == No {
			continue
		}
		checks = append(checks, string(n))
	}
	return checks
}

func (c Change) physical(h *Hop) {
	because := ""
	if c.Auth == Yes && slices.Contains(cluster.RollNeeds(h.From, h.To), cluster.NeedNoAuth) {
		because = " while authentication is on"
	}
	h.Why = fmt.Sprintf("etcd %s cannot be rolled to from %s%s, and serves its snapshots", h.To, h.From, because)
	h.Backup = behindDoors
	h.Checks = []string{"a snapshot of the running cluster, restored with the tool of " + h.To.String() + ", is served by it"}
	h.Clients = "writes are refused and members are away while the new cluster is made; keys, leases, users and roles are those of before, leases begin anew"
	if h.To.Has(cluster.BumpRevision) {
		h.Clients += ", revisions go on, and watchers list anew"
	} else {
		h.Clients += "; the tool cannot raise revisions, which go on from the last one"
	}
	h.Outage = (outageAtLeast + time.Duration(c.Size/outageBytes)*time.Second).Round(time.Second)
	if c.V2Data == Yes {
		h.Loss = []string{"keys of version 2 of the API, which are in no snapshot"}
	}
}

func (c Change) logical(h *Hop) {
	h.Backup = behindDoors
	h.Clients = "writes are refused and members are away while every key is copied; every key gets a new revision, and watchers list anew"
	h.Checks = []string{"every key can be read and has its place in the new cluster; what has not is listed"}
	from, to := h.From.Has(cluster.V3API), h.To.Has(cluster.V3API)
	if c.Unportable == No {
		h.Checks = nil
	}
	switch {
	case !from && to:
		h.Why = "version 2 and version 3 of the API keep their keys apart: they are copied under the same names, a TTL becomes a lease"
		h.MayLose = []string{"directories without keys, and a directory's TTL", "users and roles"}
	case from && !to:
		h.Why = "version 3 and version 2 of the API keep their keys apart: they are copied under the same names, a lease becomes a TTL"
		h.MayLose = []string{
			"keys that are no paths, keys that others are below of, and values that are no text",
			"leases without keys, and what ties several keys to one lease", "users and roles",
		}
	default:
		h.Why = fmt.Sprintf("nothing says that etcd %s reads the data of %s, so every key is copied", h.To, h.From)
		const users = "users and roles, whose passwords etcd does not give out"
		switch c.Auth {
		case Yes:
			h.Loss = []string{users}
		case No:
		default:
			h.MayLose = []string{users}
		}
	}
}
