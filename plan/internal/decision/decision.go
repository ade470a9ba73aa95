package decision

import (
	"encoding/json"
	"time"

	"etcdadm.io/plan/internal/words"
)

// Blocker is something that keeps the goal from being reached, with the way
// out where there is one.
type Blocker struct {
	// Code names the page of docs/operations.
	Code string
	// Sentence says what is so, and has the facts of it.
	Sentence words.Text
	Command  string // lifts it, and can be pasted
	// Advice is what a person does about it that no command of this name does, in words;
	// with a command, before it.
	Advice string
	// Rule is whose work waits for a person, since self-management is off; else empty.
	Rule string
}

// blockerJSON is a blocker as it is written. Facts and subject are for programs: the
// sentence has them too.
type blockerJSON struct {
	Code     string          `json:"code"`
	Subject  string          `json:"subject,omitempty"`
	Facts    json.RawMessage `json:"facts,omitempty"`
	Sentence words.Text      `json:"sentence"`
	Command  string          `json:"command,omitempty"`
	Advice   string          `json:"advice,omitempty"`
	Rule     string          `json:"rule,omitempty"`
}

// Subject is the host or member that the blocker is about; empty: the cluster.
func (b Blocker) Subject() string { return b.Sentence.Subject() }

// MarshalJSON has the facts of the sentence beside it.
func (b Blocker) MarshalJSON() ([]byte, error) {
	return json.Marshal(blockerJSON{b.Code, b.Subject(), b.Sentence.RawFacts(), b.Sentence, b.Command, b.Advice, b.Rule})
}

// UnmarshalJSON reads a blocker that another program wrote, with its facts.
func (b *Blocker) UnmarshalJSON(data []byte) error {
	var in blockerJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*b = Blocker{Code: in.Code, Sentence: words.Told(in.Sentence.String(), in.Subject, in.Facts), Command: in.Command, Advice: in.Advice, Rule: in.Rule}
	return nil
}

// Remedy is all that a person is told to do about it, in words; empty: nothing.
func (b Blocker) Remedy() string {
	if b.Advice == "" || b.Command == "" {
		return b.Advice + b.Command
	}
	return b.Advice + ", then: " + b.Command
}

// Decision is the planner's answer.
type Decision struct {
	Rule     string     `json:"rule"`
	Reason   words.Text `json:"reason"`
	Action   *Action    `json:"action,omitempty"`
	Blockers []Blocker  `json:"blockers,omitempty"`
	// Again is when to look again if nothing wakes the loop before; zero
	// leaves it to the loop.
	Again time.Duration `json:"again,omitempty"`
	// Done: the goal is reached.
	Done bool `json:"done,omitempty"`
	// Settled: nothing is left to be done for the spec, whatever is looked after meanwhile.
	Settled bool `json:"-"`
	// Upkeep: what it does is not for the spec.
	Upkeep bool `json:"-"`
	// Refused: the goal cannot be reached by waiting; Blockers say why.
	Refused bool `json:"refused,omitempty"`
	// Stuck: what it waits for may never come by itself.
	Stuck bool `json:"-"`
	// Passes: it waits for the end of a pause, which may take hours, and keeps no later rule
	// from its work.
	Passes bool `json:"-"`
}

// Soon is when to look again at something that is on its way, such as a
// member that was started and does not serve yet.
const Soon = 100 * time.Millisecond

// Later is when to look again at something that needs time, such as a member
// that has to be connected for five seconds.
const Later = 500 * time.Millisecond

// Wait is a decision to do nothing until something changes.
func Wait(again bool, code, command, template string, facts ...any) *Decision {
	s := words.F(template, facts...)
	d := &Decision{Reason: s, Blockers: []Blocker{{Code: code, Sentence: s, Command: command}}}
	if again {
		d.Again = Soon
	}
	return d
}

// WaitLater is Wait for something that no event tells of, such as a member
// that serves again, and that may take its time.
func WaitLater(code, command, template string, facts ...any) *Decision {
	d := Wait(false, code, command, template, facts...)
	d.Again = Later
	return d
}

// Stuck is Wait for something that may never come by itself: a person, or a host that is
// gone, gets it on.
func Stuck(code, command, template string, facts ...any) *Decision {
	d := Wait(true, code, command, template, facts...)
	d.Stuck = true
	return d
}

// Refuse is a decision that a person's step is not taken.
func Refuse(code, command, template string, facts ...any) *Decision {
	d := Wait(false, code, command, template, facts...)
	d.Refused = true
	return d
}

// EndCommand is a decision to end a command of the queue.
func EndCommand(name string, how CommandResult, why string) *Decision {
	return &Decision{
		Reason: words.F("command {command} is {result}: {why}", name, how, why),
		Again:  Soon,
		Upkeep: true,
		Action: &Action{Kind: ActCommand, End: &CommandEnd{Name: name, Result: how, Reason: why}},
	}
}
