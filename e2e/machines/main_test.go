// Package machines tests init and join on fresh machines, and the agent under systemd.
package machines

import (
	"testing"

	"etcdadm.io/e2e/internal/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
