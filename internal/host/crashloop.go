package host

import (
	"context"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
)

// renewed gives a member that dies again and again the settings that it would
// be started with now: the newest options that this host knows and the
// addresses that it has. A leader restarts members with new settings one at a
// time, and only those that are up (SAFETY.md, rule 1); this one is not up and
// cannot come to be, so nothing is taken down by it, whatever the new settings
// are, and no leader would ever get to it. A member that merely ended once goes
// on as it was: after a power cut all of them are restarted together, and new
// settings that nobody has tried must not reach all of them at once.
//
// With the newest ones and still dying, it goes back to the options with which
// it ran before, and the others are not tried here again before the spec asks for
// others, or the daemon is restarted. A leader is told, and rolls them no further.
//
// Release and quarantine stay, since data and other members depend on them.
func (h *Host) renewed(ctx context.Context, s record.State) record.State {
	p := h.o.Process.Status()
	h.mu.Lock()
	loops := p.Restarts - h.answeredRestarts
	h.mu.Unlock()
	if p.State != cluster.ProcessBackoff || loops < cluster.CrashLoop {
		return s
	}
	launch := *s.Launch
	launch.Options, _ = h.settings.Options(launch.Version)
	if s.Local.State == cluster.MemberStarted { // a first start is at the address that the others were told
		launch.URLs = h.settings.NextURLs(launch.URLs, false)
	}
	back := launch.Same(*s.Launch) && s.Local.State == cluster.MemberStarted && record.OptionsBefore(s, &launch)
	if launch.Same(*s.Launch) {
		return s
	}
	launch.Nonce = h.o.Mint()
	err := h.keeper.Change(ctx, func(now *record.State) {
		now.Launch = &launch
		now.Local.Options, now.Local.URLs = slices.Clone(launch.Options), launch.URLs
		if back {
			now.Before = nil
		}
	})
	if err != nil {
		return s // tried again in ten seconds
	}
	if back {
		h.settings.FailOptions(record.Ran{Version: launch.Version, Options: s.Launch.Options})
		h.o.Log.Warn("the member does not start with its new options: it gets back what it ran before", "restarts", loops, "last", p.LastExit)
		return h.keeper.Now()
	}
	h.o.Log.Warn("the member crash-loops: it is restarted with the current settings", "restarts", loops, "last", p.LastExit)
	return h.keeper.Now()
}
