package generation

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/step"
	"etcdadm.io/plan/internal/words"
)

// check says what speaks against a command, or what has to be known first.
func check(m *making) *decision.Decision {
	v, c := m.View, m.command
	name := c.Name
	switch {
	case v.Obs.Unlisted != "":
		return decision.Wait(true, "store-silent", "", "command {command} waits: the queue in the backup store cannot be listed, so that nobody knows whether it is still wanted: {unlisted}", name, v.Obs.Unlisted)
	case c.Malformed != "":
		return decision.EndCommand(name, decision.CommandRejected, c.Malformed)
	case c.Kind == cluster.CommandRestore && c.Missing:
		return decision.EndCommand(name, decision.CommandRejected, fmt.Sprintf("there is no backup %s in the store; list-backups shows those that are", c.Backup))
	case c.Kind == cluster.CommandRestore && c.Found == nil:
		return decision.Wait(true, "store-silent", "", "waiting for the backup store, to look at backup {backup}", c.Backup)
	}
	if d := step.NeedSpec(v); d != nil {
		return d
	}
	if v.Intent == nil {
		if d := carried(v); d != nil {
			return d
		}
	}
	for _, look := range []func(*step.View, *cluster.Command) *decision.Decision{Never, ConsentOver, unconditional, undoAsSeen, wrongCount, MayRecover, LostAndAlive, LostAndThere, PromisersInSight, LogsInSight} {
		if d := look(v, c); d != nil {
			return d
		}
	}
	return nil
}

// unconditional keeps a generation from being made through a store in which two leaders
// could each make one, unless the spec names the hosts and a majority of them follows this
// leader, or is given up (SAFETY.md, rule 19).
func unconditional(v *step.View, c *cluster.Command) *decision.Decision {
	if v.Obs.Store.Conditional {
		return nil
	}
	n := 0
	for _, id := range v.Spec.Hosts {
		h, ok := v.Obs.Host(id)
		if ok && h.UnderFence || slices.Contains(c.Lost, id) {
			n++
		}
	}
	if len(v.Spec.Hosts) > 0 && n >= cluster.Quorum(len(v.Spec.Hosts)) {
		return nil
	}
	return decision.Wait(true, "store-unconditional", "", "command {command} waits: the backup store has no conditional writes, so that two leaders could both run it; name the hosts in the daemons' static configuration and start a majority of them", c.Name)
}

// carried blocks a founding beside members whose record was lost: their data
// may be this cluster's, and the new one would take its place unasked.
func carried(v *step.View) *decision.Decision {
	var carry []string
	for i := range v.Obs.Hosts {
		if h := &v.Obs.Hosts[i]; h.Carries() {
			carry = append(carry, fmt.Sprintf("%s: member %s of cluster %s", h.Host, h.Local.Member, h.Local.Cluster))
		}
	}
	if len(carry) == 0 {
		return nil
	}
	return decision.Wait(false, "no-intent", "", "hosts hold the data of members, and neither the store nor a host has the record of their founding; no cluster is founded beside them until the store is back or their data directories were moved away{because}", words.Because(carry))
}
