package etcd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
)

// V2 is the driver of a member of etcd 2.3, which has version 2 of the API only.
// The invariants are those of [Client]: every call has a deadline and is sent at
// most once, and the end of a mutating one is done, refused by a sentinel, or
// [ErrUnknownOutcome]. It is safe for concurrent use.
//
// Source: etcdserver/etcdhttp of 2.3.8.
type V2 struct {
	endpoint string // of the member's client URLs, the first
	web      *http.Client
	peer     *Client // asks at the peer port only
}

// NewV2 prepares the driver. It connects at the first call.
func NewV2(cfg Config) (*V2, error) {
	if _, _, err := parseEndpoints(cfg.Endpoints); err != nil {
		return nil, fmt.Errorf("prepare etcd driver: %w", err)
	}
	own := cfg
	if own.PeerTLS = cfg.TLS; own.PeerTLS != nil && cfg.ServerName != "" {
		own.PeerTLS = cfg.TLS.Clone()
		own.PeerTLS.ServerName = cfg.ServerName
	}
	return &V2{
		endpoint: strings.TrimSuffix(cfg.Endpoints[0], "/"), web: plainHTTP(own),
		peer: &Client{peer: first(cfg.Peer), http: plainHTTP(cfg)},
	}, nil
}

// Close is there for what closes drivers; no connection is kept.
func (c *V2) Close() error { return nil }

// answer is what came back of one request.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// ask makes one request. bodies are a few kilobytes, and what is longer is cut:
// a list of all keys, of which only the head counts.
func (c *V2) ask(ctx context.Context, op string, k kind, method, path string, body any) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return answer{}, fmt.Errorf("%s: %w", op, err)
		}
		sent = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.endpoint+path, sent)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", op, err)
	}
	request.Header.Set("Content-Type", "application/json")
	reply, err := c.web.Do(request)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", op, unanswered(k, err))
	}
	defer reply.Body.Close()
	data, err := io.ReadAll(io.LimitReader(reply.Body, maxV2Body))
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", op, unanswered(k, err))
	}
	return answer{reply.StatusCode, reply.Header, data}, nil
}

const maxV2Body = 1 << 20 // bytes

// unanswered says what it means that a request got no answer. Only one that
// found no connection was surely not sent.
func unanswered(k kind, err error) error {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case k == mutates:
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, err)
}

// Status is what the member says of itself, and whether it serves a read through
// a quorum. Its revision is that of the store of version 2.
func (c *V2) Status(ctx context.Context) (cluster.MemberStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	s, err := c.LocalStatus(ctx)
	if err != nil || s.Leader == 0 {
		return s, err
	}
	a, err := c.keys(ctx, true)
	if err != nil {
		s.Errors = append(s.Errors, err.Error())
		return s, nil
	}
	s.Healthy = true
	s.Revision, s.Index, s.Applied, s.Term = a.revision, a.index, a.index, a.term
	return s, nil
}

// LocalStatus is Status without the read through a quorum.
func (c *V2) LocalStatus(ctx context.Context) (cluster.MemberStatus, error) {
	var version struct {
		Server string `json:"etcdserver"`
	}
	if _, err := c.get(ctx, "get version", "/version", &version); err != nil {
		return cluster.MemberStatus{}, err
	}
	runs, err := cluster.ParseVersion(version.Server)
	if err != nil {
		return cluster.MemberStatus{}, fmt.Errorf("get version: %w", err)
	}
	var self struct {
		ID     string `json:"id"`
		Leader struct {
			Leader string `json:"leader"`
		} `json:"leaderInfo"`
	}
	if _, err := c.get(ctx, "get status", "/v2/stats/self", &self); err != nil {
		return cluster.MemberStatus{}, err
	}
	view, err := c.list(ctx)
	if err != nil {
		return cluster.MemberStatus{}, err
	}
	s := cluster.MemberStatus{Cluster: view.Cluster, Version: runs}
	if s.Member, err = memberHex(self.ID); err != nil {
		return s, fmt.Errorf("get status: %w", err)
	}
	if self.Leader.Leader != "" {
		if s.Leader, err = memberHex(self.Leader.Leader); err != nil {
			return s, fmt.Errorf("get status: %w", err)
		}
	}
	if local, err := c.keys(ctx, false); err == nil {
		s.Revision, s.Index, s.Applied, s.Term = local.revision, local.index, local.index, local.term
	}
	return s, nil
}

