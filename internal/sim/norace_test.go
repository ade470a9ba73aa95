//go:build !race

package sim_test

const raced = false

// ordinary is how many seeds are run when nobody says.
const ordinary = 100
