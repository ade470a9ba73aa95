package cluster

import "time"

// Pause is one host's.
type Pause struct {
	// ID names it: made by who asks, never used before. Empty: nobody waits for a word that the
	// host may go, and the pause only excuses silence.
	ID   string `json:"id,omitempty"`
	Host HostID `json:"host"`
	// From is when it was asked for, or when it was last about to be granted, by the clock of
	// most hosts; zero: who asked did not say.
	From time.Time `json:"from,omitzero"`
	// Until is its end by that clock; zero: it was asked for, and not granted. For is how long
	// it is to last from the grant.
	Until  time.Time     `json:"until,omitzero"`
	For    time.Duration `json:"for,omitempty"`
	Reason string        `json:"reason"`
	By     string        `json:"by,omitempty"` // who asked for it, as they are called where they typed
	// Outage: who asked knows that too few voters are left to serve meanwhile.
	Outage bool `json:"outage,omitempty"`
	// Ended: who asked for it, or another person, ended it, at Until. Nothing else than this,
	// and its host's own clock, ends a pause that was granted.
	Ended bool `json:"ended,omitempty"`
}

// PauseRefused is a pause that a host was to be granted and could not take.
type PauseRefused struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}
