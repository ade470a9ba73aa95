//go:build !race

package sim

const Raced = false

// Ordinary is how many seeds are run when nobody says.
const Ordinary = 100
