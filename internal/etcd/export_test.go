package etcd

import (
	"context"
	"fmt"
	"time"

	"etcdadm.io/internal/wake"
)

// readyPause is the time between two questions to a member that answers with an error.
const readyPause = 20 * time.Millisecond

// WaitReady returns once the member answers, or with ErrUnreachable when ctx
// ends before. It is woken by the connection and polls nothing. A member that
// was restarted answers only once it has seen a quorum; it may be alive and
// silent long before.
func (c *Client) WaitReady(ctx context.Context) error {
	for {
		if err := c.waitConnection(ctx); err != nil {
			return fmt.Errorf("wait for member: %w", err)
		}
		// The connection may be that of a process that has just died, whose end
		// has not been read yet: an answer is what counts.
		if _, err := c.LocalStatus(ctx); err == nil {
			return nil
		} else if ctx.Err() != nil {
			return fmt.Errorf("wait for member: %w", err)
		}
		wake.After(ctx, readyPause) // a refusal comes at once, and would come as often as it is asked for
	}
}
