package cluster

import "time"

// Presence is how a host stands to the leading daemon in one observation. Every host
// that somebody asks about has exactly one.
type Presence string

const (
	// PresenceHere: the host answered, and promised this observation's fence before it
	// looked.
	PresenceHere Presence = "here"
	// PresenceUnpromised: the host answered without a promise of this fence, so that
	// another leader may act on it.
	PresenceUnpromised Presence = "unpromised"
	// PresenceBusy: the host carries out an op, which ends within its time.
	PresenceBusy Presence = "busy"
	// PresenceStarting: the daemon starts, or writes its promise down, and is within the
	// time for that.
	PresenceStarting Presence = "starting"
	// PresenceStalled: the host answers, and takes longer than it may, as with a hung
	// disk. That may never end.
	PresenceStalled Presence = "stalled"
	// PresenceRefusing: the host answers, and has promised a higher fence: it follows
	// another leader, or its state is damaged ([Fence.OutOfReach]).
	PresenceRefusing Presence = "refusing"
	// PresenceIncompatible: something answers where the host's daemon is, and the two do
	// not understand each other: a certificate, a clock, a name.
	PresenceIncompatible Presence = "incompatible"
	// PresenceMute: the host's daemon tells of itself and does not answer what it is
	// asked, or two daemons say that they are this host.
	PresenceMute Presence = "mute"
	// PresenceSilent: the host does not answer, and nothing is heard of it.
	PresenceSilent Presence = "silent"
	// PresenceUnknown: this leader has not asked the host.
	PresenceUnknown Presence = "unknown"
)

// Answers reports whether the host's daemon answers the leader, be it with no more than
// what keeps it from doing what it is asked.
func (p Presence) Answers() bool {
	//exhaustive:enforce
	switch p {
	case PresenceHere, PresenceUnpromised, PresenceBusy, PresenceStarting, PresenceStalled, PresenceRefusing:
		return true
	case PresenceIncompatible, PresenceMute, PresenceSilent, PresenceUnknown:
	}
	return false
}

// Occupied reports whether the host answers only that it is at something.
func (p Presence) Occupied() bool {
	return p == PresenceBusy || p == PresenceStarting || p == PresenceStalled
}

// Elsewhere reports whether something speaks for the host, if not for this leader to use.
// Whatever else it is, the host is not gone.
func (p Presence) Elsewhere() bool {
	return p == PresenceRefusing || p == PresenceIncompatible || p == PresenceMute
}

// Presence is how the host stands to the leader, and since when it has not answered
// with its state; zero: it does, or that is not known.
func (o *Observation) Presence(id HostID) (Presence, time.Time) {
	if h, ok := o.Host(id); ok {
		if h.UnderFence {
			return PresenceHere, time.Time{}
		}
		return PresenceUnpromised, time.Time{}
	}
	since := time.Time{}
	if m, ok := o.Memory.Host(id); ok {
		since = m.GapSince
	}
	if g, ok := o.HostGap(id); ok {
		return g.presence(), since
	}
	return PresenceUnknown, since
}

func (g Gap) presence() Presence {
	//exhaustive:enforce
	switch g.Kind {
	case GapRefused:
		return PresenceRefusing
	case GapBusy:
		switch {
		case g.AtWork():
			return PresenceBusy
		case !g.Late && (g.Op == OpBoot || g.Op == OpPromise):
			return PresenceStarting
		}
		return PresenceStalled
	case GapUnreachable:
		switch {
		case g.Incompatible:
			return PresenceIncompatible
		case g.Heard:
			return PresenceMute
		}
		return PresenceSilent
	case GapStore, GapSpec: // no host's
	}
	return PresenceUnknown
}
