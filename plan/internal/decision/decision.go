package decision

import (
	"fmt"
	"time"
)

// Blocker is something that keeps the goal from being reached, with the way
// out where there is one.
type Blocker struct {
	// Code names the page of docs/operations.
	Code     string `json:"code"`
	Sentence string `json:"sentence"`
	Command  string `json:"command,omitempty"` // lifts it, and can be pasted
	// Advice is what a person does about it that no command of this name does, in words;
	// with a command, before it.
	Advice string `json:"advice,omitempty"`
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
	Rule     string    `json:"rule"`
	Reason   string    `json:"reason"`
	Action   *Action   `json:"action,omitempty"`
	Blockers []Blocker `json:"blockers,omitempty"`
	// Again is when to look again if nothing wakes the loop before; zero
	// leaves it to the loop.
	Again time.Duration `json:"again,omitempty"`
	// Done: the goal is reached.
	Done bool `json:"done,omitempty"`
	// Refused: the goal cannot be reached by waiting; Blockers say why.
	Refused bool `json:"refused,omitempty"`
}

// Soon is when to look again at something that is on its way, such as a
// member that was started and does not serve yet.
const Soon = 100 * time.Millisecond

// Later is when to look again at something that needs time, such as a member
// that has to be connected for five seconds.
const Later = 500 * time.Millisecond

// Wait is a decision to do nothing until something changes.
func Wait(again bool, code, command, format string, args ...any) *Decision {
	s := fmt.Sprintf(format, args...)
	d := &Decision{Reason: s, Blockers: []Blocker{{Code: code, Sentence: s, Command: command}}}
	if again {
		d.Again = Soon
	}
	return d
}

// WaitLater is wait for something that no event tells of, such as a member
// that serves again, and that may take its time.
func WaitLater(code, command, format string, args ...any) *Decision {
	d := Wait(false, code, command, format, args...)
	d.Again = Later
	return d
}

// Refuse is a decision that a person's step is not taken.
func Refuse(code, command, format string, args ...any) *Decision {
	d := Wait(false, code, command, format, args...)
	d.Refused = true
	return d
}

func EndCommand(name string, how CommandResult, why string) *Decision {
	return &Decision{
		Reason: fmt.Sprintf("command %s is %s: %s", name, how, why),
		Again:  Soon,
		Action: &Action{Kind: ActCommand, End: &CommandEnd{Name: name, Result: how, Reason: why}},
	}
}
