package versions

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var seed = flag.Uint64("e2e.seed", 9, "what is random in the tests of random paths; 0: chosen, and printed")

// chosenSeed is the seed that was asked for, or any.
func chosenSeed(t *testing.T) uint64 {
	t.Helper()
	chosen := *seed
	if chosen == 0 {
		chosen = rand.Uint64N(1_000_000)
	}
	t.Logf("again with: go test ./e2e -run '^%s$' -e2e.long -e2e.seed=%d", t.Name(), chosen)
	return chosen
}
