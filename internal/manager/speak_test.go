package manager

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/say"
	"etcdadm.io/plan"
)

// What is said is what changed: a decision is not said again because one of its
// blockers came, changed or went.
func TestSpeakerSaysWhatChanged(t *testing.T) {
	var out bytes.Buffer
	s := speaker{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))}
	now := time.Unix(0, 0)
	silent := plan.Blocker{Code: "store-silent", Sentence: plan.Say("the store is away")}
	skew := plan.Blocker{Code: "clock-skew", Sentence: plan.Say("{skew} ahead", 12*time.Second), Command: "fix it"}
	steady := plan.Decision{Rule: "steady", Reason: plan.Say("all is well"), Done: true}
	with := func(d plan.Decision, b ...plan.Blocker) plan.Decision {
		d.Blockers = b
		return d
	}
	for _, step := range []struct {
		d    plan.Decision
		want []string
	}{
		{steady, []string{"msg=decision"}},
		{steady, nil},
		{with(steady, silent), []string{"msg=blocked code=store-silent"}},
		{with(steady, silent, skew), []string{"msg=blocked code=clock-skew"}},
		{with(steady, silent, plan.Blocker{Code: "clock-skew", Sentence: plan.Say("{skew} ahead", 13*time.Second), Command: "fix it"}), nil},
		{with(steady, skew), []string{`msg="no longer blocked" code=store-silent still=clock-skew`}},
		{with(plan.Decision{Rule: "grow", Reason: plan.Say("more")}, skew), []string{"msg=decision rule=grow"}},
		{steady, []string{"msg=decision rule=steady", `msg="no longer blocked" code=clock-skew`}},
		{plan.Decision{Rule: "quorum", Reason: plan.Say("the store is away"), Blockers: []plan.Blocker{silent}}, []string{"msg=decision rule=quorum", "msg=blocked code=store-silent"}},
		// What is wrong is called otherwise: that is no all-clear, and the end of that is said, too.
		{plan.Decision{Rule: "steady", Reason: plan.Say("2 of 3 voters are up"), Blockers: []plan.Blocker{{Code: "member-down", Sentence: plan.Say("2 of 3 voters are up")}}},
			[]string{"msg=decision rule=steady", "msg=blocked code=member-down", `msg="blocked by something else now" code=store-silent now=member-down`}},
		// Neither is a step, which is decided before all has been looked at.
		{plan.Decision{Rule: "replace-dead", Reason: plan.Say("write it down"), Action: &plan.Action{Kind: plan.ActIntent}}, []string{"msg=decision rule=replace-dead"}},
		{steady, []string{"msg=decision rule=steady", `msg="no longer blocked" code=member-down`}},
	} {
		out.Reset()
		now = now.Add(time.Minute)
		s.say(step.d, now)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if out.Len() == 0 {
			lines = nil
		}
		ok := len(lines) == len(step.want)
		for i := range step.want {
			ok = ok && strings.HasPrefix(lines[i], step.want[i])
		}
		if !ok {
			t.Fatalf("%+v: said %q, want %q", step.d, lines, step.want)
		}
	}
}

// What does not work is said when its reason changes, and each try of a store is on an
// object of another name.
func TestSaidOnce(t *testing.T) {
	var out bytes.Buffer
	said := say.NewOnce(slog.New(slog.NewTextHandler(&out, nil)))
	for i, step := range []struct {
		text  string
		lines int
	}{
		{`put "control/.etcdadm-probe-k6ch2ewscq3pavs2": no answer within 2s`, 1},
		{`put "control/.etcdadm-probe-tvlbomimzghfaced": no answer within 3s`, 1},
		{`put "control/.etcdadm-probe-tvlbomimzghfaced": not allowed`, 2},
		{"list backups: it was given up after 12000 objects in 4s: no answer", 3},
		{"list backups: it was given up after 9000 objects in 4s: no answer", 3},
		{"", 4},
	} {
		var err error
		if step.text != "" {
			err = errors.New(step.text)
		}
		said.Say("probe", "the store cannot be tried out", err)
		if n := strings.Count(out.String(), "\n"); n != step.lines {
			t.Errorf("step %d: %d lines, want %d:\n%s", i, n, step.lines, out.String())
		}
	}
}

// A store that refuses now one object and now another is told of once in a while, not at
// each look; what is new is told at once.
func TestSpeakerDoesNotRepeatAlternatingWords(t *testing.T) {
	var out bytes.Buffer
	s := speaker{log: slog.New(slog.NewTextHandler(&out, nil))}
	now := time.Unix(0, 0)
	say := func(sentence string, after time.Duration) bool {
		out.Reset()
		now = now.Add(after)
		d := plan.Decision{Rule: "steady", Reason: plan.Say("all is well"), Done: true}
		if sentence != "" {
			d.Blockers = []plan.Blocker{{Code: "store-silent", Sentence: plan.Say("{trouble}", sentence)}}
		}
		s.say(d, now)
		return strings.Contains(out.String(), "msg=blocked")
	}
	for i, step := range []struct {
		sentence string
		after    time.Duration
		said     bool
	}{
		{"get spec: slow down", 0, true},
		{"get intent: slow down", 3 * time.Second, true},
		{"get spec: slow down", 3 * time.Second, false},
		{"get intent: slow down", 3 * time.Second, false},
		{"get intent: denied", 3 * time.Second, true},
		{"get intent: slow down", 10 * time.Minute, true}, // that was long ago
		{"get intent: denied", 3 * time.Second, false},    // it was so until just now
		{"", 3 * time.Second, false},
		{"get intent: denied", 3 * time.Second, true}, // it had gone
	} {
		if said := say(step.sentence, step.after); said != step.said {
			t.Errorf("step %d, %q: said %t, want %t\n%s", i, step.sentence, said, step.said, &out)
		}
	}
}
