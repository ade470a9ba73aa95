package etcdadm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/console"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/setup"
)

// Each error of setup that somebody decides by is of one kind, keeps its words and its way out.
func TestErrorsOfSetupAreSorted(t *testing.T) {
	kinds := []error{ErrOtherCluster, ErrRefused, ErrWaiting, ErrNoDaemon}
	for _, c := range []struct{ err, want error }{
		{&setup.Error{Problem: "p", Err: setup.ErrOther, Advice: "a"}, ErrOtherCluster},
		{fmt.Errorf("p: %w", pki.ErrOtherAuthority), ErrOtherCluster},
		{&setup.Error{Problem: "p", Err: setup.ErrSetUp, Advice: "a"}, ErrRefused},
		{setup.Report{Checks: []setup.Check{{Standing: setup.Refused, Found: "p", Remedy: "a"}}}.Err(), ErrRefused},
		{fmt.Errorf("p: %w", pki.ErrClock), ErrRefused},
		{fmt.Errorf("p: %w", peer.ErrJoin), ErrRefused},
		{&setup.Error{Problem: "p", Err: setup.ErrWaiting, Advice: "a"}, ErrWaiting},
		{fmt.Errorf("p: %w", peer.ErrUnreachable), ErrNoDaemon},
		{errors.New("p"), nil},
	} {
		got := sortSetup(c.err)
		for _, kind := range kinds {
			if errors.Is(got, kind) != errors.Is(kind, c.want) {
				t.Errorf("%v is %v: %t", c.err, kind, errors.Is(got, kind))
			}
		}
		if got.Error() != c.err.Error() || Hint(got) != Hint(c.err) || !errors.Is(got, c.err) {
			t.Errorf("%v became %v with the hint %q", c.err, got, Hint(got))
		}
	}
}

// still is a service that starts nothing.
type still struct{}

func (still) Check(context.Context) error          { return nil }
func (still) Active(context.Context) (bool, error) { return false, nil }
func (still) Start(context.Context) error          { return errors.New("it was started") }

// Who has no time left is told so, and not that the machine is not fit; and nothing was written.
func TestSettingUpEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := Machine{Program: "/usr/bin/etcdadm", Root: t.TempDir(), Service: still{}}
	invitation := Invitation{Endpoint: "127.0.0.1:1", Token: "k3v9qd.abcdefghijklmnopqrstuvwxyz234567", CAHash: "sha256:" + strings.Repeat("0", 64)}
	_, _, begun := Init(ctx, m, NewCluster{Address: "127.0.0.1", Host: "a"})
	_, joined := Join(ctx, m, invitation, Joining{Address: "127.0.0.1", Host: "a"})
	for what, err := range map[string]error{"init": begun, "join": joined} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) { // the probe of the disk ends with its next write
		left, err := os.ReadDir(m.Root)
		switch {
		case err == nil && len(left) == 0:
			return
		case time.Since(began) > 1500*time.Millisecond: // uncalled off it writes for 2 s
			t.Fatalf("it left %v, %v", left, err)
		}
	}
}

// What is no invitation is refused, and shows no secret.
func TestInvitationsThatAreNone(t *testing.T) {
	m := Machine{Program: "/usr/bin/etcdadm", Root: t.TempDir(), Service: still{}}
	hash, token := "sha256:"+strings.Repeat("0", 64), "k3v9qd.abcdefghijklmnopqrstuvwxyz234567"
	for _, i := range []Invitation{{Token: token}, {CAHash: hash}, {Token: token + "8", CAHash: hash}, {Token: token, CAHash: "sha256:0"}} {
		if _, err := Join(t.Context(), m, i, Joining{}); !errors.Is(err, ErrRefused) || strings.Contains(err.Error(), "abcdefgh") {
			t.Errorf("%q, %q: %v", i.Token, i.CAHash, err)
		}
	}
	if _, err := Join(t.Context(), Machine{}, Invitation{Token: token, CAHash: hash}, Joining{}); err == nil {
		t.Error("a machine without a program")
	}
}

// What says not which cluster, or says it twice, is a mistake of the program.
func TestAccessNamesOneCluster(t *testing.T) {
	for _, a := range []Access{{Endpoints: []string{"127.0.0.1:1"}}, {Cluster: "c", Endpoints: []string{"127.0.0.1:1"}, DataDir: "/x"}} {
		if _, err := Connect(t.Context(), a); err == nil || errors.Is(err, ErrNoDaemon) {
			t.Errorf("%+v: %v", a, err)
		}
	}
	if _, err := Connect(t.Context(), Access{DataDir: t.TempDir()}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
}

// A daemon that finds none that leads has answered.
func TestNoLeaderIsNotNoDaemon(t *testing.T) {
	for cause, want := range map[error]error{peer.ErrRemote: ErrNoLeader, peer.ErrUnreachable: ErrNoDaemon} {
		err := answered(fmt.Errorf("%w: %w", console.ErrNoDaemon, &peer.Error{Op: "goal", Endpoint: "e", Err: cause}))
		for _, kind := range []error{ErrNoLeader, ErrNoDaemon} {
			if errors.Is(err, kind) != errors.Is(kind, want) {
				t.Errorf("%v is %v: %t", err, kind, errors.Is(err, kind))
			}
		}
	}
}

// The health is one of the words that there are here.
func TestHealthIsKnown(t *testing.T) {
	for here, there := range map[Health]console.Health{Well: console.Well, Degraded: console.Degraded, NoQuorum: console.NoQuorum, Unknown: console.Unknown} {
		if string(here) != string(there) {
			t.Errorf("%q is %q", here, there)
		}
	}
}

// Nothing is to be undone on a machine that is no host of a cluster.
func TestResetOfNothing(t *testing.T) {
	former, err := Reset(t.Context(), Machine{Root: t.TempDir(), Service: stopped{}}, Resetting{})
	if err != nil || !former.Nothing || former.Removed {
		t.Errorf("%+v, %v", former, err)
	}
	if _, err := Reset(t.Context(), Machine{Root: t.TempDir(), Service: unstoppable{}}, Resetting{}); err == nil {
		t.Error("a service that cannot stop its agent is asked to")
	}
}

// unstoppable is a service without a way to stop it.
type unstoppable struct{}

func (unstoppable) Check(context.Context) error          { return nil }
func (unstoppable) Active(context.Context) (bool, error) { return false, nil }
func (unstoppable) Start(context.Context) error          { return nil }

type stopped struct{ unstoppable }

func (stopped) Stop(context.Context) error   { return nil }
func (stopped) Reload(context.Context) error { return nil }
