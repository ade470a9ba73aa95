package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"etcdadm.io/cluster"
)

// Agreed is what the members have agreed on, as this one knows it. It is asked for
// by HTTP at the peer port, since no call of the v3 API tells, and since releases
// before 3.6 tell of a downgrade nowhere else. That answer goes through raft.
func (c *Client) Agreed(ctx context.Context) (cluster.Agreement, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	data, err := c.fromPeer(ctx, "/version")
	if err != nil {
		return cluster.Agreement{}, fmt.Errorf("get cluster version: %w", err)
	}
	var said struct {
		Server  string `json:"etcdserver"`
		Cluster string `json:"etcdcluster"`
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return cluster.Agreement{}, fmt.Errorf("get cluster version: %w", err)
	}
	a := cluster.Agreement{Version: line(said.Cluster)}
	if server := line(said.Server); !server.AtLeast(3, 5) {
		if server.AtLeast(3, 4) { // nobody asks of an older one
			a.Auth, err = c.authOn(ctx)
		}
		return a, err // it knows of no downgrades
	}
	if data, err = c.fromPeer(ctx, "/downgrade/enabled"); err != nil {
		return cluster.Agreement{}, fmt.Errorf("ask whether a downgrade is under way: %w", err)
	}
	if a.Downgrade, err = strconv.ParseBool(strings.TrimSpace(string(data))); err != nil {
		return cluster.Agreement{}, fmt.Errorf("ask whether a downgrade is under way: etcd answers %.40q", data)
	}
	return a, nil
}

// authOn asks whether authentication is on, of a release that has no call for that:
// with it off etcd says so before it looks at whom the request names, which is
// nobody. Source: CheckPassword in auth/store.go of 3.4.
func (c *Client) authOn(ctx context.Context) (*bool, error) {
	_, err := c.auth.Authenticate(ctx, &pb.AuthenticateRequest{})
	on := !errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled)
	if s, ok := status.FromError(err); !ok || on && s.Code() != codes.InvalidArgument {
		return nil, fmt.Errorf("ask whether authentication is on: %w", err)
	}
	return &on, nil
}

func (c *Client) fromPeer(ctx context.Context, path string) ([]byte, error) {
	if c.peer == "" {
		return nil, errors.New("no peer URL of the member is known")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.peer, "/")+path, nil)
	if err != nil {
		return nil, err
	}
	reply, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	data, err := io.ReadAll(io.LimitReader(reply.Body, 1<<16))
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("etcd answers %s", reply.Status)
	}
	return data, err
}

// line reads "3.6.0", "3.6" or nothing; what etcd says while it does not know
// is unknown, too.
func line(s string) cluster.Version {
	if strings.Count(s, ".") == 1 {
		s += ".0"
	}
	v, err := cluster.ParseVersion(s)
	if err != nil {
		return cluster.Version{}
	}
	return v.Base()
}

// Downgrade has etcd make ready for members of the release line before, after it
// has looked whether it can.
//
// The answer says little: members before 3.6 carry it out and answer nothing. What
// became of it, [Client.Agreed] tells.
func (c *Client) Downgrade(ctx context.Context, to cluster.Version) error {
	version := fmt.Sprintf("%d.%d", to.Major, to.Minor)
	_, err := rpc(ctx, c, CallTimeout, "look whether etcd can be downgraded to "+version, reads, c.maintenance.Downgrade, &pb.DowngradeRequest{Action: pb.DowngradeRequest_VALIDATE, Version: version})
	if err == nil {
		_, err = rpc(ctx, c, CallTimeout, "enable the downgrade to "+version, mutates, c.maintenance.Downgrade, &pb.DowngradeRequest{Action: pb.DowngradeRequest_ENABLE, Version: version})
	}
	return err
}

// CancelDowngrade takes a downgrade back. Its answer says as little as that of
// [Client.Downgrade].
func (c *Client) CancelDowngrade(ctx context.Context) error {
	_, err := rpc(ctx, c, CallTimeout, "cancel the downgrade", mutates, c.maintenance.Downgrade, &pb.DowngradeRequest{Action: pb.DowngradeRequest_CANCEL})
	return err
}

// plainHTTP is the client for what etcd tells by HTTP only. Connections are not
// kept: it is asked seldom.
func plainHTTP(cfg Config) *http.Client {
	t := &http.Transport{DisableKeepAlives: true, Proxy: nil, TLSHandshakeTimeout: CallTimeout}
	if cfg.PeerTLS != nil {
		t.TLSClientConfig = cfg.PeerTLS.Clone()
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("etcd redirects") }}
}
