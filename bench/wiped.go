package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/testetcd"
)

// wipedDisk: a member is killed and its disk is empty when the machine comes
// back. By hand the clock starts with the removal of the dead member; ours
// starts with the daemon on the empty disk, so its own start and finding its
// peers count as well.
func wipedDisk(name, what string, newIdentity bool) measure {
	return measure{
		name: name,
		rows: []row{seconds(what, overByHand(2))},
		hand: replaceByHand,
		ours: func(ctx context.Context, b *bench, dir string) (sample, error) {
			return replaceOurs(ctx, b, dir, newIdentity)
		},
	}
}

func replaceByHand(ctx context.Context, _ *bench, dir string) (sample, error) {
	c, err := settledByHand(ctx, dir, testetcd.V37, 3)
	if err != nil {
		return sample{}, err
	}
	defer c.Close()
	leader, _, err := raftLeader(ctx, seatsByHand(c)...)
	if err != nil {
		return sample{}, err
	}
	victim := (leader + 1) % 3
	client, err := c.NewClient(leader)
	if err != nil {
		return sample{}, err
	}
	defer client.Close()
	dead, err := memberNamed(ctx, client, c.Members[victim].Name)
	if err != nil {
		return sample{}, err
	}
	if err := c.Kill(ctx, victim, syscall.SIGKILL); err != nil {
		return sample{}, err
	}
	began := time.Now()
	if _, err := client.MemberRemove(ctx, dead); err != nil {
		return sample{}, fmt.Errorf("remove the dead member: %w", err)
	}
	removed := at(began, time.Now(), "dead member removed")
	i, err := joinByHand(ctx, c, client)
	if err != nil {
		return sample{}, err
	}
	joined := at(began, time.Now(), "promoted")
	done, events, err := healthy(ctx, began, 3, seatByHand(c, i))
	return took(done.Sub(began), append([]event{removed, joined}, events...)...), err
}

func memberNamed(ctx context.Context, client *clientv3.Client, name string) (uint64, error) {
	list, err := client.MemberList(ctx)
	if err != nil {
		return 0, err
	}
	for _, m := range list.Members {
		if m.Name == name {
			return m.ID, nil
		}
	}
	return 0, fmt.Errorf("no member is named %s", name)
}

// joinByHand adds a member as a learner, starts it and promotes it. Who was
// told that the voters have not been connected for 5 s yet waits for the rest
// of that time, as somebody who knows the rule.
func joinByHand(ctx context.Context, c *testetcd.Cluster, client *clientv3.Client) (int, error) {
	const connectedFor, again = 4800 * time.Millisecond, 50 * time.Millisecond
	first := true
	for {
		i, err := c.Join(ctx)
		if err == nil {
			return i, promoteByHand(ctx, c, client, i)
		}
		if !strings.Contains(err.Error(), "unhealthy cluster") {
			return 0, err
		}
		wait := again
		if first {
			wait, first = connectedFor, false
		}
		if err := pause(ctx, wait); err != nil {
			return 0, err
		}
	}
}

func promoteByHand(ctx context.Context, c *testetcd.Cluster, client *clientv3.Client, i int) error {
	v, err := seatByHand(c, i).open()
	if err != nil {
		return err
	}
	defer v.close()
	id, err := memberNamed(ctx, client, c.Members[i].Name)
	for err != nil && ctx.Err() == nil { // it has not published its name yet
		if err := pause(ctx, pollEvery); err != nil {
			return err
		}
		id, err = memberNamed(ctx, client, c.Members[i].Name)
	}
	_, err = poll(ctx, func(ctx context.Context) error {
		_, err := client.MemberPromote(ctx, id)
		return err
	})
	return err
}

func replaceOurs(ctx context.Context, b *bench, dir string, newIdentity bool) (sample, error) {
	f, err := b.settledFleet(ctx, dir, testetcd.V37, 3, 3)
	if err != nil {
		return sample{}, err
	}
	defer f.close()
	leader, _, err := raftLeader(ctx, f.seats()...)
	if err != nil {
		return sample{}, err
	}
	number, err := f.neither(ctx, leader)
	if err != nil {
		return sample{}, err
	}
	if err := f.hosts[number].wipe(ctx); err != nil {
		return sample{}, err
	}
	if newIdentity {
		f.hosts[number] = f.host("new", number+1)
	}
	h := f.hosts[number]
	began := time.Now()
	if err := h.start(); err != nil {
		return sample{}, err
	}
	done, events, err := healthy(ctx, began, 3, h.seat())
	events = append(events, f.decisions(ctx, began)...)
	if err != nil {
		return sample{Events: events}, errors.Join(err, fmt.Errorf("of host %s", h.id))
	}
	return took(done.Sub(began), events...), nil
}

// neither names a host whose member does not lead and whose daemon does not
// either: that another daemon leads has a measure of its own.
func (f *fleet) neither(ctx context.Context, raftLeader int) (int, error) {
	leader, err := f.leader(ctx)
	if err != nil {
		return 0, err
	}
	for i, h := range f.hosts {
		if i != raftLeader && h != leader {
			return i, nil
		}
	}
	return 0, errors.New("every host leads something")
}
