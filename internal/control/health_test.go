package control

import (
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// A status that is old, or that has no quorum, is not taken for a good one.
func TestHealth(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		change func(*Status)
		want   Health
	}{
		"well":                   {func(*Status) {}, Well},
		"from a clock ahead":     {func(s *Status) { s.At = now.Add(time.Minute) }, Well},
		"a learner is down":      {func(s *Status) { s.Members = append(s.Members, MemberStatus{Learner: true}) }, Well},
		"a blocker that passes":  {func(s *Status) { s.Blockers = []BlockerStatus{{Code: "settling"}} }, Well},
		"a blocker for a person": {func(s *Status) { s.Blockers = []BlockerStatus{{Code: "x", Command: "y"}} }, Degraded},
		"a voter is down":        {func(s *Status) { s.Members[0].Up = false }, Degraded},
		"a voter is missing":     {func(s *Status) { s.Spec.MemberCount = 5 }, Degraded},
		"missing, and on hold":   {func(s *Status) { s.Spec.MemberCount, s.Spec.Hold = 5, true }, Well},
		"nothing is wanted":      {func(s *Status) { s.Spec = nil }, Degraded},
		"most voters are down":   {func(s *Status) { s.Members[0].Up, s.Members[1].Up = false, false }, NoQuorum},
		"no members":             {func(s *Status) { s.Members = nil }, NoQuorum},
		"in quarantine": {func(s *Status) {
			for i := range s.Members {
				s.Members[i].Quarantined = true
			}
		}, NoQuorum},
		"old":             {func(s *Status) { s.At = now.Add(-Fresh - time.Second) }, Unknown},
		"old, and broken": {func(s *Status) { s.At, s.Members = now.Add(-time.Hour), nil }, Unknown},
	} {
		s := Status{At: now.Add(-Fresh), Spec: &cluster.Spec{MemberCount: 3}, Members: []MemberStatus{{Up: true}, {Up: true}, {Up: true}}}
		test.change(&s)
		if got := s.Health(now); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
