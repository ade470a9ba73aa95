package etcdadm

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"etcdadm.io/internal/console"
	"etcdadm.io/internal/setup"
)

// Access is how a cluster's daemons are reached: by the data directory of one on this machine, or by name. The zero
// value is the agent that init or join has set up on this machine.
type Access struct {
	// DataDir is the data directory of a daemon on this machine, which leaves there how the daemons are reached. It is
	// read with the rights of the daemon's user, mostly root's. Empty, without Endpoints: the agent's.
	DataDir string

	// Cluster is its name. With DataDir it may be empty: whichever it is.
	Cluster string
	// Endpoints are daemons, host:port, asked in this order. They are in place of DataDir.
	Endpoints []string
	// Credentials is the directory with the operator's me.crt, me.key and ca.crt, with Endpoints; empty: no TLS.
	Credentials string

	// By is who asks, as others may know them, such as root@host-1: it is told with commands of the queue, and nothing
	// hangs on it. Empty: a program.
	By string
}

// Client asks the daemons of a cluster. Several goroutines may use it at the same time.
type Client struct {
	console *console.Console
	by      string
}

// Connect finds the daemons of a cluster, and asks one of them, so that a wrong name, a wrong certificate or a cluster
// that is down are told here. Close the client.
//
// Errors: ErrNoDaemon; ErrOtherCluster; ErrOtherDisk; what the files say.
func Connect(ctx context.Context, a Access) (*Client, error) {
	at, err := a.find()
	if err != nil {
		return nil, err
	}
	opened, err := console.Open(at)
	if errors.Is(err, console.ErrOtherCluster) {
		err = sorted(ErrOtherCluster, err)
	}
	if err != nil {
		return nil, err
	}
	c := &Client{console: opened, by: cmp.Or(a.By, "a program")}
	if _, err = c.ask(ctx); err == nil {
		return c, nil
	}
	if dir, _ := a.dataDir(); len(a.Endpoints) == 0 { // it was read above
		if refused := console.ReadRefusal(dir); refused != nil {
			err = &console.StartError{Refusal: *refused, Err: err}
		}
	}
	return nil, errors.Join(err, opened.Close())
}

func (a Access) find() (console.Access, error) {
	switch {
	case len(a.Endpoints) > 0 && (a.Cluster == "" || a.DataDir != ""):
		return console.Access{}, errors.New("endpoints need the cluster's name, and no data directory")
	case len(a.Endpoints) > 0:
		return console.Access{Cluster: a.Cluster, Endpoints: a.Endpoints, Credentials: a.Credentials}, nil
	}
	dir, err := a.dataDir()
	if err != nil {
		return console.Access{}, err
	}
	at, err := console.Here(dir, a.Cluster)
	if errors.As(err, new(*console.StartError)) {
		err = sorted(ErrNoDaemon, err)
	}
	return at, err
}

func (a Access) dataDir() (string, error) {
	if a.DataDir != "" {
		return a.DataDir, nil
	}
	s, err := setup.ReadSettings(setup.Paths{})
	if errors.Is(err, setup.ErrNotSetUp) {
		err = sorted(ErrNoDaemon, err)
	}
	return s.Flag("data-dir"), err
}

// Close ends the connections.
func (c *Client) Close() error { return c.console.Close() }

func (c *Client) ask(ctx context.Context) (console.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return c.console.Status(ctx)
}

// led is the leading daemon's report, whose observation is not nil.
func (c *Client) led(ctx context.Context) (console.Report, error) {
	r, err := c.ask(ctx)
	if err == nil && r.Observation == nil {
		err = fmt.Errorf("host %s does not lead, and does not reach the daemon that does: %w", r.Host, ErrNoLeader)
	}
	return r, err
}
