package etcd

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"etcdadm.io/internal/testetcd"
)

// disarmed is a member that notes which alarms it is asked to take back.
type disarmed struct {
	pb.UnimplementedMaintenanceServer
	mu   sync.Mutex
	asks []string
}

func (d *disarmed) Alarm(_ context.Context, r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asks = append(d.asks, fmt.Sprint(r.Action, " ", r.Alarm, " ", r.MemberID))
	return &pb.AlarmResponse{Header: &pb.ResponseHeader{}}, nil
}

// One alarm of one member is taken back. NONE would be taken for a success although
// nothing is: it is refused, as a word is that etcd does not know.
func TestDisarm(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", testetcd.FreePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	member, server, done := &disarmed{}, grpc.NewServer(), make(chan struct{})
	pb.RegisterMaintenanceServer(server, member)
	go func() { defer close(done); server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done })
	c, err := New(Config{Endpoints: []string{"http://" + l.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, alarm := range []string{"NONE", "none", "NOSPACES", ""} {
		if err := c.Disarm(t.Context(), alarm, 7); err == nil {
			t.Errorf("%q was taken back", alarm)
		}
	}
	for _, alarm := range []string{"NOSPACE", "CORRUPT"} {
		if err := c.Disarm(t.Context(), alarm, 7); err != nil {
			t.Errorf("%q: %v", alarm, err)
		}
	}
	if got := fmt.Sprint(member.asks); got != "[DEACTIVATE NOSPACE 7 DEACTIVATE CORRUPT 7]" {
		t.Errorf("asked was %s", got)
	}
}

// What is given to a defragmentation grows with what is in use: a disk that writes five
// megabytes a second gets through, with a minute to spare and not much more.
func TestDefragTimeout(t *testing.T) {
	t.Parallel()
	for _, megabytes := range []int64{0, 1, 761, 8 << 10, 100 << 10} {
		writing := time.Duration(megabytes/5) * time.Second
		if got := DefragTimeout(megabytes << 20); got < writing+time.Minute || got > writing+time.Minute+time.Second {
			t.Errorf("%d MB get %s, and are written in %s", megabytes, got, writing)
		}
	}
}

// A member of version 2 whose ID cannot be read is none.
func TestMemberWithoutAnID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "x", "1ffffffffffffffff"} {
		if m, err := (v2Member{ID: id}).member(); err == nil {
			t.Errorf("%q: %+v", id, m)
		}
	}
	if m, err := (v2Member{ID: "a"}).member(); err != nil || m.ID != 10 {
		t.Errorf("%+v, %v", m, err)
	}
}
