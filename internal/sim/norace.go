//go:build !race

package sim

// Raced says whether the race detector looks on.
const Raced = false

// Ordinary is how many seeds are run when nobody says.
const Ordinary = 50
