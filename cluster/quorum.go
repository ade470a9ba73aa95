package cluster

import "fmt"

// Quorum is how many of n voters must agree: ⌊n/2⌋+1. It is 0 for no voters.
func Quorum(n int) int {
	if n <= 0 {
		return 0
	}
	return n/2 + 1
}

// Tolerance is how many of n voters may fail while a quorum is left.
func Tolerance(n int) int {
	if n <= 0 {
		return 0
	}
	return n - Quorum(n)
}

// Blocking is how many of n voters have to refuse so that the rest is no
// quorum: n−⌊n/2⌋. A new generation asks so many for their promise.
func Blocking(n int) int { return n - n/2 }

// Projection is what a step does to the voters: how many there are and how
// many of them are up, before and after. Every action that touches
// membership or stops a member carries one.
type Projection struct {
	Voters      int `json:"voters"`
	Up          int `json:"up"`
	VotersAfter int `json:"votersAfter"`
	UpAfter     int `json:"upAfter"`
}

// Margin is how many of the voters that are up may fail before the quorum is
// gone; it is negative when there is no quorum now.
func (p Projection) Margin() int { return p.Up - Quorum(p.Voters) }

// MarginAfter is the margin once the step is done.
func (p Projection) MarginAfter() int { return p.UpAfter - Quorum(p.VotersAfter) }

// Keeps reports whether the step may be taken on the way to a cluster of
// wanted voters: afterwards the voters up are a quorum, and the margin does
// not fall below the lower of today's and what the spec asks for.
func (p Projection) Keeps(wanted int) bool {
	if p.VotersAfter < 1 || p.MarginAfter() < 0 {
		return false
	}
	return p.MarginAfter() >= min(p.Margin(), Tolerance(wanted))
}

func (p Projection) String() string {
	return fmt.Sprintf("%d of %d voters up, %d of %d after it (quorum %d)",
		p.Up, p.Voters, p.UpAfter, p.VotersAfter, Quorum(p.VotersAfter))
}
