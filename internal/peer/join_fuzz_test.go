package peer

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"testing"

	"etcdadm.io/internal/peer/peerpb"
	"etcdadm.io/internal/pki"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// counting lets everybody in.
type counting struct{ in int }

func (c *counting) Join(context.Context, string, JoinRequest) (JoinReply, error) {
	c.in++
	return JoinReply{Cluster: "c1", Host: "h1"}, nil
}

// Whatever arrives on a connection for joining is judged by the Admitter or refused in few words, which repeat nothing
// of the body.
func FuzzJoin(f *testing.F) {
	const secret = "SECRETOFATOKEN"
	header := &peerpb.Header{Protocol: Protocol, Role: string(roleJoiner), Caller: "b"}
	f.Add(envelope(f, header, `{"token":"abcdef.`+secret+`","host":"b","address":"192.0.2.2","build":"x","clock":"2026-11-24T12:00:00Z","try":"1"}`))
	f.Add(envelope(f, header, `{"token":"`+secret+`","color":1}`))
	f.Add(envelope(f, header, `{"token":"`+secret))
	f.Add(envelope(f, header, `{"`+secret+`":1}`))
	f.Add(envelope(f, header, `{"clock":"`+secret+`"}`))
	f.Add(envelope(f, &peerpb.Header{Protocol: 99}, `{}`))
	f.Add([]byte{})
	ctx := grpcpeer.NewContext(f.Context(), &grpcpeer.Peer{
		Addr:     &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 4000},
		AuthInfo: credentials.TLSInfo{State: tls.ConnectionState{ServerName: pki.JoinName, Version: tls.VersionTLS13}},
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		var c peerpb.Call
		if proto.Unmarshal(data, &c) != nil {
			return
		}
		var a counting
		s, err := NewServer(ServerOptions{Cluster: "c1", Host: "h1", Handler: new(handler), Admitter: &a, Live: pki.NewLive(nil), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := s.Join(ctx, &c)
		switch {
		case err == nil && (a.in != 1 || answer == nil):
			t.Fatalf("%d were let in", a.in)
		case err != nil && (a.in != 0 || answer != nil):
			t.Fatalf("%d were let in, and it says %v", a.in, err)
		case err != nil && (len(status.Convert(err).Message()) > maxRefusal || strings.Contains(err.Error(), secret)):
			t.Fatalf("it says too much: %v", err)
		}
	})
}
