package cli

import (
	"etcdadm.io/internal/release"
	_ "etcdadm.io/internal/testenv" // no test goes by the environment of who runs it
)

// No test goes by what is installed on this machine either.
func init() { release.SystemRoot = "/nonexistent" }
