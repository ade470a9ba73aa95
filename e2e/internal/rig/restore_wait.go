package rig

import (
	"context"
	"fmt"
)

// AsksFor waits until the spec in the store has a count.
func (c *Cluster) AsksFor(n int) {
	c.T.Helper()
	Eventually(c.T, Soon, fmt.Sprintf("a spec of %d members", n), func(ctx context.Context) error {
		read, err := c.Folder().ReadSpec(ctx)
		if err == nil && read.Spec.MemberCount != n {
			err = fmt.Errorf("it asks for %d", read.Spec.MemberCount)
		}
		return err
	})
}
