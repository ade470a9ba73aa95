package pki

import (
	"crypto/x509"
	"errors"
	"testing"
	"time"
)

// A full check of a chain holds for a minute of either direction, and only for the usage that it was
// made for, under the authorities that it was made with, and as long as the certificate is valid.
func TestVerifyAgain(t *testing.T) {
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	mine, err := Create(t.TempDir(), start)
	must(t, err)
	others, err := Create(t.TempDir(), start)
	must(t, err)
	id := Identity{Cluster: "c", Role: RoleOperator, ID: "o"}
	r, err := CallerRequest(id, Lifetime{Duration: time.Hour, MinTimeLeft: time.Minute})
	must(t, err)
	clock := newClock(start)
	pair := issued(t, mine.Manager, r, start)
	chain := []*x509.Certificate{pair.Leaf()}
	l := live(clock, pair, mine.Manager)
	checked := func() time.Time {
		t.Helper()
		got, err := l.Verify(chain, x509.ExtKeyUsageClientAuth)
		if err != nil || got != id {
			t.Fatalf("%v, %v", got, err)
		}
		v, ok := l.cur.Load().verified.Load(chain[0])
		if !ok {
			t.Fatal("the outcome is not remembered")
		}
		return v.(verification).at.UTC()
	}
	for _, step := range []struct{ by, want time.Duration }{ // of the clock, and when the last full check was, after the start
		{0, 0}, {time.Minute - 1, 0}, {1, time.Minute}, {-(time.Minute - 1), time.Minute}, {-1, 0}, {-time.Minute, -time.Minute}, {time.Minute, 0},
	} {
		clock.add(step.by)
		if at := checked(); !at.Equal(start.Add(step.want)) {
			t.Errorf("at %v the last full check is of %v", clock.now(), at)
		}
	}
	if got, err := l.Verify(chain, x509.ExtKeyUsageServerAuth); err == nil {
		t.Errorf("an operator's certificate serves %v", got)
	}
	clock.set(pair.Leaf().NotAfter)
	checked()
	clock.add(1)
	if got, err := l.Verify(chain, x509.ExtKeyUsageClientAuth); !errors.Is(err, ErrExpired) {
		t.Errorf("a second later: %v, %v", got, err)
	}
	clock.set(start)
	checked()
	l.Swap(pair, others.Manager)
	if got, err := l.Verify(chain, x509.ExtKeyUsageClientAuth); err == nil {
		t.Errorf("under another authority: %v", got)
	}
	if got, err := l.Verify(nil, x509.ExtKeyUsageClientAuth); !errors.Is(err, ErrIdentity) {
		t.Errorf("without a certificate: %v, %v", got, err)
	}
	if got, err := NewLive(nil).Verify(chain, x509.ExtKeyUsageClientAuth); !errors.Is(err, errNoCredentials) {
		t.Errorf("before the first credentials: %v, %v", got, err)
	}
}
