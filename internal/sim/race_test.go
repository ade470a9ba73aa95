//go:build race

package sim_test

const raced = true

// ordinary is how many seeds are run when nobody says: fewer, since each takes the
// detector ten times as long.
const ordinary = 12
