package cluster

// Running is what the members of a cluster are set to run.
type Running struct {
	// Low and High are the lowest and the highest release; zero: unknown.
	Low, High Version
	// Agreed is the release line that the members have agreed on; zero: unknown.
	Agreed Version
	// Downgrade: etcd has a downgrade under way, to the line Downgrading; that is
	// zero when no member in sight says which.
	Downgrade   bool
	Downgrading Version
	// Auth: authentication is on; nil: unknown.
	Auth *bool
	// Unseen are members of which nobody knows what they run.
	Unseen []Seat
}

// Mixed reports whether members of two release lines run side by side.
func (r Running) Mixed() bool { return !r.Low.SameMinor(r.High) }

// Running is what the members of the roster run, by the record of their hosts,
// which decides what a process is started with, or by their own word.
func (r Roster) Running() Running {
	var out Running
	for _, s := range r.Seats {
		v := s.Release()
		if v.IsZero() {
			out.Unseen = append(out.Unseen, s)
			continue
		}
		if out.Low.IsZero() || v.Compare(out.Low) < 0 {
			out.Low = v
		}
		if v.Compare(out.High) > 0 {
			out.High = v
		}
		st := s.Host.Status
		if st == nil {
			continue
		}
		if c := st.ClusterVersion; !c.IsZero() && (out.Agreed.IsZero() || c.Compare(out.Agreed) < 0) {
			out.Agreed = c
		}
		if st.AuthOn != nil && (out.Auth == nil || *st.AuthOn) {
			out.Auth = st.AuthOn
		}
		out.Downgrade = out.Downgrade || st.Downgrade || !st.Downgrading.IsZero()
		if d := st.Downgrading; !d.IsZero() {
			out.Downgrading = d
		}
	}
	return out
}

// Release is what the member runs; zero: unknown. Of one that answers it is the
// release that its host was asked for where that is of the same line: a directory
// of a patch may hold another one.
func (s Seat) Release() Version {
	switch {
	case s.Host == nil:
		return Version{}
	case s.Host.Status != nil && !s.Host.Status.Version.IsZero() && !s.Host.Status.Version.SameMinor(s.Host.Local.Version):
		return s.Host.Status.Version
	case !s.Host.Local.Version.IsZero():
		return s.Host.Local.Version
	case s.Host.Status != nil:
		return s.Host.Status.Version
	}
	return Version{}
}

// Agreement is what the members of a cluster have agreed on.
type Agreement struct {
	Version   Version // the release line; zero: none yet
	Downgrade bool    // a downgrade is under way
	Auth      *bool   // authentication is on; nil: unknown, as always from 3.5 on, where it does not matter
}

// VersionsWanted reports whether the version that the members have agreed on
// matters to the next look: what they run is not what is wanted, or a downgrade is
// under way.
func (o *Observation) VersionsWanted() bool {
	if o == nil {
		return false
	}
	for _, g := range o.Gaps {
		if g.Kind == GapUnreachable {
			return true // a downgrade that nobody in sight tells of may be under way
		}
	}
	for i := range o.Hosts {
		h := &o.Hosts[i]
		if h.Carries() && h.Status == nil && h.Local.Version.AtLeast(3, 5) {
			return true // what is under way may be said by others only
		}
		if h.Local.State != MemberStarted {
			continue
		}
		if o.Spec != nil && h.Local.Version != o.Spec.EtcdVersion || h.Status != nil && (h.Status.Version != h.Local.Version || !h.Status.Downgrading.IsZero()) {
			return true
		}
	}
	return false
}
