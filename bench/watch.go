package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
)

const (
	pollEvery   = 5 * time.Millisecond
	callTimeout = time.Second
	watchFor    = 90 * time.Second // what a watch waits at most
)

// seat is a member as a client sees it: its address and how to be let in.
type seat struct {
	name     string
	endpoint string // host:port
	tls      *tls.Config
}

// viewer is a connection to one member. Plain gRPC, because the client library
// retries and backs off by itself, and a measure needs to know when.
type viewer struct {
	seat
	conn    *grpc.ClientConn
	status  etcdserverpb.MaintenanceClient
	members etcdserverpb.ClusterClient
	kv      etcdserverpb.KVClient
}

func (s seat) open() (*viewer, error) {
	conn, err := grpc.NewClient("passthrough:///"+s.endpoint,
		grpc.WithTransportCredentials(credentials.NewTLS(s.tls)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: pollEvery, Multiplier: 1, MaxDelay: pollEvery},
			MinConnectTimeout: callTimeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.name, err)
	}
	return &viewer{seat: s, conn: conn, status: etcdserverpb.NewMaintenanceClient(conn),
		members: etcdserverpb.NewClusterClient(conn), kv: etcdserverpb.NewKVClient(conn)}, nil
}

func (v *viewer) close() { v.conn.Close() }

// poll calls look every 5 ms until it finds nothing to object to, and returns
// when that was.
func poll(ctx context.Context, look func(context.Context) error) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, watchFor)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		callCtx, done := context.WithTimeout(ctx, callTimeout)
		err := look(callCtx)
		done()
		if err == nil {
			return time.Now(), nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return time.Time{}, errors.Join(ctx.Err(), err)
		}
	}
}

// voter objects unless the member is one of so many voters, without learners
// beside them, and answers a linearizable read. It asks for what needs a
// leader only once there is one: a read that comes before waits in etcd until
// a retry, and would delay what it measures.
func (v *viewer) voter(ctx context.Context, voters int) error {
	st, err := v.status.Status(ctx, &etcdserverpb.StatusRequest{})
	switch {
	case err != nil:
		return err
	case st.Leader == 0:
		return errors.New("it sees no leader")
	case st.IsLearner:
		return errors.New("it is a learner")
	}
	list, err := v.members.MemberList(ctx, &etcdserverpb.MemberListRequest{Linearizable: true})
	if err != nil {
		return err
	}
	found := false
	for _, m := range list.Members {
		if m.IsLearner {
			return fmt.Errorf("member %x is a learner", m.ID)
		}
		found = found || m.ID == st.Header.MemberId
	}
	if !found || len(list.Members) != voters {
		return fmt.Errorf("there are %d voters, wanted are %d", len(list.Members), voters)
	}
	_, err = v.kv.Range(ctx, &etcdserverpb.RangeRequest{Key: []byte("health")})
	return err
}

// write objects unless a write passes through this member under another leader
// than the old one. As above, it waits for the leader first.
func (v *viewer) write(ctx context.Context, oldTerm uint64) error {
	st, err := v.status.Status(ctx, &etcdserverpb.StatusRequest{})
	switch {
	case err != nil:
		return err
	case st.Leader == 0 || st.RaftTerm <= oldTerm:
		return errors.New("there is no new leader")
	}
	_, err = v.kv.Put(ctx, &etcdserverpb.PutRequest{Key: []byte("bench"), Value: []byte("written")})
	return err
}

// healthy waits until all seats are healthy voters, and tells of each when.
func healthy(ctx context.Context, since time.Time, voters int, seats ...seat) (last time.Time, events []event, err error) {
	type answer struct {
		at  time.Time
		err error
	}
	answers := make([]chan answer, len(seats))
	for i, s := range seats {
		answers[i] = make(chan answer, 1)
		go func() {
			v, err := s.open()
			if err != nil {
				answers[i] <- answer{err: err}
				return
			}
			defer v.close()
			t, err := poll(ctx, func(ctx context.Context) error { return v.voter(ctx, voters) })
			answers[i] <- answer{at: t, err: err}
		}()
	}
	for i, c := range answers {
		a := <-c
		if a.err != nil {
			err = errors.Join(err, fmt.Errorf("%s does not become a healthy voter: %w", seats[i].name, a.err))
			continue
		}
		events = append(events, at(since, a.at, seats[i].name+" is a healthy voter"))
		if a.at.After(last) {
			last = a.at
		}
	}
	return last, events, err
}

// raftLeader names the seat that leads, by its place, and the term.
func raftLeader(ctx context.Context, seats ...seat) (leader int, term uint64, err error) {
	_, err = poll(ctx, func(ctx context.Context) error {
		for i, s := range seats {
			v, err := s.open()
			if err != nil {
				return err
			}
			st, err := v.status.Status(ctx, &etcdserverpb.StatusRequest{}, grpc.WaitForReady(true))
			v.close()
			if err != nil {
				return err
			}
			if st.Leader == st.Header.MemberId {
				leader, term = i, st.RaftTerm
				return nil
			}
		}
		return errors.New("no member leads")
	})
	return leader, term, err
}
