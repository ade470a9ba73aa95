package cli

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

// A wait whose time is up has another exit code than one that a person ends, and
// than a refusal.
func TestWaitIsOver(t *testing.T) {
	late, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-late.Done()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for want, ctx := range map[int]context.Context{ExitWaiting: late, ExitInterrupted: stopped} {
		if got := Report(io.Discard, "etcdadm", over(ctx, errors.New("not there"), "it goes on")); got != want {
			t.Errorf("ended by %v: exit code %d, want %d", ctx.Err(), got, want)
		}
	}
}
