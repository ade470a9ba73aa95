package etcd_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/testetcd"
)

// What the members have agreed on is told by every release, at the peer port.
func TestAgreed(t *testing.T) {
	t.Parallel()
	forEachRelease(t, func(t *testing.T, version string) {
		c, _ := start(t, testetcd.Config{Version: version, Members: 1, TLS: true})
		d := drive(t, c, 0)
		want := cluster.MustVersion(version).Base()
		until(t, 15*time.Second, "the members agree", func() error {
			a, err := d.Agreed(within(t, 5*time.Second))
			if err == nil && a.Version != want {
				err = fmt.Errorf("agreed on %s", a.Version)
			}
			if err == nil && a.Downgrade {
				err = errors.New("a downgrade is under way")
			}
			return err
		})
		if err := c.Kill(within(t, 5*time.Second), 0, 9); err != nil {
			t.Fatal(err)
		}
		if a, err := d.Agreed(within(t, 5*time.Second)); err == nil {
			t.Errorf("a dead member says %+v", a)
		}
	})
}

// A downgrade is enabled, seen, and cancelled; to a line that is not the one
// before it is refused.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	for _, version := range []string{testetcd.V36, testetcd.V37} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c, _ := start(t, testetcd.Config{Version: version, Members: 1})
			d := drive(t, c, 0)
			now := cluster.MustVersion(version).Base()
			to := cluster.Version{Major: 3, Minor: now.Minor - 1}
			see := func(agreed, storage cluster.Version, downgrade bool) {
				t.Helper()
				until(t, 20*time.Second, fmt.Sprintf("agreed on %s, downgrade %t", agreed, downgrade), func() error {
					a, err := d.Agreed(within(t, 5*time.Second))
					if err != nil {
						return err
					}
					s := status(t, d)
					if a.Version != agreed || a.Downgrade != downgrade || s.StorageVersion != storage || s.Downgrading.IsZero() == downgrade {
						return fmt.Errorf("%+v, storage %s, downgrading %s", a, s.StorageVersion, s.Downgrading)
					}
					return nil
				})
			}
			see(now, now, false)
			ctx := within(t, 10*time.Second)
			if err := d.Downgrade(ctx, cluster.Version{Major: 3, Minor: now.Minor - 2}); err == nil {
				t.Error("two lines down was taken")
			}
			if err := d.Downgrade(ctx, to); err != nil {
				t.Fatal(err)
			}
			see(to, to, true)
			if err := d.CancelDowngrade(ctx); err != nil {
				t.Fatal(err)
			}
			see(now, now, false)
		})
	}
}

// Whether authentication is on is told of 3.4, which has no call for it, whoever
// asks: with a certificate that speaks for root, and with one of nobody.
func TestAuthOn(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) {
			c, _ := start(t, testetcd.Config{Version: testetcd.V34, Members: 1, TLS: secure})
			d := drive(t, c, 0)
			ask := func(want bool) {
				t.Helper()
				until(t, 15*time.Second, fmt.Sprintf("authentication is on: %t", want), func() error {
					a, err := d.Agreed(within(t, 5*time.Second))
					if err == nil && (a.Auth == nil || *a.Auth != want) {
						err = fmt.Errorf("%+v", a)
					}
					return err
				})
			}
			ask(false)
			enableAuth(within(t, 10*time.Second), t, c.Client(t))
			ask(true)
		})
	}
}

// Without a peer URL nothing is guessed.
func TestAgreedNeedsThePeerPort(t *testing.T) {
	t.Parallel()
	d, err := etcd.New(etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Agreed(within(t, time.Second)); err == nil {
		t.Error("it answers")
	}
}
