package step

import (
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/words"
)

// following are the voters whose hosts answer, and follow another leader until they
// hear of this one's next fence. Nothing shows that their members are down.
func following(v *View) (hosts, leaders []cluster.HostID) {
	add := func(id cluster.HostID) {
		g, ok := v.Obs.HostGap(id)
		if !ok || v.Presence(id) != cluster.PresenceRefusing || g.Promised.OutOfReach() {
			return
		}
		hosts = append(hosts, id)
		if !slices.Contains(leaders, g.Promised.Host) {
			leaders = append(leaders, g.Promised.Host)
		}
	}
	if v.Seen {
		for _, s := range v.Roster.Voters() {
			if !s.Up {
				add(s.HostID)
			}
		}
		return hosts, leaders
	}
	for _, vo := range v.Intent.Voters {
		add(vo.Host)
	}
	return hosts, leaders
}

// NewLead says that voters which may well serve have to obey this leader first;
// nil: what is missing is missing for another reason too.
func NewLead(v *View, enough int) *decision.Decision {
	hosts, leaders := following(v)
	if len(hosts) == 0 || len(v.Roster.Up())+len(hosts) < enough {
		return nil
	}
	follow := "still follows"
	if len(hosts) > 1 {
		follow = "still follow"
	}
	return decision.WaitLater("settling", "", "new leader: {hosts} {follow} the former leader {leaders}; nothing changes until that clears by itself", words.IdList(hosts), follow, words.IdList(leaders))
}
