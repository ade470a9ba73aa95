//go:build race

package plan

// underRace: the race detector watches, which makes everything ten times slower.
const underRace = true
