package peer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/peer/peerpb"
	"etcdadm.io/internal/pki"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// mostWords bounds an error with what is repeated of a message, in bytes.
const mostWords = 2*maxRefusal + 500

// asked is a handler that counts who came through.
type asked struct{ callers []Caller }

func (a *asked) Ping(_ context.Context, c Caller, p cluster.Ping) (cluster.Ping, error) {
	a.callers = append(a.callers, c)
	return p, nil
}

func (a *asked) Observe(_ context.Context, c Caller, _ cluster.ObserveRequest) (cluster.ObserveReply, error) {
	a.callers = append(a.callers, c)
	return cluster.ObserveReply{}, nil
}

func (a *asked) Apply(_ context.Context, c Caller, _ cluster.ApplyRequest) (cluster.ApplyReply, error) {
	a.callers = append(a.callers, c)
	return cluster.ApplyReply{}, nil
}

func (a *asked) Goal(_ context.Context, c Caller, wish json.RawMessage) (json.RawMessage, error) {
	a.callers = append(a.callers, c)
	return wish, nil
}

func (a *asked) Authority(_ context.Context, c Caller, _ AuthorityRequest) (AuthorityReply, error) {
	a.callers = append(a.callers, c)
	return AuthorityReply{}, nil
}

func (a *asked) Keep(_ context.Context, c Caller, _ KeepRequest) (KeepReply, error) {
	a.callers = append(a.callers, c)
	return KeepReply{}, nil
}

func (a *asked) Report(_ context.Context, c Caller, question json.RawMessage) (json.RawMessage, error) {
	a.callers = append(a.callers, c)
	return question, nil
}

