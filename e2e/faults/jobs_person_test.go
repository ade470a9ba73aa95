package faults

import (
	"context"
	"fmt"
	"slices"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// person gives commands while the cluster is hurt: takes a member out, brings it
// back, moves raft's leadership, and another person asks for something else at the
// same time.
type person struct {
	turn   int
	chosen *rig.Host // whom the steps are about
	given  []wanted
}

// wanted is a command and what is so if it says that it was done; nil: nothing that lasts.
type wanted struct {
	command *command
	so      func(ctx context.Context) error
}

// answers are the exit codes by which a command may tell how it ended.
var answers = []int{cli.ExitOK, cli.ExitError, cli.ExitNoCluster, cli.ExitNotLeader, cli.ExitUnsafe, cli.ExitWaiting}

// personCommands hears how the commands of the round before ended, and gives the next.
func (r *faultRun) personCommands() {
	r.T.Helper()
	r.personHears()
	p := &r.person
	asked := r.Hosts[(int(r.s.seed%5)+p.turn)%len(r.Hosts)]
	at := []string{"--data-dir", asked.Dir, "--timeout=40s"}
	give := func(so func(context.Context) error, words ...string) {
		c := r.begin(words...)
		r.say("a person, on host %d: %s", asked.N, c.what)
		p.given = append(p.given, wanted{c, so})
	}
	if p.turn%2 == 0 {
		p.chosen = r.Hosts[(int(r.s.seed/5%5)+2*p.turn)%len(r.Hosts)]
		give(r.hasMember(p.chosen, false), append([]string{"member", "remove", string(p.chosen.ID()), "--hold", "--yes"}, at...)...)
		give(nil, "backup", "--store", r.StoreURL(), "create", "--wait=40s")
	} else {
		give(r.hasMember(p.chosen, true), append([]string{"member", "add", string(p.chosen.ID()), "--hold"}, at...)...)
		other := r.other(p.chosen, uint32(p.turn))
		give(nil, append([]string{"member", "move-leader", string(other.ID())}, at...)...)
	}
	p.turn++
}

// hasMember asks whether a host has a voter, or has no member.
func (r *faultRun) hasMember(h *rig.Host, want bool) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := r.Etcd().MemberList(ctx)
		if err != nil {
			return fmt.Errorf("list members: %w", err)
		}
		for _, m := range list.Members {
			if slices.Contains(m.ClientURLs, h.ClientURL()) {
				if !want || m.IsLearner {
					return fmt.Errorf("host %d has the member %x, a learner: %t", h.N, m.ID, m.IsLearner)
				}
				return nil
			}
		}
		if want {
			return fmt.Errorf("host %d has no member", h.N)
		}
		return nil
	}
}

// personHears waits for the ends of the commands. What said that it was done is found so
// soon after its answer was heard. Whether it stays so is not looked at.
func (r *faultRun) personHears() {
	r.T.Helper()
	for _, w := range r.person.given {
		answer := <-w.command.done
		r.say("exit code %d: %s", answer.Code, w.command.what)
		if !slices.Contains(answers, answer.Code) {
			r.T.Errorf("a person is left without an answer: %s", answer)
		}
		if answer.Code == cli.ExitOK && w.so != nil {
			rig.Eventually(r.T, rig.Soon, w.command.what+" is done", w.so)
		}
	}
	r.person.given = nil
}

// personIsDone hears the last answers, and ends the hold.
func (r *faultRun) personIsDone() {
	r.T.Helper()
	r.personHears()
	answer := r.Etcdadm("seed", "--yes", r.StoreURL(), "--version", r.s.version, "--nodes", fmt.Sprint(r.s.members))
	if answer.Code != cli.ExitOK {
		r.T.Fatalf("end the hold: %s", answer)
	}
}
