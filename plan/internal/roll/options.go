package roll

import (
	"fmt"
	"slices"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
	"etcdadm.io/plan/internal/sight"
	"etcdadm.io/plan/internal/step"
)

// Options restarts members whose settings are not those that they
// would be started with now: one at a time, every other voter up, raft's
// leader moved away first.
func Options(v *step.View) *decision.Decision {
	if v.Spec == nil {
		return nil
	}
	refused, are := refusedOptions(v)
	if are {
		v.Notice("options-refused", "etcdadm config unset OPTION", "{refused}; no other member gets them. Read etcd.log there. Unset what it refuses, or fix the cause and restart that host's daemon to try again", refused)
	}
	for _, leading := range []bool{false, true} { // raft's leader last, so that it moves once
		var waits *cluster.Seat
		for _, s := range v.Roster.Seats {
			if s.RaftLeader != leading || s.Host == nil || !s.Up || !s.Host.UnderFence || sight.WithoutTLS(v.Sight, s.Host) {
				continue
			}
			why := differs(v, s.Host)
			if are && why == optionsChanged {
				continue
			}
			if why == "" {
				continue
			}
			if h := v.MayBeAway(s); h == nil || !h.Blocks {
				return forOptions(v, step.RestartOne(v, s, why))
			}
			if waits == nil { // the one that it waits for, such as one that lags, may go before it
				waits = &s
			}
		}
		if waits != nil {
			return forOptions(v, step.RestartOne(v, *waits, differs(v, waits.Host)))
		}
	}
	return nil
}

// forOptions says whether a restart is not for the spec: none of the members is to be started anew for anything but the authorities.
func forOptions(v *step.View, d *decision.Decision) *decision.Decision {
	if d != nil {
		d.Upkeep = !slices.ContainsFunc(v.Roster.Seats, func(s cluster.Seat) bool {
			return s.Host != nil && !slices.Contains([]string{"", authoritiesChanged}, differs(v, s.Host))
		})
	}
	return d
}

// refusedOptions names a host whose member did not start with the options that the
// spec asks for, and runs again with those that it had before.
func refusedOptions(v *step.View) (sentence string, are bool) {
	for _, s := range v.Roster.Seats {
		if s.Host != nil && len(s.Host.FailedOptions) > 0 {
			return fmt.Sprintf("the member of host %s did not start with the etcd options that the spec asks for, and runs with what it had before (refused: %s)", s.HostID, newIn(s.Host.FailedOptions, s.Host.Options)), true
		}
	}
	return "", false
}

// newIn are the arguments of one list that are not in the other, by name; values
// may be secrets.
func newIn(args, others []string) string {
	var names []string
	for _, a := range args {
		if name, _, _ := strings.Cut(a, "="); !slices.Contains(others, a) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "that some are missing"
	}
	return strings.Join(names, " ")
}

const (
	optionsChanged     = "its etcd options changed"
	authoritiesChanged = "the authorities that it trusts changed"
)

func differs(v *step.View, h *cluster.HostReport) string {
	switch {
	case h.Local.State != cluster.MemberStarted:
		return ""
	case h.Local.Cut:
		return "it cuts raft snapshots all the time"
	case !slices.Equal(h.Local.Options, h.Options):
		return optionsChanged
	case !slices.Equal(sight.Sorted(h.Local.URLs.Client), sight.Sorted(h.URLs.Client)) && len(h.Local.URLs.Client) > 0:
		return "its client URLs changed"
	case !sight.SameURLs(h.Local.URLs.Peer, h.URLs.Peer) && !sight.OnlyTLS(h.Local.URLs.Peer, h.URLs.Peer) && len(h.Local.URLs.Peer) > 0:
		return "its peer URLs changed"
	case v.Intent != nil && v.Intent.Rotation.Over() && trustChanged(h): // else rotate restarts it, in its order
		return authoritiesChanged
	}
	return ""
}

// trustChanged: the files of trusted authorities, which etcd reads when it starts, have other certificates now. What a process was started
// with that its daemon does not know was not changed.
func trustChanged(h *cluster.HostReport) bool {
	if h.Authorities == nil || !h.Authorities.Etcd || len(h.Process.Trusts) == 0 {
		return false
	}
	var now []string
	for _, a := range h.Authorities.All {
		if etcdReads(a.Name) {
			now = append(now, a.Trusts...)
		}
	}
	slices.Sort(now)
	return !slices.Equal(slices.Compact(now), h.Process.Trusts)
}
