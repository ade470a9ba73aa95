package etcdadm

import (
	"errors"
	"fmt"
	"testing"

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
			if errors.Is(got, kind) != (kind == c.want) {
				t.Errorf("%v is %v: %t", c.err, kind, errors.Is(got, kind))
			}
		}
		if got.Error() != c.err.Error() || Hint(got) != Hint(c.err) || !errors.Is(got, c.err) {
			t.Errorf("%v became %v with the hint %q", c.err, got, Hint(got))
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
