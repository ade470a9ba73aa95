package cluster

import (
	"fmt"
	"strings"
	"time"
)

// Survey is what a rehearsal of a change of version key by key found: what is
// carried over, and all that is not.
type Survey struct {
	From    Version `json:"from"`
	To      Version `json:"to"`
	Keys    int64   `json:"keys"`
	Carried int64   `json:"carried"`
	// Digest stands for the list of losses with all their names; empty: nothing is
	// lost beyond what comes with the way.
	Digest string `json:"digest,omitempty"`
	Losses []Loss `json:"losses,omitempty"`
	// Took is how long the rehearsal took, in nanoseconds; zero: not known. Clients are
	// not served for about as long.
	Took time.Duration `json:"took,omitempty"`
}

// Loss is all of one kind that cannot be carried over as it is.
type Loss struct {
	Kind  string `json:"kind"`
	Count int64  `json:"count"`
	Text  string `json:"text"` // for people; goes with the count
	// Examples are the first few names, quoted where they are not plain.
	Examples []string `json:"examples,omitempty"`
	// Always: it comes with the way, whatever the data, and needs no word.
	Always bool `json:"always,omitempty"`
}

// Loses reports whether something is lost that a person has to accept.
func (s *Survey) Loses() bool { return s != nil && s.Digest != "" }

// Words are the losses that a person has to accept, in one line.
func (s *Survey) Words() string {
	var all []string
	for _, l := range s.Losses {
		if l.Always {
			continue
		}
		words := fmt.Sprintf("%d %s", l.Count, l.Kind)
		if len(l.Examples) > 0 {
			words += " (" + l.Examples[0]
			if l.Count > 1 {
				words += ", …"
			}
			words += ")"
		}
		all = append(all, words)
	}
	return strings.Join(all, ", ")
}

// String is the whole list as a person reads it, one kind a paragraph.
func (s *Survey) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d keys are carried over from etcd %s to %s\n", s.Carried, s.Keys, s.From, s.To)
	if s.Took > 0 {
		fmt.Fprintf(&b, "it took %s when it was tried out; clients are not served for about as long\n", s.Took.Round(100*time.Millisecond))
	}
	for _, always := range []bool{false, true} {
		for _, l := range s.Losses {
			if l.Always != always {
				continue
			}
			fmt.Fprintf(&b, "%s: %d %s\n", l.Kind, l.Count, l.Text)
			for _, e := range l.Examples {
				fmt.Fprintf(&b, "    %s\n", e)
			}
			if more := l.Count - int64(len(l.Examples)); more > 0 && len(l.Examples) > 0 {
				fmt.Fprintf(&b, "    and %d more\n", more)
			}
		}
	}
	if s.Loses() {
		fmt.Fprintf(&b, "the digest of this list: %s\n", s.Digest)
	}
	return b.String()
}
