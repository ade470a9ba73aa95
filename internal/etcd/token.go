package etcd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// voterTimeout bounds what a peer port may take to tell of the voters, and is how
// long one voter is waited for alone before the next is asked for a token, too.
const voterTimeout = 1500 * time.Millisecond

// tokenTimeout ends a question for a token, which goes on when who asked has given up.
// At its highest --bcrypt-cost, 31, etcd would take days; 17 takes some ten seconds.
const tokenTimeout = 30 * time.Second

// currentToken is empty where there is none yet.
func (c *Client) currentToken() string {
	if token := c.token.Load(); token != nil {
		return *token
	}
	return ""
}

// authenticate gets a token in place of a refused one, unless another call
// already has.
//
// A learner gives out no tokens, but asks for one, even for its status (source:
// isRPCSupportedForLearner and authMaintenanceServer.Status of 3.5.35, 3.6.16
// and 3.7.3). It takes a voter's: a simple token is assigned to its user by a
// raft entry, on every member that applies it, and its name has the entry's
// index, for which a member that is behind waits (tokenSimple.info); a JWT needs
// only the keys, which are the same everywhere. An entry that reached the learner
// inside a snapshot leaves no simple token behind: then the token is refused, and
// the next one is younger than the snapshot.
//
// Checking a password takes etcd as long as it was set to (--bcrypt-cost), and on a
// busy machine longer than a look at the member may take. So one call asks for all
// that wait, and goes on when they have given up: the next look has its token.
func (c *Client) authenticate(ctx context.Context, refused string) (string, error) {
	if token := c.currentToken(); token != refused {
		return token, nil
	}
	asked := c.asking.DoChan("", func() (any, error) {
		if token := c.currentToken(); token != refused {
			return token, nil // of a question that ended just now
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenTimeout)
		defer cancel()
		token, err := c.anyToken(ctx)
		if err == nil {
			c.token.Store(&token)
		}
		return token, err
	})
	select {
	case a := <-asked:
		token, _ := a.Val.(string)
		return token, a.Err
	case <-ctx.Done():
		return "", fmt.Errorf("%w: the member checks the password: %w", ErrNoAnswer, ctx.Err())
	}
}

func (c *Client) anyToken(ctx context.Context) (string, error) {
	user, password, err := c.credential(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: get credential: %w", ErrAuthRequired, err)
	}
	token, err := c.newToken(ctx, user, password)
	if errors.Is(err, ErrLearner) && c.voters != nil {
		return c.voterToken(ctx, user, password)
	}
	return token, err
}

// newToken asks the member itself.
func (c *Client) newToken(ctx context.Context, user, password string) (string, error) {
	var reply *pb.AuthenticateResponse
	// A lost reply costs a token and changes nothing, so this counts as a read.
	err := c.once(ctx, "authenticate", reads, "", func(ctx context.Context) error {
		var err error
		reply, err = c.auth.Authenticate(ctx, &pb.AuthenticateRequest{Name: user, Password: password})
		return err
	})
	return reply.GetToken(), err
}

// voterToken asks the voters, the next one when one has failed or those before take
// long, as one does that is down or checks the password for longer than most. The first
// answer counts; one that refuses the credential speaks for all of them. While one
// has yet to answer, those that failed are asked again: they may only have been away.
func (c *Client) voterToken(ctx context.Context, user, password string) (string, error) {
	voters, err := c.voters(ctx)
	if err != nil {
		return "", fmt.Errorf("find a voter to authenticate at: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		endpoint, token string
		err             error
	}
	answers := make(chan answer)
	ask := func(endpoint string) {
		token, err := c.tokenAt(ctx, endpoint, user, password)
		select {
		case answers <- answer{endpoint, token, err}:
		case <-ctx.Done():
		}
	}
	failed := []error{fmt.Errorf("authenticate at a voter: %w", ErrUnreachable)}
	next := time.NewTimer(0)
	defer next.Stop()
	rest := slices.Clone(voters)
	for asked, open := 0, 0; asked < len(voters) || open > 0; {
		select {
		case <-ctx.Done():
			return "", errors.Join(append(failed, ctx.Err())...)
		case <-next.C:
			if next.Reset(voterTimeout); len(rest) > 0 {
				go ask(rest[0])
				rest = rest[1:]
				asked++
				open++
			}
		case a := <-answers:
			if a.err == nil || errors.Is(a.err, ErrAuthRequired) || errors.Is(a.err, ErrPermission) {
				return a.token, a.err
			}
			if open--; asked < len(voters) {
				next.Reset(0)
			}
			if rest = append(rest, a.endpoint); len(failed) <= len(voters) {
				failed = append(failed, a.err)
			}
		}
	}
	return "", errors.Join(failed...)
}

func (c *Client) tokenAt(ctx context.Context, endpoint, user, password string) (string, error) {
	if c.tls != strings.HasPrefix(endpoint, "https:") && !c.inClear {
		// A password that travels encrypted to the own member goes nowhere else
		// in clear text.
		return "", fmt.Errorf("authenticate at %s: it does not speak TLS as the own member does, or the other way round", endpoint)
	}
	voter, err := New(Config{Endpoints: []string{endpoint}, TLS: c.config})
	if err != nil {
		return "", err
	}
	defer voter.Close()
	token, err := voter.newToken(ctx, user, password)
	if err != nil {
		return "", fmt.Errorf("at %s: %w", endpoint, err)
	}
	return token, nil
}

// maxMembers bounds the answer of a peer port, in bytes.
const maxMembers = 1 << 20

// VoterURLs asks a member's peer port, at its peer URLs, where clients reach the
// voters that it knows of. A learner says it too, and no user is asked for: the
// port is the members' own (source: peerMembersHandler of 3.5.35, 3.6.16 and
// 3.7.3). tls has to hold a member's certificate where the port wants one.
func VoterURLs(ctx context.Context, peerURLs []string, tls *tls.Config) ([]string, error) {
	transport := &http.Transport{TLSClientConfig: tls, DisableKeepAlives: true} // and no proxy
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: voterTimeout}
	var failed []error
	for _, peer := range peerURLs {
		voters, err := votersAt(ctx, client, peer)
		if err == nil {
			return voters, nil
		}
		failed = append(failed, err)
	}
	return nil, fmt.Errorf("ask the peer port for the voters: %w", errors.Join(failed...))
}

func votersAt(ctx context.Context, client *http.Client, peer string) ([]string, error) {
	u, err := url.Parse(peer)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("members").String(), nil)
	if err != nil {
		return nil, err
	}
	reply, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", peer, reply.Status)
	}
	var members []struct {
		ClientURLs []string `json:"clientURLs"`
		IsLearner  bool     `json:"isLearner"`
	}
	if err := json.NewDecoder(io.LimitReader(reply.Body, maxMembers)).Decode(&members); err != nil {
		return nil, fmt.Errorf("read the members of %s: %w", peer, err)
	}
	var voters []string
	for _, m := range members {
		if !m.IsLearner {
			voters = append(voters, m.ClientURLs...)
		}
	}
	return voters, nil
}
