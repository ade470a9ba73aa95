package console

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/manager"
	"etcdadm.io/plan"
)

// RestartOrder is in which order members are restarted one after the other: those of the
// hosts that were named, or all, and the one that leads raft last, so that it moves once.
//
// Errors: a host that was named carries no member, or is named twice; of a member nobody
// knows the host; no member list is in sight.
func RestartOrder(o *cluster.Observation, named []cluster.HostID) ([]cluster.HostID, error) {
	roster, seen := o.Roster()
	if !seen {
		return nil, errors.New("no member answers, so the members are unknown")
	}
	var first, last []cluster.HostID
	for i, id := range named {
		carries := slices.ContainsFunc(roster.Seats, func(s cluster.Seat) bool { return s.HostID == id })
		switch {
		case !carries:
			return nil, fmt.Errorf("host %s carries no listed member", id)
		case slices.Contains(named[:i], id):
			return nil, fmt.Errorf("host %s is named twice", id)
		}
	}
	for _, s := range roster.Seats {
		switch {
		case len(named) > 0 && !slices.Contains(named, s.HostID):
		case s.HostID == "":
			return nil, fmt.Errorf("the host of member %s is not known", s.ID)
		case s.RaftLeader:
			last = append(last, s.HostID)
		default:
			first = append(first, s.HostID)
		}
	}
	slices.Sort(first)
	return append(first, last...), nil
}

// Rolled is a member's part of a rolled restart.
type Rolled struct {
	Host   cluster.HostID     `json:"host"`
	Result manager.GoalResult `json:"result"`
}

// RestartGoal has the member of a host restarted anyway.
func RestartGoal(host cluster.HostID, reason string) plan.Goal {
	return plan.Goal{Kind: plan.RestartAnyway, Host: host, Reason: reason}
}

// Roll takes a step for one host after the other, each once the one before is done, or
// planned in a dry run. It ends with the first that is neither: its result is the last one
// then, unless there is none because of an error.
func Roll(ctx context.Context, hosts []cluster.HostID, take func(context.Context, cluster.HostID) (manager.GoalResult, error)) ([]Rolled, error) {
	var all []Rolled
	for _, host := range hosts {
		result, err := take(ctx, host)
		if err != nil {
			return all, fmt.Errorf("host %s: %w", host, err)
		}
		all = append(all, Rolled{host, result})
		if result.Outcome != manager.GoalDone && result.Outcome != manager.GoalPlanned {
			break
		}
	}
	return all, nil
}