// position is where a member is in its store and in raft's log.
type position struct {
	revision    int64
	index, term uint64
}

// keys reads the head of what is at the root, through a quorum or not.
func (c *V2) keys(ctx context.Context, quorum bool) (position, error) {
	const op = "read through a quorum"
	a, err := c.ask(ctx, op, reads, http.MethodGet, "/v2/keys/?quorum="+strconv.FormatBool(quorum), nil)
	if err == nil && a.code != http.StatusOK {
		err = fmt.Errorf("%s: %w", op, refusedBy(a))
	}
	if err != nil {
		return position{}, err
	}
	var p position
	for name, to := range map[string]*uint64{"X-Raft-Index": &p.index, "X-Raft-Term": &p.term} {
		if *to, err = strconv.ParseUint(a.header.Get(name), 10, 64); err != nil {
			return position{}, notNumber(op, name, a)
		}
	}
	const name = "X-Etcd-Index"
	if p.revision, err = strconv.ParseInt(a.header.Get(name), 10, 64); err != nil {
		return position{}, notNumber(op, name, a)
	}
	return p, nil
}

func notNumber(op, name string, a answer) error {
	return fmt.Errorf("%s: %s is %.40q, and no number", op, name, a.header.Get(name))
}

func (c *V2) get(ctx context.Context, op, path string, into any) (answer, error) {
	a, err := c.ask(ctx, op, reads, http.MethodGet, path, nil)
	if err == nil && a.code != http.StatusOK {
		err = fmt.Errorf("%s: %w", op, refusedBy(a))
	}
	if err == nil {
		if err = json.Unmarshal(a.body, into); err != nil {
			err = fmt.Errorf("%s: %w", op, err)
		}
	}
	return a, err
}

// v2Member is a member as version 2 of the API writes it.
type v2Member struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs"`
}

func (m v2Member) member() (cluster.Member, error) {
	id, err := memberHex(m.ID)
	return cluster.Member{ID: id, Name: m.Name, PeerURLs: sorted(m.PeerURLs), ClientURLs: sorted(m.ClientURLs)}, err
}

// memberHex reads an ID. Raft knows none that is zero, which is nobody's here.
func memberHex(s string) (cluster.MemberID, error) {
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%.40q is no member's ID", s)
	}
	return cluster.MemberID(n), nil
}

// View lists the members, after a read through a quorum if it is to be
// linearizable: the list itself is the member's own.
func (c *V2) View(ctx context.Context, linearizable bool) (cluster.MemberView, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	if linearizable {
		if _, err := c.keys(ctx, true); err != nil {
			return cluster.MemberView{}, err
		}
	}
	v, err := c.list(ctx)
	v.Linearizable = linearizable && err == nil
	return v, err
}

func (c *V2) list(ctx context.Context) (cluster.MemberView, error) {
	const op = "list members"
	var said struct {
		Members []v2Member `json:"members"`
	}
	a, err := c.get(ctx, op, "/v2/members", &said)
	if err != nil {
		return cluster.MemberView{}, err
	}
	id, err := strconv.ParseUint(a.header.Get("X-Etcd-Cluster-Id"), 16, 64)
	if err != nil || id == 0 {
		return cluster.MemberView{}, fmt.Errorf("%s: %.40q is no cluster's ID", op, a.header.Get("X-Etcd-Cluster-Id"))
	}
	v := cluster.MemberView{Cluster: cluster.ClusterID(id)}
	for _, m := range said.Members {
		x, err := m.member()
		if err != nil {
			return cluster.MemberView{}, fmt.Errorf("%s: %w", op, err)
		}
		v.Members = append(v.Members, x)
	}
	slices.SortFunc(v.Members, func(a, b cluster.Member) int { return cmp.Compare(a.ID, b.ID) })
	return v, nil
}

