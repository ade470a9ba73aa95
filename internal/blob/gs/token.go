package gs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

// tokenTimeout bounds the wait for an access token in the middle of a call, where a transfer outlasts the one before: the SDK asks
// for it without the call's context. Before a call it is that which bounds the wait.
const tokenTimeout = 30 * time.Second

// tokens are access tokens for whose service nobody waits beyond his context. One question is under way at a time; it may not end,
// and no second one is begun before it has.
type tokens struct {
	source oauth2.TokenSource // keeps a token as long as that is good

	mu   sync.Mutex // guards what follows
	last *oauth2.Token
	err  error         // of the last question
	busy chan struct{} // closed when the question that is under way has ended; nil without one
}

// get gives a token, or the end of ctx.
func (t *tokens) get(ctx context.Context) (*oauth2.Token, error) {
	t.mu.Lock()
	if t.busy == nil {
		busy := make(chan struct{})
		t.busy = busy
		go func() {
			token, err := t.source.Token()
			t.mu.Lock()
			defer t.mu.Unlock()
			t.last, t.err, t.busy = token, err, nil
			close(busy)
		}()
	}
	busy := t.busy
	t.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for an access token: %w", ctx.Err())
	case <-busy:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last, t.err
}

// Token implements oauth2.TokenSource.
func (t *tokens) Token() (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tokenTimeout)
	defer cancel()
	return t.get(ctx)
}
