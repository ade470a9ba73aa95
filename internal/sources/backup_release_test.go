package sources

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"etcdadm.io/backup"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/testetcd"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// restarted is a member that is another one from some call of its status on.
type restarted struct {
	pb.UnimplementedMaintenanceServer
	asked   atomic.Int64
	from    int64
	version string
	member  uint64
}

func (r *restarted) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	st := &pb.StatusResponse{Header: &pb.ResponseHeader{ClusterId: 12, MemberId: 9, Revision: 1}, Version: "3.5.26"}
	if r.asked.Add(1) >= r.from {
		st.Version, st.Header.MemberId = r.version, r.member
	}
	return st, nil
}

func (r *restarted) Snapshot(_ *pb.SnapshotRequest, s pb.Maintenance_SnapshotServer) error {
	database := make([]byte, 4096)
	sum := sha256.Sum256(database)
	return s.Send(&pb.SnapshotResponse{Blob: append(database, sum[:]...)})
}

// TestBackupOfWhatAnswersNow: beside a backup stands what it was read from, and not what
// answered a moment before; a restore takes that for what wrote it.
func TestBackupOfWhatAnswersNow(t *testing.T) {
	for _, c := range []struct {
		name, version string
		member        uint64
		from          int64
		fails         bool
	}{
		{"the same", "3.5.26", 9, 2, false},
		{"the next line", "3.6.16", 9, 2, true},
		{"another member", "3.5.26", 8, 2, true},
		{"the next line all the time", "3.6.16", 9, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var lc net.ListenConfig
			l, err := lc.Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", testetcd.FreePort(t)))
			if err != nil {
				t.Fatal(err)
			}
			server := grpc.NewServer()
			pb.RegisterMaintenanceServer(server, &restarted{from: c.from, version: c.version, member: c.member})
			ended := make(chan struct{})
			go func() { defer close(ended); server.Serve(l) }()
			defer func() { server.Stop(); <-ended }()
			client, err := etcd.New(etcd.Config{Endpoints: []string{"http://" + l.Addr().String()}})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			catalogue := backupstore.New(memory.New())
			b, err := SnapshotInto(t.Context(), client, catalogue, backupstore.Packing{}, backupstore.Request{Manifest: backup.Manifest{Cluster: "test"}})
			if c.fails {
				if err == nil || !strings.Contains(err.Error(), "restarted while its backup began") {
					t.Errorf("%+v, %v", b, err)
				}
				return
			}
			if err != nil || b.Meta.EtcdVersion.String() != c.version {
				t.Errorf("%+v, %v", b.Meta, err)
			}
		})
	}
}
