package faults

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"etcdadm.io/e2e/internal/rig"
)

// moment is what the faults of a round come in the middle of.
type moment string

// Faults that come at any time seldom meet what takes less than a second.
const (
	anyMoment    moment = ""
	amidStep     moment = "amid a step"
	amidHandOver moment = "amid a hand-over of raft's leadership"
)

const (
	// stepWithin is how long a round waits for a step. A cluster that has nothing else to do
	// takes a backup in that time; where there is none, the faults come without one.
	stepWithin = 16 * time.Second
	// handsOverWithin bounds a hand-over that the faults came between: etcd gives up after
	// an election timeout.
	handsOverWithin = 5 * time.Second
	logsEvery       = 20 * time.Millisecond // files give no events
)

// decided is a daemon's line about a step that it begins now.
var decided = regexp.MustCompile(`msg=decision rule=(\S+) .* action=("(?:[^"\\]|\\.)*"|\S+)`)

// step is what a daemon has begun, and the host that it is for, if it is for one.
type step struct {
	rule, action string
	of           *rig.Host
}

// nextStep waits for the step that a round comes amid of. When there are fewer it is the last
// one.
func (r *faultRun) nextStep(plan round) (last step, ok bool) {
	r.T.Helper()
	logs, rests := make([]*os.File, len(r.Hosts)), make([][]byte, len(r.Hosts))
	for i, h := range r.Hosts {
		log, err := os.Open(h.Log)
		if err == nil {
			defer log.Close()
			_, err = log.Seek(0, io.SeekEnd)
		}
		if err != nil {
			r.T.Fatalf("follow the log of host %d: %v", h.N, err)
		}
		logs[i] = log
	}
	for began := time.Now(); time.Since(began) < stepWithin; r.waits(logsEvery) {
		for i, log := range logs {
			more, err := io.ReadAll(log)
			if err != nil {
				r.T.Fatalf("follow the log of host %d: %v", r.Hosts[i].N, err)
			}
			text := append(rests[i], more...)
			whole := bytes.LastIndexByte(text, '\n') + 1
			for _, found := range decided.FindAllSubmatch(text[:whole], -1) {
				if plan.own && string(found[1]) == "backup" {
					continue
				}
				if last, ok = r.stepOf(found), true; plan.passed == 0 {
					return last, true
				}
				plan.passed--
			}
			rests[i] = text[whole:]
		}
	}
	return last, ok
}

// stepOf is what a line says.
func (r *faultRun) stepOf(found [][]byte) step {
	s := step{rule: string(found[1]), action: strings.Trim(string(found[2]), `"`)}
	for _, h := range r.Hosts {
		id, err := os.ReadFile(filepath.Join(h.Dir, "myid")) // a wiped host may have none yet
		if id = bytes.TrimSpace(id); err == nil && strings.HasPrefix(s.action, string(id)+":") {
			s.of = h
		}
	}
	return s
}

// cast finds the hosts of a round's faults, and waits for its moment. What is known before
// is looked for before: a step may be over while one asks.
func (r *faultRun) cast(plan round) (hosts []*rig.Host, begin func() (ended func())) {
	r.T.Helper()
	hosts = make([]*rig.Host, len(plan.faults))
	find := func(i int, f planned) {
		if plan.same && i > 0 {
			hosts[i] = hosts[0]
		} else {
			hosts[i] = r.plays(f, hosts)
		}
	}
	for i, f := range plan.faults {
		if f.part != stepsHost && (i == 0 || !plan.same) {
			find(i, f)
		}
	}
	begin = func() func() { return func() {} }
	var now step
	switch plan.moment {
	case amidStep:
		s, ok := r.nextStep(plan)
		if now = s; ok {
			r.say("amid the step of the rule %s: %s", s.rule, s.action)
		} else {
			r.say("nobody began a step within %s", stepWithin)
		}
	case amidHandOver:
		begin = r.handsOver(hosts)
	}
	for i, f := range plan.faults {
		switch {
		case hosts[i] != nil || f.part == noHost:
		case f.part == stepsHost && now.of != nil && !slices.Contains(hosts, now.of):
			hosts[i] = now.of
		default:
			find(i, f)
		}
	}
	return hosts, begin
}

// handsOver makes ready to have raft's leader hand over to one of the hosts that are about
// to be hurt, or to any other. begin does not wait, and ended does.
func (r *faultRun) handsOver(hurt []*rig.Host) (begin func() (ended func())) {
	r.T.Helper()
	nothing := func() func() { return func() {} }
	ctx, cancel := context.WithTimeout(r.T.Context(), handsOverWithin)
	defer cancel()
	var leader, to *rig.Host
	var id uint64
	for _, h := range slices.Concat(slices.DeleteFunc(slices.Clone(hurt), func(h *rig.Host) bool { return h == nil }), r.Hosts) {
		st, err := r.Status(ctx, h.N)
		switch {
		case err != nil || st.IsLearner:
		case st.Leader == st.Header.MemberId:
			leader = h
		case to == nil:
			to, id = h, st.Header.MemberId
		}
	}
	if leader == nil || to == nil {
		r.say("nobody can hand over raft's leadership")
		return nothing
	}
	client, err := r.Dial(leader.ClientURL())
	if err == nil {
		if _, err = client.Status(ctx, leader.ClientURL()); err != nil { // now it is connected
			client.Close()
		}
	}
	if err != nil {
		r.say("raft's leader, host %d, does not answer: %v", leader.N, err)
		return nothing
	}
	return func() func() {
		answered := make(chan error, 1)
		go func() {
			defer client.Close()
			ctx, cancel := context.WithTimeout(r.T.Context(), handsOverWithin)
			defer cancel()
			_, err := client.MoveLeader(ctx, id)
			answered <- err
		}()
		return func() {
			what := fmt.Sprintf("raft's leadership goes from host %d to host %d", leader.N, to.N)
			if err := <-answered; err != nil {
				what += fmt.Sprintf(", which it may not: %v", err)
			}
			r.say("%s", what)
		}
	}
}
