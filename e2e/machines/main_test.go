// Package machines holds tests of what a person does on fresh machines: init, join and what systemd makes of it.
package machines

import (
	"testing"

	"etcdadm.io/e2e/internal/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
