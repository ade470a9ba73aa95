package cli

import (
	"path/filepath"
	"strings"

	"etcdadm.io/cluster"
)

// trashcan is the directory into which hosts set aside, in that of their data.
const trashcan = "data-trashcan"

// asideName is the name of a directory that a host set aside, from what a person
// wrote: the name, or its path. Known is what the host tells that it has; of one
// that is not in sight, a path is believed by its form. A path of anything else is
// refused rather than cut to its last part, which may be the name of something that
// was not meant.
func (r *reach) asideName(words string, known []cluster.SetAside, inSight bool) (string, error) {
	advice := r.again("etcdadm host prune HOST") + " lists what was set aside: give the name"
	name := filepath.Base(words)
	switch {
	case strings.ContainsAny(words, "\\\n") || name == "." || name == ".." || name == "/":
		return "", usage(advice, "--dir %q is not the name of a directory that was set aside", words)
	case name == words:
		return name, nil
	case !inSight && filepath.IsAbs(words) && filepath.Base(filepath.Dir(filepath.Clean(words))) == trashcan:
		return name, nil
	case !inSight:
		return "", usage(advice, "--dir %s is not the path of a directory that was set aside: it has no %s before its name, and the host is not in sight to be asked", words, trashcan)
	}
	for _, a := range known {
		if a.Dir == filepath.Clean(words) {
			return name, nil
		}
	}
	return "", usage(advice, "--dir %s is not the path of a directory that was set aside", words)
}

// setAsideBy is what a host tells that it has; false: it is not in sight.
func setAsideBy(o *cluster.Observation, host cluster.HostID) ([]cluster.SetAside, bool) {
	if o == nil {
		return nil, false
	}
	for i := range o.Hosts {
		if o.Hosts[i].Host == host {
			return o.Hosts[i].SetAside, true
		}
	}
	return nil, false
}
