package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/builtin"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/setup"
	"etcdadm.io/internal/testetcd"
	"etcdadm.io/internal/token"
)

// freshMachines: what somebody with two fresh machines waits for, without a store. By hand it is etcd itself: its first
// election, a learner that is promoted, and etcdctl for scale. Etcd lets a voter be added only once all have been
// connected for 5 s, so a third machine would measure that.
func freshMachines() measure {
	return measure{
		name: "machines",
		rows: []row{
			seconds("etcdadm init → serving", overByHand(1.5)),
			seconds("etcdadm join → voter, empty database", overByHand(1.5)),
			seconds("etcdadm status; by hand etcdctl endpoint status", atMost(0.15)),
		},
		hand: machinesByHand,
		ours: machinesOurs,
	}
}

func machinesByHand(ctx context.Context, _ *bench, dir string) (sample, error) {
	began := time.Now()
	c, err := byHand(dir, testetcd.V37, 1)
	if err != nil {
		return sample{}, err
	}
	defer c.Close()
	served, _, err := healthy(ctx, began, 1, seatsByHand(c)...)
	if err == nil {
		err = pause(ctx, settle)
	}
	if err != nil {
		return sample{}, err
	}
	client, err := c.NewClient(0)
	if err != nil {
		return sample{}, err
	}
	defer client.Close()
	joins := time.Now()
	if _, err := joinByHand(ctx, c, client); err != nil {
		return sample{}, err
	}
	votes, _, err := healthy(ctx, joins, 2, runningByHand(c)...)
	if err != nil {
		return sample{}, err
	}
	release, err := testetcd.Fetch(ctx, testetcd.V37)
	if err != nil {
		return sample{}, err
	}
	certs := c.Certs()
	looked, err := timed(exec.CommandContext(ctx, release.Etcdctl, "--endpoints="+strings.Join(c.Endpoints(), ","),
		"--cacert="+certs.CA, "--cert="+certs.Cert, "--key="+certs.Key, "endpoint", "status"))
	return sample{Values: []float64{served.Sub(began).Seconds(), votes.Sub(joins).Seconds(), looked.Seconds()}}, err
}

func timed(cmd *exec.Cmd) (time.Duration, error) {
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", cmd.Path, err, out)
	}
	return time.Since(began), nil
}

func machinesOurs(ctx context.Context, b *bench, dir string) (sample, error) {
	version, err := cluster.ParseVersion(builtin.Version)
	if err != nil {
		return sample{}, err
	}
	network := fmt.Sprintf("127.%d.%d", 1+rand.IntN(250), rand.IntN(250))
	var agents []*agent
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for _, a := range agents {
			a.end(ctx)
		}
		killUnder(ctx, dir)
	}()
	fresh := func() *agent {
		a := &agent{paths: setup.Paths{Root: filepath.Join(dir, strconv.Itoa(len(agents)+1))}, program: filepath.Join(b.bin, "etcdadm")}
		agents = append(agents, a)
		return a
	}
	address := func() string { return fmt.Sprintf("%s.%d", network, len(agents)) }

	one := fresh()
	began := time.Now()
	first, err := one.machine().Init(ctx, setup.Init{Address: address(), HostID: "h1", Members: 3, Version: version, Wait: time.Minute})
	if err != nil {
		return sample{}, err
	}
	authorities, err := pki.Load(one.paths.PKI(), time.Now())
	if err != nil {
		return sample{}, err
	}
	client, err := clientOf(authorities.Clients)
	if err != nil {
		return sample{}, err
	}
	seats := []seat{{name: "h1", endpoint: address() + ":2379", tls: client}}
	served, _, err := healthy(ctx, began, 1, seats...)
	if err != nil {
		return sample{}, err
	}
	values := []float64{served.Sub(began).Seconds()}
	secret, err := token.Parse(first.Token)
	if err != nil {
		return sample{}, err
	}
	for n := 2; n <= 3; n++ { // the third for status alone
		if err := pause(ctx, settle); err != nil {
			return sample{}, err
		}
		next := fresh()
		began := time.Now()
		if _, err := next.machine().Join(ctx, setup.Join{Endpoint: first.Endpoint, Token: secret, CAHash: first.CAHash, Address: address(), HostID: fmt.Sprintf("h%d", n), Wait: time.Minute}); err != nil {
			return sample{}, err
		}
		seats = append(seats, seat{name: fmt.Sprintf("h%d", n), endpoint: address() + ":2379", tls: client})
		voted, _, err := healthy(ctx, began, n, seats...)
		if err != nil {
			return sample{}, err
		}
		if n == 2 {
			values = append(values, voted.Sub(began).Seconds())
		}
	}
	looked, err := timed(exec.CommandContext(ctx, one.program, "status", "--data-dir="+one.paths.Data()))
	return sample{Values: append(values, looked.Seconds())}, err
}

// agent is a fresh machine below a directory, with its daemon started as the unit does.
type agent struct {
	paths   setup.Paths
	program string
	cmd     *exec.Cmd
}

func (a *agent) machine() *setup.Machine {
	return &setup.Machine{Paths: a.paths, Service: a, Binary: a.program, Build: "bench"}
}

// Check finds nothing to object to: no service manager is asked.
func (a *agent) Check(context.Context) error { return os.MkdirAll(a.paths.Root, 0o700) }

// Active tells whether the agent was started.
func (a *agent) Active(context.Context) (bool, error) { return a.cmd != nil, nil }

// Start starts the agent with the settings that were written.
func (a *agent) Start(context.Context) error {
	settings, err := setup.ReadSettings(a.paths)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(a.paths.Root, "agent.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(a.program, "auto", "--hosts-file="+filepath.Join(a.paths.Root, "hosts"))
	for name, value := range settings {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = log, log
	// Should this program be killed, the agent ends and takes etcd with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	a.cmd = cmd
	return nil
}

func (a *agent) end(ctx context.Context) {
	if a.cmd == nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.cmd.Wait() // how it ended is in its log
	}()
	_ = a.cmd.Process.Kill() // it may have ended
	select {
	case <-ended:
	case <-ctx.Done():
	}
}
