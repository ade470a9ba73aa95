package cluster

import "testing"

func TestParseLine(t *testing.T) {
	for s, want := range map[string]string{"3.7": "3.7", "v3.4": "3.4", "2.3": "2.3", "3": "", "3.7.3": "", "3.99": "", "": "", "3.07": ""} {
		if l, ok := ParseLine(s); ok != (want != "") || ok && l.String() != want {
			t.Errorf("%q: %v, %t", s, l, ok)
		}
	}
}

func TestNewestPatch(t *testing.T) {
	l, _ := ParseLine("3.6")
	out := l.Release(l.Newest)
	const later = 9000
	versions := func(patches ...int) (all []Version) {
		for _, p := range patches {
			all = append(all, l.Release(p))
		}
		return all
	}
	for _, c := range []struct {
		name           string
		change         func(o *Observation)
		newest, common Version
	}{
		{"nobody is seen", func(o *Observation) { o.Hosts = nil }, out, Version{}},
		{"no host has the line", func(*Observation) {}, out, Version{}},
		{"every host has older ones", func(o *Observation) {
			for i := range o.Hosts {
				o.Hosts[i].Releases = versions(1, 2)
			}
			o.Hosts[0].Releases = versions(1, 2, 3)
		}, out, l.Release(2)},
		{"a host has a later one", func(o *Observation) { o.Hosts[0].Releases = versions(later) }, l.Release(later), Version{}},
		{"another line's is none of it", func(o *Observation) { o.Hosts[0].Releases = []Version{{3, 7, later}, {3, 5, later}} }, out, Version{}},
		{"a member runs a later one", func(o *Observation) { o.Hosts[0].Status.Version = l.Release(later) }, l.Release(later), Version{}},
	} {
		o := three(0)
		c.change(o)
		if newest, common := o.NewestPatch(l); newest != c.newest || common != c.common {
			t.Errorf("%s: %s and %s, want %s and %s", c.name, newest, common, c.newest, c.common)
		}
	}
}
