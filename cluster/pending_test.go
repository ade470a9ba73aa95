package cluster

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestEveryVoterSetIsRecorded holds calls that change the voters, lets others
// come in between, and makes the held ones late: whatever the voters come to
// be, the intent has it.
func TestEveryVoterSetIsRecorded(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		in := &Intent{Generation: 1}
		actual := votersOf(1, 2, 3)
		in.Voters = actual
		type call struct {
			member MemberID
			add    bool
		}
		var held []call
		fresh := MemberID(3)
		for step := range 30 {
			switch {
			case len(held) < MostPending && r.IntN(2) == 0: // a leader begins a change of what it sees
				if !SameVoters(in.Voters, actual) {
					in.Settle(actual)
				}
				fresh++ // etcd gives no member ID twice
				c := call{member: fresh, add: true}
				if r.IntN(2) == 0 {
					c = call{member: actual[r.IntN(len(actual))].Member}
				}
				if next := made(actual, c.member, c.add); len(next) > 0 && !SameVoters(next, in.Next) {
					in.Supersede(next)
					held = append(held, c)
				}
			case len(held) > 0: // one is made, whatever happened since
				i := r.IntN(len(held))
				actual = made(actual, held[i].member, held[i].add)
				held = slices.Delete(held, i, i+1)
			}
			if r.IntN(8) == 0 {
				in.Supersede(nil)
			}
			if len(held) == 0 {
				in.Settle(actual)
				in.Next, in.Pending = nil, nil
			}
			if len(actual) == 0 {
				break
			}
			if !slices.ContainsFunc(in.VoterSets(), func(s []Voter) bool { return SameVoters(s, actual) }) {
				t.Fatalf("seed %d, step %d: the voters are %v, and the intent has %v", seed, step, actual, in.VoterSets())
			}
		}
	}
}

func votersOf(ids ...MemberID) (out []Voter) {
	for _, id := range ids {
		out = append(out, Voter{Member: id})
	}
	return out
}

func made(s []Voter, id MemberID, add bool) []Voter {
	out := slices.DeleteFunc(slices.Clone(s), func(v Voter) bool { return v.Member == id })
	if add {
		out = append(out, Voter{Member: id})
	}
	return out
}

func TestPendingEndsWithWhatIsMade(t *testing.T) {
	in := &Intent{Voters: votersOf(1, 2, 3), Next: votersOf(1, 2, 3, 4)}
	in.Settle(votersOf(1, 2, 3, 4))
	if in.Next != nil || in.Pending != nil || len(in.VoterSets()) != 1 {
		t.Fatalf("%+v", in)
	}
}
