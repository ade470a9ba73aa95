package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"etcdadm.io/internal/testetcd"
)

// guarded is a member with passwords.
type guarded struct {
	pb.UnimplementedAuthServer
	pb.UnimplementedMaintenanceServer
	authenticate func(context.Context) error
}

func (g guarded) Authenticate(ctx context.Context, r *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	if err := g.authenticate(ctx); err != nil {
		return nil, err
	}
	return &pb.AuthenticateResponse{Header: &pb.ResponseHeader{}, Token: "of " + r.Name}, nil
}

func (g guarded) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if len(md.Get(rpctypes.TokenFieldNameGRPC)) == 0 {
		return nil, rpctypes.ErrGRPCUserEmpty
	}
	return &pb.StatusResponse{Header: &pb.ResponseHeader{MemberId: 7}, Version: "3.6.16", IsLearner: true, Leader: 1}, nil
}

// guard runs one, and gives where it listens.
func guard(t *testing.T, authenticate func(context.Context) error) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", testetcd.FreePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	server, g := grpc.NewServer(), guarded{authenticate: authenticate}
	pb.RegisterAuthServer(server, g)
	pb.RegisterMaintenanceServer(server, g)
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(l)
	}()
	t.Cleanup(func() { server.Stop(); <-done })
	return "http://" + l.Addr().String()
}

// A learner's driver gets its token also from a voter that takes longer to check a
// password than one voter is waited for alone: it is not asked anew each time. One that
// never answers, and one that is away for a while, keep nobody from being asked.
func TestTokenOfASlowVoter(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	calls := map[string]int{}
	voter := func(name string, answer func(ctx context.Context, nth int) error) string {
		return guard(t, func(ctx context.Context) error {
			mu.Lock()
			calls[name]++
			nth := calls[name]
			mu.Unlock()
			return answer(ctx, nth)
		})
	}
	hangs := func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
	slow := func(ctx context.Context, _ int) error {
		select {
		case <-time.After(2 * voterTimeout):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	away := func(_ context.Context, nth int) error {
		if nth == 1 {
			return rpctypes.ErrGRPCStopped
		}
		return nil
	}
	for _, c := range []struct {
		name   string
		voters []string
		once   string // is asked once
	}{
		{"one that is slow", []string{voter("a", slow)}, "a"},
		{"one that hangs and one that is slow", []string{voter("b1", hangs), voter("b2", slow)}, "b2"},
		{"one that hangs and one that comes back", []string{voter("c1", hangs), voter("c2", away)}, "c1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			learner := guard(t, func(context.Context) error { return rpctypes.ErrGRPCNotSupportedForLearner })
			d, err := New(Config{
				Endpoints:  []string{learner},
				Credential: func(context.Context) (string, string, error) { return "root", "secret", nil },
				Voters:     func(context.Context) ([]string, error) { return c.voters, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for {
				look, done := context.WithTimeout(ctx, time.Second)
				s, err := d.LocalStatus(look)
				done()
				if err == nil && s.Learner && !s.Auth {
					break
				}
				if ctx.Err() != nil {
					t.Fatalf("the learner's status: %+v, %v", s, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if calls[c.once] != 1 {
				t.Errorf("voter %s was asked %d times", c.once, calls[c.once])
			}
		})
	}
}

// A voter that refuses the credential speaks for all of them: another one is not asked, for
// which each would check the password anew, at every look.
func TestOneRefusalOfTheCredential(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{"the password": rpctypes.ErrGRPCAuthFailed, "the user": rpctypes.ErrGRPCPermissionDenied} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			asked := map[string]int{}
			voter := func(name string, answer error) string {
				return guard(t, func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					asked[name]++
					return answer
				})
			}
			first, second := voter("first", refusal), voter("second", nil)
			learner := guard(t, func(context.Context) error { return rpctypes.ErrGRPCNotSupportedForLearner })
			d, err := New(Config{
				Endpoints:  []string{learner},
				Credential: func(context.Context) (string, string, error) { return "root", "secret", nil },
				Voters:     func(context.Context) ([]string, error) { return []string{first, second}, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			token, err := d.anyToken(t.Context())
			if token != "" || !errors.Is(err, ErrAuthRequired) && !errors.Is(err, ErrPermission) {
				t.Errorf("token %q, %v", token, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if asked["first"] != 1 || asked["second"] != 0 {
				t.Errorf("asked were %v", asked)
			}
		})
	}
}
