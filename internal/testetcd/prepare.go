package testetcd

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Usual lists the releases that tests build where they are missing, those of most tests
// first.
func Usual() []string { return []string{V36, V37, V35, V34} }

// Aged lists releases that no test builds: a test of one is skipped where the cache lacks
// it. Command fetch builds them, and .ci/run begins with that.
func Aged() []string { return []string{V32, V33, V23} }

// Prepare fetches releases before the first test of a package, in TestMain: a build is
// no part of any test, and Go's time limit for tests begins after it. It gives up after
// a time, for the go command ends a test program a minute after that limit, whatever it
// does; what is compiled by then is kept, and the next who asks goes on with it. So an
// error is no more than a line here: the test that needs the release says why it has
// none.
func Prepare(within time.Duration, versions ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, v := range versions {
		if _, err := Fetch(ctx, v); err != nil {
			fmt.Fprintf(os.Stderr, "before the tests: %v\n", err)
		}
	}
}
