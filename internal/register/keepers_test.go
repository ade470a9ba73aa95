package register

import (
	"slices"
	"strings"
	"testing"

	"etcdadm.io/cluster"
)

// Who becomes a keeper next, or ceases to be one.
func TestWanted(t *testing.T) {
	for name, x := range map[string]struct{ keepers, voters, ready, want string }{
		"all is as it should be":                     {"abc", "abc", "abc", "abc"},
		"a voter is added":                           {"a", "abc", "abc", "ab"},
		"a voter that does not answer is not":        {"ab", "abc", "ab", "ab"},
		"one is added before one goes":               {"abc", "abd", "abcd", "abcd"},
		"nobody goes before all voters are there":    {"abc", "abd", "ab", "abc"},
		"one that is no voter goes":                  {"abcd", "abd", "abcd", "abd"},
		"a silent one goes":                          {"abcd", "abd", "abd", "abd"},
		"a silent one goes before one that is ready": {"abcde", "a", "abcd", "abcd"},
		"the more where those that stay are few":     {"abc", "a", "ab", "ab"},
		"and then that":                              {"ab", "a", "ab", "a"},
		"nobody goes while a voter is silent":        {"abcd", "ab", "acd", "abcd"},
		"nor where those that stay may be too few":   {"abc", "a", "a", "abc"},
		"one that lost its file goes":                {"abc", "abc", "abC", "ab"},
		"and is added":                               {"ab", "abc", "abC", "abC"},
		"the last one stays":                         {"a", "b", "a", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := (&Document{Record: "r", Version: 1, Keepers: seatsOf(x.keepers)}).sealed(MaxDocument)
			if err != nil {
				t.Fatal(err)
			}
			next := d
			if change := Wanted(d, hostsOf(x.voters), seatsOf(x.ready)); change != nil {
				if next, err = change(d); err != nil {
					t.Fatal(err)
				}
			}
			want := seatsOf(x.want)
			slices.SortFunc(want, Seat.compare)
			if !slices.Equal(next.Keepers, want) {
				t.Errorf("the keepers are %v, not %v", next.Keepers, want)
			}
		})
	}
}

// seatsOf are the seats of hosts of one letter each. An upper-case one is the seat of a host that lost its file.
func seatsOf(letters string) (out []Seat) {
	for _, l := range strings.Split(letters, "") {
		out = append(out, Seat{Host: cluster.HostID(strings.ToLower(l)), Keeper: l})
	}
	return out
}

func hostsOf(letters string) (out []cluster.HostID) {
	for _, s := range seatsOf(letters) {
		out = append(out, s.Host)
	}
	return out
}
