package cli

import (
	"path/filepath"
	"strings"

	"etcdadm.io/cluster"
)

// asideName is the name of a directory that a host set aside, from what a person
// wrote: the name, or the path as etcdadm status shows it. Known is what the host
// tells that it has. A path of anything else is refused rather than cut to its
// last part, which may be the name of something that was not meant.
func asideName(words string, known []cluster.SetAside) (string, error) {
	const advice = "etcdadm status and etcdadm host prune HOST list what was set aside: give the name"
	name := filepath.Base(words)
	switch {
	case strings.ContainsAny(words, "\\\n") || name == "." || name == ".." || name == "/":
		return "", usage(advice, "--dir %q is not the name of a directory that was set aside", words)
	case name == words:
		return name, nil
	}
	for _, a := range known {
		if a.Dir == filepath.Clean(words) {
			return name, nil
		}
	}
	return "", usage(advice, "--dir %s is not the path of a directory that was set aside", words)
}

// setAsideBy is what a host tells that it has; none without an observation.
func setAsideBy(o *cluster.Observation, host cluster.HostID) []cluster.SetAside {
	if o == nil {
		return nil
	}
	for i := range o.Hosts {
		if o.Hosts[i].Host == host {
			return o.Hosts[i].SetAside
		}
	}
	return nil
}