// AddMember adds a voter that is yet to be started.
func (c *V2) AddMember(ctx context.Context, peerURLs []string, learner bool) (cluster.Member, error) {
	const op = "add member"
	if learner {
		return cluster.Member{}, fmt.Errorf("%s: %w", op, ErrNotCapable)
	}
	a, err := c.change(ctx, op, http.MethodPost, "/v2/members", map[string]any{"peerURLs": peerURLs})
	if err != nil {
		return cluster.Member{}, err
	}
	var m v2Member
	if err := json.Unmarshal(a.body, &m); err != nil {
		return cluster.Member{}, fmt.Errorf("%s: %w: %w", op, ErrUnknownOutcome, err)
	}
	added, err := m.member()
	if err != nil { // it was added, and nobody says as whom
		return cluster.Member{}, fmt.Errorf("%s: %w: %w", op, ErrUnknownOutcome, err)
	}
	return added, nil
}

// Remove removes a member for ever.
func (c *V2) Remove(ctx context.Context, id cluster.MemberID) error {
	_, err := c.change(ctx, "remove member", http.MethodDelete, "/v2/members/"+url.PathEscape(strconv.FormatUint(uint64(id), 16)), nil)
	return err
}

// UpdatePeerURLs changes where a voter is reached by its peers.
func (c *V2) UpdatePeerURLs(ctx context.Context, id cluster.MemberID, peerURLs []string) error {
	_, err := c.change(ctx, "update peer URLs", http.MethodPut, "/v2/members/"+strconv.FormatUint(uint64(id), 16), map[string]any{"peerURLs": peerURLs})
	return err
}

// change makes a call that changes the members. A refusal has a status of its
// own, or the words of the error; every other answer leaves it open.
func (c *V2) change(ctx context.Context, op, method, path string, body any) (answer, error) {
	a, err := c.ask(ctx, op, mutates, method, path, body)
	switch {
	case err != nil, a.code/100 == 2:
		return a, err
	case a.code/100 == 4, bytes.Contains(a.body, []byte("not enough started members")):
		return a, fmt.Errorf("%s: %w", op, refusedBy(a))
	}
	return a, fmt.Errorf("%s: %w: %w", op, ErrUnknownOutcome, refusedBy(a))
}

// refusedBy is the sentinel for an answer that is no success.
func refusedBy(a answer) error {
	said := strings.TrimSpace(string(a.body[:min(len(a.body), 200)]))
	switch {
	case a.code == http.StatusConflict:
		return fmt.Errorf("%w: %s", ErrPeerURLExists, said)
	case a.code == http.StatusNotFound, a.code == http.StatusGone:
		return fmt.Errorf("%w: %s", ErrMemberNotFound, said)
	case a.code == http.StatusUnauthorized, a.code == http.StatusForbidden:
		return ErrAuthRequired
	case strings.Contains(said, "not enough started members"):
		return ErrNotEnoughStarted
	}
	return fmt.Errorf("etcd answers %d: %s", a.code, said)
}

// Agreed is what the members have agreed on.
func (c *V2) Agreed(ctx context.Context) (cluster.Agreement, error) { return c.peer.Agreed(ctx) }

// Promote is not there: etcd 2.3 has no learners.
func (c *V2) Promote(context.Context, cluster.MemberID) error { return ErrNotCapable }

// MoveLeader is not there: raft's leader is stopped, and the others elect.
func (c *V2) MoveLeader(context.Context, cluster.MemberID) error { return ErrNotCapable }

// Downgrade is not there.
func (c *V2) Downgrade(context.Context, cluster.Version) error { return ErrNotCapable }

// CancelDowngrade is not there.
func (c *V2) CancelDowngrade(context.Context) error { return ErrNotCapable }

// HashKV is not there, nor are the calls below: 2.3 has no keys of version 3.
func (c *V2) HashKV(context.Context, int64) (KVHash, error) { return KVHash{}, ErrNotCapable }

// Defragment is not there.
func (c *V2) Defragment(context.Context, time.Duration) error { return ErrNotCapable }

// Compact is not there.
func (c *V2) Compact(context.Context, int64) error { return ErrNotCapable }

// Disarm is not there.
func (c *V2) Disarm(context.Context, string, cluster.MemberID) error { return ErrNotCapable }
