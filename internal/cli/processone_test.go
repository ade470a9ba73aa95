package cli

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"etcdadm.io/internal/daemon"
)

// The first process of a container takes etcd with it, so it never leaves etcd running.
func TestEndOfADaemon(t *testing.T) {
	for _, one := range []struct {
		signal os.Signal
		on     daemon.SigtermAction
		pid    int
		leaves bool
	}{
		{syscall.SIGTERM, daemon.SigtermStop, 7, false},
		{syscall.SIGTERM, daemon.SigtermLeave, 7, true},
		{syscall.SIGTERM, daemon.SigtermLeave, 1, false},
		{syscall.SIGUSR1, daemon.SigtermStop, 7, true},
		{syscall.SIGUSR1, daemon.SigtermStop, 1, false},
		{os.Interrupt, daemon.SigtermLeave, 7, false},
	} {
		if err := endBy(one.signal, one.on, one.pid); errors.Is(err, daemon.ErrLeaveEtcd) != one.leaves || !one.leaves && !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: %v", one, err)
		}
	}
}
