package etcd_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"etcdadm.io/internal/testetcd"
)

// A member that takes longer to check a password than a look at it may take is not
// silent for ever: the question for a token outlasts the look that asked it.
func TestPasswordThatTakesLong(t *testing.T) {
	c, _ := start(t, testetcd.Config{Version: testetcd.V37, Members: 1, Args: []string{"--bcrypt-cost=14"}})
	ctx := within(t, time.Minute)
	enableAuth(ctx, t, c.Client(t))
	began := time.Now()
	user := drive(t, c, 0, "root", "secret")
	look := func() error {
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		st, err := user.Status(ctx)
		if err == nil && !st.Healthy {
			return fmt.Errorf("it is not healthy: %v", st.Errors)
		}
		return err
	}
	if look() == nil {
		t.Skipf("SKIPPED, this machine checks a password of that cost in %s", time.Since(began))
	}
	var all sync.WaitGroup
	for range 4 { // as an observation asks several things at once
		all.Go(func() { until(t, 30*time.Second, "the member answers", look) })
	}
	all.Wait()
}
