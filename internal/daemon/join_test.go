package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/token"
)

// A store that does not answer is told within 3 s, and one that answers with nonsense at once; nobody is let in.
func TestJoinWithoutAStore(t *testing.T) {
	t.Parallel()
	tok, err := token.Mint(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		fault memory.Fault
		says  string
	}{
		"hung": {memory.Fault{Delay: time.Minute}, "does not answer"},
		"away": {memory.Fault{Err: errors.New("connection refused")}, "does not answer as it should: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.New()
			store.Inject(func(context.Context, memory.Call) memory.Fault { return c.fault })
			d := &daemon{folder: control.New(store, "etcd")}
			began := time.Now()
			reply, err := admitter{d}.Join(t.Context(), "192.0.2.9", peer.JoinRequest{Token: tok.Reveal(), Host: "b", Clock: time.Now()})
			var told *Error
			if !errors.As(err, &told) || !strings.Contains(err.Error(), c.says) || told.Hint() == "" || len(reply.Authorities) > 0 {
				t.Errorf("%v", err)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("told after %s", took)
			}
		})
	}
}
