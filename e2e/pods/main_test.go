package pods

import (
	"testing"

	"etcdadm.io/e2e/internal/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
