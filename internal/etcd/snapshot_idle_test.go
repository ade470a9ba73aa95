package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"etcdadm.io/internal/testetcd"
)

// odd is a member whose snapshots go as a function says.
type odd struct {
	pb.UnimplementedMaintenanceServer
	snapshot func(pb.Maintenance_SnapshotServer) error
}

func (o odd) Snapshot(_ *pb.SnapshotRequest, s pb.Maintenance_SnapshotServer) error {
	return o.snapshot(s)
}

// oddMember runs one on a port of its own and gives a driver of it.
func oddMember(t *testing.T, snapshot func(pb.Maintenance_SnapshotServer) error) *Client {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", testetcd.FreePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterMaintenanceServer(server, odd{snapshot: snapshot})
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(l)
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	c, err := New(Config{Endpoints: []string{"http://" + l.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func message(size, remaining int) *pb.SnapshotResponse {
	return &pb.SnapshotResponse{Blob: make([]byte, size), RemainingBytes: uint64(remaining)}
}

// A stream without a byte for too long is ended, wherever it stops, also when
// messages without bytes keep coming; a reader that takes its time is not.
func TestSnapshotIdle(t *testing.T) {
	t.Parallel()
	const idle = 200 * time.Millisecond
	until := func(s pb.Maintenance_SnapshotServer) error { <-s.Context().Done(); return nil }
	for name, snapshot := range map[string]func(pb.Maintenance_SnapshotServer) error{
		"silent from the start": until,
		"silent in the middle": func(s pb.Maintenance_SnapshotServer) error {
			s.Send(message(100, 100))
			return until(s)
		},
		"messages without bytes": func(s pb.Maintenance_SnapshotServer) error {
			s.Send(message(100, 100))
			for s.Context().Err() == nil {
				if err := s.Send(message(0, 100)); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			s, err := oddMember(t, snapshot).snapshot(ctx, idle)
			if err == nil {
				defer s.Close()
				_, err = io.ReadAll(s)
			}
			if !errors.Is(err, errIdle) || !errors.Is(err, ErrNoAnswer) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("slow reader", func(t *testing.T) {
		s, err := oddMember(t, func(s pb.Maintenance_SnapshotServer) error {
			return errors.Join(s.Send(message(100, 100)), s.Send(message(100, 0)), s.Send(message(32, 0)))
		}).snapshot(t.Context(), idle)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		got := 0
		for buf := make([]byte, 80); ; {
			n, err := s.Read(buf)
			got += n
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			// The time itself is what is tested.
			time.Sleep(idle * 3 / 2)
		}
		if got != 232 || s.Size != 200 {
			t.Errorf("%d bytes, announced %d", got, s.Size)
		}
	})
}

// A stream that ends early is not taken for a whole one, however well it ends.
func TestSnapshotCut(t *testing.T) {
	t.Parallel()
	for name, snapshot := range map[string]func(pb.Maintenance_SnapshotServer) error{
		"at once":       func(pb.Maintenance_SnapshotServer) error { return nil },
		"in the middle": func(s pb.Maintenance_SnapshotServer) error { return s.Send(message(100, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := oddMember(t, snapshot).Snapshot(t.Context())
			if err == nil {
				defer s.Close()
				_, err = io.ReadAll(s)
			}
			if !errors.Is(err, ErrSnapshotCut) {
				t.Errorf("got %v", err)
			}
		})
	}
}
