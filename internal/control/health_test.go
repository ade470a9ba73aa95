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

// A status is of a spec as it is written, but for times that this leaves open; of which one the status of a release is that tells
// none is not known.
func TestActsOn(t *testing.T) {
	written := cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.6.16"), Options: map[string]string{"a": "b"}}
	told := written
	told.DeadAfter, told.AutoRecoverAfter = time.Minute, time.Hour
	if is, known := (Status{Spec: &told}).ActsOn(written); !is || !known {
		t.Error("it has times of its own where the spec has none, and is of another one")
	}
	if _, known := (Status{}).ActsOn(written); known {
		t.Error("no spec is told, and it is known which one")
	}
	for what, change := range map[string]func(s *cluster.Spec){
		"the count": func(s *cluster.Spec) { s.MemberCount = 5 },
		"options":   func(s *cluster.Spec) { s.Options = nil },
		"a time":    func(s *cluster.Spec) { s.DeadAfter = time.Hour },
	} {
		now := written
		change(&now)
		if is, _ := (Status{Spec: &told}).ActsOn(now); is {
			t.Errorf("%s is another, and it is of that", what)
		}
	}
}