func envelope(f *testing.F, h *peerpb.Header, body string) []byte {
	data, err := proto.Marshal(&peerpb.Call{Header: h, Body: []byte(body)})
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// FuzzCall: whatever arrives on the port as a call, without TLS to hold its sender to
// anything, is refused in a few words, or carried out for a caller of this cluster
// whose role may ask for that.
func FuzzCall(f *testing.F) {
	ours := func(role pki.Role) *peerpb.Header {
		return &peerpb.Header{Protocol: Protocol, Cluster: "c1", Role: string(role), Caller: "h2", To: "h1"}
	}
	ping, err := json.Marshal(cluster.Ping{Host: "h2", Cluster: "c1"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(envelope(f, ours(pki.RoleHost), string(ping)))
	f.Add(envelope(f, ours(pki.RoleHost), `{"fence":{"number":1,"host":"h2"},"op":{"kind":"start"},"guard":{}}`))
	f.Add(envelope(f, ours(pki.RoleOperator), `{"kind":"status"}`))
	f.Add(envelope(f, &peerpb.Header{Protocol: 99, Cluster: "c1", Caller: "h2"}, `{}`))
	f.Add(envelope(f, &peerpb.Header{Protocol: Protocol, Cluster: strings.Repeat("c", 9000), Role: "host", Caller: "h2"}, `{}`))
	f.Add(envelope(f, &peerpb.Header{Protocol: Protocol, Cluster: "c1", Role: strings.Repeat("r", 9000), Caller: strings.Repeat("h", 9000)}, `{}`))
	f.Add(envelope(f, ours(pki.RoleHost), `{"`+strings.Repeat("\xff", 9000)+`":[[[[`))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Add([]byte{})
	ctx := grpcpeer.NewContext(f.Context(), &grpcpeer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 4000}})
	f.Fuzz(func(t *testing.T, data []byte) {
		var c peerpb.Call
		if proto.Unmarshal(data, &c) != nil {
			return
		}
		var a asked
		s, err := NewServer(ServerOptions{Cluster: "c1", Host: "h1", Handler: &a, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for name, call := range map[string]struct {
			do    func(context.Context, *peerpb.Call) (*peerpb.Answer, error)
			roles []pki.Role
		}{
			"ping":    {s.Ping, []pki.Role{pki.RoleHost}},
			"observe": {s.Observe, []pki.Role{pki.RoleHost}},
			"apply":   {s.Apply, []pki.Role{pki.RoleHost}},
			"goal":    {s.Goal, []pki.Role{pki.RoleHost, pki.RoleOperator}},
			"report":  {s.Report, []pki.Role{pki.RoleHost, pki.RoleOperator, pki.RoleReader}},
			"keep":    {s.Keep, []pki.Role{pki.RoleHost, pki.RoleOperator}},
			"key":     {s.Authority, []pki.Role{pki.RoleHost}},
		} {
			a.callers = nil
			answer, err := call.do(ctx, &c)
			if err != nil {
				st := status.Convert(err)
				if len(a.callers) > 0 && st.Code() != codes.Internal || answer != nil || st.Message() == "" || len(st.Message()) > maxRefusal+len("…") {
					t.Fatalf("%s: %d callers, %d bytes: %.300s", name, len(a.callers), len(st.Message()), st.Message())
				}
				continue
			}
			if len(a.callers) != 1 || answer.GetHost() != "h1" || !json.Valid(answer.GetBody()) {
				t.Fatalf("%s: %+v answers %v", name, a.callers, answer)
			}
			from := a.callers[0].Identity
			may := false
			for _, r := range call.roles {
				may = may || r == from.Role
			}
			if !may || from.Cluster != "c1" || from.ID == "" || from.Validate() != nil {
				t.Fatalf("%s: it was carried out for %s", name, from)
			}
		}
	})
}

// FuzzAnswer: whatever another daemon answers, or refuses with, is read, or an error of
// a few words with the call in it.
func FuzzAnswer(f *testing.F) {
	f.Add("h1", []byte(`{"host":"h1","cluster":"c1","view":[{"host":"h2","endpoint":"192.0.2.2:4000"}]}`), uint32(0), "", int32(0), "")
	f.Add("h1", []byte(`{"state":{"host":"h1","status":null},"promised":{"number":1,"host":"h2"}}`), uint32(0), "", int32(0), "")
	f.Add("h3", []byte(`[`), uint32(0), "", int32(0), "")
	f.Add("", []byte(nil), uint32(codes.PermissionDenied), "the call is for host h9", int32(peerpb.Refusal_KIND_HOST), "look there")
	f.Add("", []byte(nil), uint32(codes.Unavailable), `connection error: desc = "transport: Error while dialing: dial tcp: \"x\""`, int32(0), "")
	f.Add("", []byte(nil), uint32(codes.ResourceExhausted), "grpc: received message larger than max (5 vs. 4)", int32(77), strings.Repeat("\xff", 9000))
	self := pki.Identity{Cluster: "c1", Role: pki.RoleHost, ID: "h2"}
	pool, err := NewPool(self, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { pool.Close() })
	f.Fuzz(func(t *testing.T, host string, body []byte, code uint32, message string, kind int32, hint string) {
		c, err := pool.To(cluster.Contact{Host: "h1", Endpoint: "192.0.2.1:4000"})
		if err != nil {
			t.Fatal(err)
		}
		do := func(context.Context, *peerpb.Call, ...grpc.CallOption) (*peerpb.Answer, error) {
			if code == 0 {
				return &peerpb.Answer{Host: host, Body: body}, nil
			}
			st := status.New(codes.Code(code), message)
			if kind != 0 {
				if detailed, err := st.WithDetails(&peerpb.Refusal{Kind: peerpb.Refusal_Kind(kind), Hint: hint}); err == nil {
					st = detailed
				}
			}
			return nil, st.Err()
		}
		_, _, pingErr := call[cluster.Ping](t.Context(), c, ping, do, struct{}{})
		_, _, observeErr := call[cluster.ObserveReply](t.Context(), c, observe, do, struct{}{})
		_, _, applyErr := call[cluster.ApplyReply](t.Context(), c, apply, do, struct{}{})
		_, _, goalErr := call[json.RawMessage](t.Context(), c, goal, do, struct{}{})
		for _, err := range []error{pingErr, observeErr, applyErr, goalErr} {
			if (code != 0 || host != "h1") && err == nil {
				t.Fatalf("code %d of host %q, and no error", code, host)
			}
			if err == nil {
				continue
			}
			told, ok := errors.AsType[*Error](err)
			if !ok || told.Error() == "" || len(told.Error()) > mostWords {
				t.Fatalf("%d bytes: %.300v", len(err.Error()), err)
			}
		}
	})
}
