//go:build race

package sim

// Raced says whether the race detector looks on.
const Raced = true

// Ordinary is how many seeds are run when nobody says: fewer, since each takes the
// detector ten times as long.
const Ordinary = 12
