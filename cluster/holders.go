package cluster

// KeyHolders are the hosts that say they hold the keys of the authorities, and those that say they do not, in the order
// of the observation. A host that is not seen, or says nothing of it, is neither.
func (o *Observation) KeyHolders() (holders, without []HostID) {
	for _, h := range o.Hosts {
		switch {
		case h.AuthorityKeys == nil:
		case *h.AuthorityKeys:
			holders = append(holders, h.Host)
		default:
			without = append(without, h.Host)
		}
	}
	return holders, without
}
