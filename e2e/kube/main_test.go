// Package kube has clusters whose control record is in a real Kubernetes API server.
package kube

import (
	"testing"

	"etcdadm.io/e2e/internal/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
