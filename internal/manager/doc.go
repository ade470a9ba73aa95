// Package manager is the loop: observe, plan, act. It gossips with the other
// daemons, and while this host leads it looks at every host and the store,
// asks the planner for the next step, says what was decided, takes the step
// and looks again.
//
//	ping ─► election ─► leading? ─► read store ∥ observe hosts under the fence
//	                                   ─► fold ─► plan ─► say ─► act ─► again
//
// The manager holds no opinion about health, quorum or membership: those are
// plan's, and a step is taken exactly as planned. What it guarantees:
//
//   - nothing new is begun once this host has stopped leading: leadership is a
//     context, and every step is taken under it;
//   - what could not be seen becomes a gap in the observation, never an
//     absence, and nothing that is slow or dead holds up a tick beyond its
//     deadline;
//   - one fence per leadership, raised only as rule 6 of SAFETY.md allows;
//   - names and tokens are minted here and made durable before use;
//   - a decision is said when it changes, not whenever it is made.
//
// New starts nothing; Run starts everything and has joined it when it returns.
package manager
