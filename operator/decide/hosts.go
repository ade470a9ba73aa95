package decide

import "slices"

// NotReady are the voters' hosts among those named whose pods are not ready by Kubernetes, which knows of a machine that is off before
// anybody tells of it.
func (w *World) NotReady(names []string) (not []Host) {
	for _, h := range w.Hosts {
		if !h.Ready && slices.Contains(names, h.Name) {
			not = append(not, h)
		}
	}
	return not
}

// MakesWay are the hosts that vote, and are not to: another host takes the place of each.
func (w *World) MakesWay() (hosts []Host) {
	for _, h := range w.Hosts {
		if w.Intent != nil && w.votes(h.Name) && !h.stays() {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// Why is why its pod does not run, in Kubernetes' words; empty: it does, or nothing is said.
func (h Host) Why() string {
	if h.Stuck != "" && h.Says != "" {
		return h.Stuck + ": " + h.Says
	}
	return h.Stuck + h.Says
}

// Behind are the hosts that run, or are to, by another template than is wanted.
func (w *World) Behind() (hosts []Host) {
	for _, h := range w.Hosts {
		if w.runs(h) && (h.behind() || h.OldSet) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}
