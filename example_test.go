package etcdadm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"etcdadm.io"
	"etcdadm.io/cluster"
	"etcdadm.io/plan"
)

// How a program on a host asks the cluster of that host.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := etcdadm.Connect(ctx, etcdadm.Access{})
	if err != nil {
		log.Fatal(err, "; ", etcdadm.Hint(err))
	}
	defer c.Close()
	s, err := c.Status(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Cluster, s.Health)
}

// Whoever asks from elsewhere names daemons, and has the operator's certificate.
func ExampleConnect() {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	c, err := etcdadm.Connect(ctx, etcdadm.Access{
		Cluster:   "etcd",
		Endpoints: []string{"127.0.0.1:1", "127.0.0.1:2"},
		// Credentials: "/etc/monitoring/etcdadm",
	})
	if errors.Is(err, etcdadm.ErrNoDaemon) {
		fmt.Println("nobody runs there")
		return
	}
	defer c.Close()
	// Output: nobody runs there
}

func ExampleClient_Status() {
	var c *etcdadm.Client // of Connect
	healthy := func(ctx context.Context) bool {
		s, err := c.Status(ctx)
		if err != nil || s.Observation == nil {
			return false
		}
		roster, listed := s.Observation.Roster()
		for _, seat := range roster.Seats {
			fmt.Println(seat.HostID, seat.Up, seat.Why)
		}
		return listed && s.Health == etcdadm.Well
	}
	_ = healthy
}

func ExampleClient_Plan() {
	var c *etcdadm.Client // of Connect
	next := func(ctx context.Context) error {
		d, err := c.Plan(ctx)
		if err != nil {
			return err // of ErrNoLeader: ask again
		}
		fmt.Println(d.Rule, d.Reason)
		for _, b := range d.Blockers {
			fmt.Println(b.Code, b.Sentence)
		}
		return nil
	}
	_ = next
}

// A backup before something is tried.
func ExampleClient_Backup() {
	var c *etcdadm.Client // of Connect
	before := func() (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		b, err := c.Backup(ctx)
		if err != nil {
			return "", fmt.Errorf("%w; %s", err, etcdadm.Hint(err))
		}
		return b.Name, nil
	}
	_ = before
}

// The cluster goes back to a backup.
func ExampleClient_Restore() {
	var c *etcdadm.Client // of Connect
	back := func(name string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
		defer cancel()
		err := c.Restore(ctx, name, etcdadm.Restoring{Say: func(s string) { log.Print("waiting: ", s) }})
		switch {
		case errors.Is(err, etcdadm.ErrNoBackup), errors.Is(err, etcdadm.ErrRefused):
			return fmt.Errorf("%w; nothing was changed", err)
		case errors.Is(err, etcdadm.ErrWaiting):
			return fmt.Errorf("%w; %s", err, etcdadm.Hint(err))
		}
		return err
	}
	_ = back
}

func ExampleClient_Backups() {
	var c *etcdadm.Client // of Connect
	newest := func(ctx context.Context) (string, error) {
		all, err := c.Backups(ctx)
		if err != nil {
			return "", err
		}
		for _, b := range all { // the newest first
			if b.Proven {
				return b.Name, nil
			}
		}
		return "", etcdadm.ErrNoBackup
	}
	_ = newest
}

// A member is replaced by hand, as before its host is taken down for good.
func ExampleClient_Apply() {
	var c *etcdadm.Client // of Connect
	replace := func(host cluster.HostID) error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		done, err := c.Apply(ctx, plan.Goal{Kind: plan.Replace, Host: host})
		for _, s := range done.Steps {
			fmt.Println(s.Reason)
		}
		switch {
		case errors.Is(err, etcdadm.ErrRefused):
			return fmt.Errorf("%w; %s", err, etcdadm.Hint(err))
		case errors.Is(err, etcdadm.ErrWaiting) && len(done.Steps) == 0:
			return fmt.Errorf("%w; nothing was begun, and nothing will be", err)
		}
		return err
	}
	_ = replace
}

// What the step would begin with, and whether it would be refused.
func ExampleClient_PlanStep() {
	var c *etcdadm.Client // of Connect
	first := func(ctx context.Context, host cluster.HostID) (bool, error) {
		d, err := c.PlanStep(ctx, plan.Goal{Kind: plan.Leave, Host: host, Hold: true})
		if errors.Is(err, etcdadm.ErrRefused) {
			return false, nil
		}
		fmt.Println(d.Reason, d.Action)
		return err == nil, err
	}
	_ = first
}

// The first host of a cluster, as root on a fresh machine with systemd. The invitation goes to the others by a way that
// keeps it secret.
func ExampleInit() {
	first := func(ctx context.Context, program string) (etcdadm.Invitation, error) {
		m := etcdadm.Machine{Program: program, Say: func(s string) { log.Print(s) }}
		host, invitation, err := etcdadm.Init(ctx, m, etcdadm.NewCluster{Members: 3})
		switch {
		case errors.Is(err, etcdadm.ErrRefused):
			return invitation, fmt.Errorf("%w; nothing was changed; %s", err, etcdadm.Hint(err))
		case errors.Is(err, etcdadm.ErrWaiting):
			return invitation, fmt.Errorf("%w; call Init again to wait on", err)
		case err != nil:
			return invitation, err
		}
		fmt.Println("etcd serves at", host.Etcd)
		return invitation, nil
	}
	_ = first
}

// The second and the third one.
func ExampleJoin() {
	next := func(ctx context.Context, program string, i etcdadm.Invitation) error {
		host, err := etcdadm.Join(ctx, etcdadm.Machine{Program: program}, i, etcdadm.Joining{})
		if err != nil {
			return err
		}
		fmt.Println(host.Host, "votes, or stands by:", host.Spare)
		return nil
	}
	_ = next
}

// A machine is taken out of its cluster again; what it had is set aside.
func ExampleReset() {
	leave := func(ctx context.Context, program string) error {
		former, err := etcdadm.Reset(ctx, etcdadm.Machine{Program: program}, etcdadm.Resetting{})
		if errors.Is(err, etcdadm.ErrRefused) {
			return fmt.Errorf("the cluster needs this machine: %w", err)
		}
		if err != nil {
			return err
		}
		fmt.Println(former.Host, "left cluster", former.Cluster)
		return nil
	}
	_ = leave
}

// An invitation shows its secret to nobody who prints it.
func ExampleInvitation() {
	i := etcdadm.Invitation{Endpoint: "192.0.2.1:8000", Token: "k3v9qd.secret", CAHash: "sha256:…"}
	fmt.Printf("%v, %+v, %#v\n", i, i, i)
	// Output: invitation to 192.0.2.1:8000, invitation to 192.0.2.1:8000, invitation to 192.0.2.1:8000
}
