package etcdadm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"etcdadm.io"
)

// How a program on a host asks the cluster of that host.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := etcdadm.Connect(ctx, etcdadm.Access{DataDir: "/var/lib/etcdadm"})
	if err != nil {
		log.Fatal(err, "; ", etcdadm.Hint(err))
	}
	defer c.Close()
	s, err := c.Status(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Cluster, s.Healthy)
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
		return listed && s.Healthy
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
