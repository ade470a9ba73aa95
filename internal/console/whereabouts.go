package console

import (
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/kept"
)

// Whereabouts are where the control record of a cluster is kept, and what each host sees of it.
type Whereabouts struct {
	// In is [KeptInStore] or [KeptByHosts]; empty: the leading daemon was not heard.
	In string `json:"in,omitempty"`
	// Store is the URL of the shared store, without secrets; empty: there is none.
	Store string `json:"store,omitempty"`
	// Backups is the URL of the store that has the backups, where it is another one.
	Backups string `json:"backups,omitempty"`
	// Read says that the leading daemon has read the record just now; Why is why not.
	Read  bool       `json:"read"`
	Why   string     `json:"why,omitempty"`
	Hosts []HostSees `json:"hosts"`
}

// Where a record is kept.
const (
	KeptInStore = "store"
	KeptByHosts = "hosts"
)

// HostSees is one host and the record.
type HostSees struct {
	Host cluster.HostID `json:"host"`
	// Keeps says that it is one of the hosts that keep the record.
	Keeps bool `json:"keeps"`
	// Heard says that the leading daemon has heard its daemon at its last look.
	Heard bool `json:"heard"`
	// Same says that it was heard and told that it reads the record which the leading daemon reads; Odd is what it sees
	// otherwise. Neither: that is not known.
	Same bool   `json:"same"`
	Odd  string `json:"odd,omitempty"`
}

// Whereabouts reads them off a report. Hosts are in the order of their IDs.
func (r Report) Whereabouts() Whereabouts {
	out := Whereabouts{Hosts: []HostSees{}}
	o := r.Observation
	if o == nil {
		out.Why = "no leading daemon was heard"
		return out
	}
	out.In, out.Read = KeptInStore, o.Store.Read
	if _, ok := kept.DataDir(o.Store.URL); ok {
		out.In = KeptByHosts
	} else {
		out.Store, out.Backups = o.Store.URL, o.Store.Backups
	}
	for _, g := range o.Gaps {
		if g.Kind == cluster.GapStore && out.Why == "" && !out.Read {
			out.Why = g.Detail
		}
	}
	var all []cluster.HostID
	for i := range o.Hosts {
		all = append(all, o.Hosts[i].Host)
	}
	for _, c := range r.Contacts {
		all = append(all, c.Host)
	}
	all = append(all, r.Keepers...)
	slices.Sort(all)
	for _, h := range slices.Compact(all) {
		if h == "" {
			continue
		}
		sees := HostSees{Host: h, Keeps: slices.Contains(r.Keepers, h), Odd: o.StoreOdds(h)}
		sees.Heard = slices.ContainsFunc(o.Hosts, func(s cluster.HostReport) bool { return s.Host == h })
		told := h == r.Leader || slices.ContainsFunc(o.Sights, func(s cluster.HostSight) bool { return s.Host == h })
		sees.Same = sees.Heard && told && out.Read && sees.Odd == ""
		out.Hosts = append(out.Hosts, sees)
	}
	return out
}

// Keepers counts the hosts that keep the record, and those of them that were heard.
func (w Whereabouts) Keepers() (all, heard int) {
	for _, h := range w.Hosts {
		if h.Keeps {
			all++
			if h.Heard {
				heard++
			}
		}
	}
	return all, heard
}

// Well says that the record is read, that no host is known to see another one, and that all who keep it were heard.
func (w Whereabouts) Well() bool {
	all, heard := w.Keepers()
	return w.Read && all == heard && !slices.ContainsFunc(w.Hosts, func(h HostSees) bool { return h.Odd != "" })
}

// String is what a person is told first.
func (w Whereabouts) String() string {
	switch all, heard := w.Keepers(); {
	case w.In == "":
		return "where the control record is kept is not known: " + w.Why
	case w.In == KeptInStore && w.Store == "":
		return "the control record is kept in a shared store"
	case w.In == KeptInStore:
		return "the control record is kept in the shared store " + w.Store
	case all == 0:
		return "the control record is kept by hosts; which ones, the daemon that answers has not heard yet"
	default:
		return fmt.Sprintf("the control record is kept by the hosts: %d of %d heard, and %d needed", heard, all, all/2+1)
	}
}
