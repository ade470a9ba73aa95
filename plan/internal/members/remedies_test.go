package members

import (
	"slices"
	"testing"

	"etcdadm.io/cluster"
)

// TestEveryConditionHasItsRemedy: each condition has a row of its own in the table, for
// voters and for learners, or stands here with why it has none.
func TestEveryConditionHasItsRemedy(t *testing.T) {
	const silent = "silence alone tells, by the row of --dead-after"
	without := map[seatKind]map[cluster.Condition]string{
		voters: {
			cluster.ConditionUp:           "nothing is wrong with it",
			cluster.ConditionStarting:     "it began a moment ago",
			cluster.ConditionNeverStarted: "it is started by rule finish-joining",
			cluster.ConditionLeaderless:   "it answers, and the quorum is what it lacks (rule quorum)",
			cluster.ConditionUnread:       "it answers, and the quorum is what it lacks (rule quorum)",
			cluster.ConditionAway:         silent, cluster.ConditionUncarried: silent, cluster.ConditionStopped: silent, cluster.ConditionUnwritten: silent, cluster.ConditionGivenUp: silent,
			cluster.ConditionForeign:    "a person has to look at what is not its host's; silence counts as ever",
			cluster.ConditionImpostor:   "a person has to look at what answers in its place",
			cluster.ConditionUnpromised: "another leader may be at work there",
		},
		learners: {
			cluster.ConditionUp:           "nothing is wrong with it; it may still catch up",
			cluster.ConditionStarting:     "it began a moment ago",
			cluster.ConditionNeverStarted: "it is started by rule finish-joining",
			cluster.ConditionLeaderless:   "it answers, and raft's leader comes back by itself",
			cluster.ConditionUnread:       "it serves no reads before it has caught up",
			cluster.ConditionStopped:      "its host starts it, or says why it does not",
			cluster.ConditionForeign:      "a person has to look at what is not its host's",
			cluster.ConditionImpostor:     "a person has to look at what answers in its place",
			cluster.ConditionUnpromised:   "another leader may be at work there",
			cluster.ConditionDiffering:    "keys of voters only are compared",
		},
	}
	for kind, reasons := range without {
		for _, c := range cluster.Conditions() {
			has := slices.ContainsFunc(remedies, func(r row) bool { return r.of == kind && slices.Contains(r.in, c) })
			if _, none := reasons[c]; has == none {
				t.Errorf("learner %t, %s: a row %t, a reason to have none %t", kind == learners, c, has, none)
			}
		}
	}
}

// TestEveryRowIsAsked: a row of a remedy that no rule asks of that kind of member would be
// read by nobody (docs/architecture.md has who asks).
func TestEveryRowIsAsked(t *testing.T) {
	asked := map[seatKind][]Remedy{
		voters:   {RemedyReplace, remedyRestart, remedyGiveBack},
		learners: {RemedyRemove, remedyRestart},
	}
	for i, r := range remedies {
		if !slices.Contains(asked[r.of], r.remedy) {
			t.Errorf("row %d: no rule asks for that remedy of such a member", i)
		}
	}
}
