package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/peer"
	"etcdadm.io/plan"
)

// Whoever waits reads at once for what and how long, also where no daemon answers.
func TestFollowSaysFirst(t *testing.T) {
	q := queue{reach: reach{output: "table", endpoints: []string{"127.0.0.1:1"}, clusterName: "x"}, wait: 10 * time.Millisecond}
	var said strings.Builder
	err := q.follow(t.Context(), &said, func() string { return "not every member runs etcd 3.7.3" }, func(*cluster.Observation, *plan.Decision) told {
		t.Error("somebody answered")
		return told{}
	})
	if want := "waiting up to 10ms: not every member runs etcd 3.7.3; the change continues if you stop waiting\n"; said.String() != want {
		t.Errorf("it said %q, want %q", said.String(), want)
	}
	if code := Report(io.Discard, "etcdadm", err); code != ExitWaiting || !strings.Contains(err.Error(), "has not looked at it yet") {
		t.Errorf("%d: %v", code, err)
	}
}

// Whoever waits for a step reads what the leading daemon waits for, once, also where a
// daemon does not answer in between, and no more when the step is over.
func TestRetell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := []console.Report{{}, {Decision: &plan.Decision{Reason: plan.Say("a")}}, {}, {Decision: &plan.Decision{Reason: plan.Say("a")}}, {Decision: &plan.Decision{Reason: plan.Say("b")}}, {Decision: &plan.Decision{Reason: plan.Say("c"), Done: true}}}
		var said strings.Builder
		n := 0
		end := beside(t.Context(), func(ctx context.Context) {
			retell(ctx, &said, func(context.Context) (console.Report, error) {
				n++
				if r := looks[min(n, len(looks)-1)]; r.Decision != nil {
					return r, nil
				}
				return console.Report{}, errors.New("nobody answers")
			})
		})
		time.Sleep(time.Minute)
		end()
		if want := "waiting: a\nwaiting: b\n"; said.String() != want || n < len(looks) {
			t.Errorf("%d looks: %q", n, said.String())
		}
	})
}

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

// A daemon that answers with what is wrong between the two is not asked after, whether
// it runs.
func TestAdviceOfADaemon(t *testing.T) {
	for want, cause := range map[string]error{
		"is the daemon running?": &peer.Error{Err: peer.ErrUnreachable},
		"both need the same":     &peer.Error{Err: peer.ErrCertificate, Advice: "both need the same"},
		"the second one says":    errors.Join(&peer.Error{Err: peer.ErrUnreachable}, &peer.Error{Err: peer.ErrCertificate, Advice: "the second one says"}),
	} {
		_, err := noCluster(0, fmt.Errorf("%w: %w", console.ErrNoDaemon, cause))
		var said strings.Builder
		if code := Report(&said, "etcdadm", err); code != ExitNoCluster || !strings.Contains(said.String(), "hint: "+want) {
			t.Errorf("%d: %s", code, said.String())
		}
	}
}
