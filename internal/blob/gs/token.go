package gs

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
)

// tokenTimeout bounds the wait for an access token in the middle of a call, where a transfer outlasts the one before: the SDK asks
// for it without the call's context. Before a call it is that which bounds the wait.
const tokenTimeout = 30 * time.Second

// tokens are access tokens for whose service nobody waits beyond his context. One question is under way at a time; it may not end,
// and no second one is begun before it has.
type tokens struct {
	source oauth2.TokenSource // keeps a token as long as that is good
	asking singleflight.Group
}

// get gives a token, or the end of ctx.
func (t *tokens) get(ctx context.Context) (*oauth2.Token, error) {
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for an access token: %w", ctx.Err())
	case r := <-t.asking.DoChan("", func() (any, error) { return t.source.Token() }):
		token, _ := r.Val.(*oauth2.Token)
		return token, r.Err
	}
}

// Token implements oauth2.TokenSource.
func (t *tokens) Token() (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tokenTimeout)
	defer cancel()
	return t.get(ctx)
}
