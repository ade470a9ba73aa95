package keycopy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"etcdadm.io/cluster"
)

const (
	// pageBytes bounds a page of keys; a page that would be larger is asked for
	// again with fewer.
	pageBytes = 4 << 20
	// loneBytes bounds a page of one key: etcd takes 1.5 MiB unless it is told
	// to take more.
	loneBytes = 32 << 20
	// firstPage is how many keys the first page asks for, and mostKeys how many
	// any does.
	firstPage = 64
	mostKeys  = 1 << 14
)

// v3 is an etcd asked by version 3 of the API.
type v3 struct {
	*web
	number cluster.Version
	conn   *grpc.ClientConn
	kv     pb.KVClient
	lease  pb.LeaseClient
	auth   pb.AuthClient
	maint  pb.MaintenanceClient

	mu    sync.Mutex
	token string // guarded by mu
}

func openV3(ctx context.Context, e Endpoint, w *web, version cluster.Version) (*v3, error) {
	transport := insecure.NewCredentials()
	if w.base.Scheme == "https" {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if e.TLS != nil {
			config = e.TLS.Clone()
		}
		transport = credentials.NewTLS(config)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithNoProxy(),
		grpc.WithInitialWindowSize(1 << 20), grpc.WithInitialConnWindowSize(4 << 20),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(loneBytes)),
	}
	if e.Dial != nil {
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return e.Dial(ctx) }))
	}
	conn, err := grpc.NewClient("passthrough:///"+w.base.Host, options...)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	s := &v3{
		web: w, number: version, conn: conn,
		kv: pb.NewKVClient(conn), lease: pb.NewLeaseClient(conn),
		auth: pb.NewAuthClient(conn), maint: pb.NewMaintenanceClient(conn),
	}
	if w.user != "" {
		if err := s.authenticate(ctx, ""); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *v3) release() cluster.Version { return s.number }
func (s *v3) api() API                 { return V3 }

func (s *v3) close() {
	s.conn.Close()
	s.web.close()
}

// authenticate gets a token in place of a refused one, unless another call
// already has.
func (s *v3) authenticate(ctx context.Context, refused string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != refused {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := s.auth.Authenticate(ctx, &pb.AuthenticateRequest{Name: s.user, Password: s.password})
	if says(err, rpctypes.ErrGRPCAuthNotEnabled) {
		return nil // then nobody asks for a token
	}
	if err != nil {
		return fmt.Errorf("authenticate: %w", plain(err))
	}
	s.token = reply.GetToken()
	return nil
}

// call makes one call; once more after a refusal for the token, which etcd gives
// before it does anything. All that is called here may be done twice.
func (s *v3) call(ctx context.Context, op string, fn func(context.Context) error) error {
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	err := fn(withToken(ctx, token))
	if token != "" && says(err, rpctypes.ErrGRPCInvalidAuthToken) {
		if err := s.authenticate(ctx, token); err != nil {
			return err
		}
		s.mu.Lock()
		token = s.token
		s.mu.Unlock()
		err = fn(withToken(ctx, token))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", op, plain(err))
	}
	return nil
}

func withToken(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
}

// says compares by the words, since the codes of one refusal differ between
// releases.
func says(err, refusal error) bool {
	return err != nil && status.Convert(err).Message() == status.Convert(refusal).Message()
}

// plain is the error as callers decide on it.
func plain(err error) error {
	for _, refusal := range []error{rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCPermissionDenied,
		rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthFailed, rpctypes.ErrGRPCUserNotFound} {
		if says(err, refusal) {
			return fmt.Errorf("%w: %s", ErrAuth, status.Convert(err).Message())
		}
	}
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	case codes.Canceled:
		return context.Canceled
	}
	return err
}

// unimplemented says that the release does not have the call.
func unimplemented(err error) bool {
	var is interface{ GRPCStatus() *status.Status }
	return errors.As(err, &is) && is.GRPCStatus().Code() == codes.Unimplemented
}

// position is the revision, read through a quorum.
func (s *v3) position(ctx context.Context) (int64, error) {
	r, err := s.rangeOnce(ctx, &pb.RangeRequest{Key: []byte{0}, Limit: 1, KeysOnly: true})
	return r.GetHeader().GetRevision(), err
}

func (s *v3) rangeOnce(ctx context.Context, r *pb.RangeRequest, options ...grpc.CallOption) (reply *pb.RangeResponse, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	err = s.call(ctx, "read keys", func(ctx context.Context) error {
		reply, err = s.kv.Range(ctx, r, options...)
		return err
	})
	return reply, err
}

// page reads some keys of a span, at a revision. limit is carried from page to
// page.
func (s *v3) page(ctx context.Context, of span, at int64, limit *int64) (*pb.RangeResponse, error) {
	for {
		most := pageBytes
		if *limit == 1 {
			most = loneBytes
		}
		reply, err := s.rangeOnce(ctx, &pb.RangeRequest{
			Key: of.from, RangeEnd: of.end, Limit: *limit, Revision: at, Serializable: true,
		}, grpc.MaxCallRecvMsgSize(most))
		if status.Code(errors.Unwrap(err)) == codes.ResourceExhausted && *limit > 1 {
			*limit = max(*limit/4, 1)
			continue
		}
		if says(errors.Unwrap(err), rpctypes.ErrGRPCCompacted) {
			return nil, fmt.Errorf("%w: revision %d was compacted", ErrSourceChanged, at)
		}
		if err != nil {
			return nil, err
		}
		size := 0
		for _, kv := range reply.Kvs {
			size += len(kv.Key) + len(kv.Value) + 64
		}
		if n := int64(len(reply.Kvs)); n == *limit {
			fit := n * pageBytes * 3 / 4 / int64(max(size, 1))
			*limit = max(1, min(fit, 4*n, mostKeys))
		}
		return reply, nil
	}
}

// walk visits every key at a revision in the order of bytes, with the next page
// on its way while one is visited. What is visited may be kept.
func (s *v3) walk(ctx context.Context, at int64, visit func(*mvccpb.KeyValue) error) error {
	ctx, cancel := context.WithCancel(ctx)
	type page struct {
		kvs []*mvccpb.KeyValue
		err error
	}
	pages := make(chan page)
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	go func() {
		defer close(done)
		defer close(pages)
		limit := int64(firstPage)
		for next, more := everything(), true; more; {
			reply, err := s.page(ctx, next, at, &limit)
			select {
			case pages <- page{reply.GetKvs(), err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
			next, more = next.after(reply)
		}
	}()
	for p := range pages {
		if p.err != nil {
			return p.err
		}
		for _, kv := range p.kvs {
			if err := visit(kv); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}
