package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"etcdadm.io/internal/host/datadir"
)

// listen takes the daemons' port: on the own address where this machine has
// it, so that several hosts can share a machine, else on all.
func (d *daemon) listen(ctx context.Context) (net.Listener, error) {
	port := strconv.Itoa(d.cfg.GRPCPort)
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort(d.cfg.Address, port))
	if err != nil && !isInUse(err) {
		l, err = config.Listen(ctx, "tcp", net.JoinHostPort("", port))
	}
	if err != nil {
		return nil, &Error{Problem: fmt.Sprintf("listen on port %s of %s for other daemons", port, d.cfg.Address), Err: err, Advice: "another program has the port; stop it, or choose another --grpc-port"}
	}
	return l, nil
}

// portLook is how often a port is tried that a daemon of etcd-manager has.
const portLook = 500 * time.Millisecond

// listenInTurn is listen; where etcd-manager runs on the very data directory, as
// before its member is taken over, it waits until that has ended, as long as a
// person takes for that, and says so every minute.
func (d *daemon) listenInTurn(ctx context.Context) (net.Listener, error) {
	t := time.NewTicker(portLook)
	defer t.Stop()
	began, said := time.Now(), time.Time{}
	for {
		l, err := d.listen(ctx)
		if err == nil {
			return l, nil
		}
		theirs := false
		looked := d.take(ctx, step{"a look at whether etcd-manager has the data directory", []string{d.cfg.DataDir}, func(context.Context) error {
			theirs = datadir.HoldsPredecessor(d.cfg.DataDir)
			return nil
		}})
		switch {
		case looked != nil:
			return nil, looked
		case !theirs:
			return nil, err
		}
		if now := time.Now(); now.Sub(said) >= portSays {
			said = now
			d.log.Warn("etcd-manager, or another program that has this daemon's port, still runs on this host: waiting for its end, however long, to take its member over",
				"port", d.cfg.GRPCPort, "data", d.cfg.DataDir, "since", began.UTC().Format(time.RFC3339), "hint", "stop etcd-manager on this host")
		}
		d.begun.at(step{what: "the end of etcd-manager on this host"})
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-t.C:
		}
	}
}

func isInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
