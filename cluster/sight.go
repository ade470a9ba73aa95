package cluster

import "fmt"

// StoreOdds is in what a host's daemon sees the backup store otherwise than the
// leader does; empty: in nothing, or it is not known. A difference that has just
// begun may only be the age of the look.
func (o *Observation) StoreOdds(id HostID) string {
	if !o.Store.Read {
		return ""
	}
	for _, s := range o.Sights {
		if s.Host != id {
			continue
		}
		var generation uint64
		var nonce string
		if in := o.Store.Intent; in != nil {
			generation, nonce = in.Generation, in.Nonce
		}
		switch {
		case s.Unread != "":
			return "cannot read it: " + s.Unread
		case s.Foreign:
			return "sees the record of another cluster in it"
		case !s.Marker && o.Store.Marker:
			return "sees no record of this cluster in it"
		case s.Marker && !o.Store.Marker:
			return "sees a record of this cluster in it, and the leading daemon sees none"
		case s.Marker && s.Generation != generation:
			return fmt.Sprintf("sees generation %d in it, and the leading daemon generation %d", s.Generation, generation)
		case s.Marker && s.Nonce != nonce:
			return fmt.Sprintf("sees another generation %d in it than the leading daemon", s.Generation)
		}
	}
	return ""
}
