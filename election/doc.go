// Package election is the weak leader's state machine: [Step] takes a state,
// an event and the time, and returns the next state and what changed. It
// reads no clock and sends nothing; the caller feeds it the pings that it
// hears, lets time pass with [Tick], and tells others what [State.Stand] says.
//
//	for each event {
//		state, effects = election.Step(state, event, now)
//		// start or stop leading, as the effects say
//	}
//	// and again at state.Next(), if nothing happens before
//
// The rule: of the hosts that are live and fit, whoever leads already goes on,
// and where nobody does, the lowest ID leads. Daemons that are all in sight of
// each other therefore agree without a vote, and agree again within
// [PeerTimeout] of a change; and a daemon that comes back, or is new, takes the
// lead from nobody. Of two that lead, as after a cut that has healed, the one
// whose last look found a quorum goes on, and then the one with the higher
// fence. Nothing relies on there being one leader: fences and promises keep two
// of them apart (SAFETY.md).
//
// A daemon that has just started settles first: it listens for a moment, so
// that daemons that start together do not lead one after the other. While it
// settles it names no leader in its pings.
package election
