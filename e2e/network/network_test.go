package network

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
)

// A network of a test is what the tests take it for: what is cut is lost in one
// direction, also on connections that are open, the test reaches every host
// all the same, and nothing is lost any more once it is healed.
func TestNetwork(t *testing.T) {
	t.Parallel()
	n := rig.NewNetwork(t)
	one, two := rig.NetworkPrefix+"1", rig.NetworkPrefix+"2"
	n.Add(t, one)
	n.Add(t, two)
	packets := func(on string) net.PacketConn {
		var conn net.PacketConn
		if err := n.Hosts[on].Do(func() (err error) {
			conn, err = net.ListenPacket("udp", on+":2000")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	at := map[string]net.PacketConn{one: packets(one), two: packets(two)}
	arrives := func(from, to, what string, want bool) {
		t.Helper()
		target, err := net.ResolveUDPAddr("udp", to+":2000")
		if err != nil {
			t.Fatal(err)
		}
		wait := 5 * time.Second
		if !want {
			wait = 300 * time.Millisecond
		}
		at[to].SetReadDeadline(time.Now().Add(wait))
		if _, err := at[from].WriteTo([]byte(what), target); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 64)
		length, _, err := at[to].ReadFrom(got)
		if (err == nil) != want || want && string(got[:length]) != what {
			t.Errorf("%s from %s to %s: %q, %v; want it to arrive: %t", what, from, to, got[:length], err, want)
		}
	}
	arrives(one, two, "before", true)
	arrives(two, one, "before", true)
	if err := n.Cut(one, two); err != nil {
		t.Fatal(err)
	}
	arrives(one, two, "cut", false)
	arrives(two, one, "the other way", true)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for address := range n.Hosts {
		if _, err := n.Dial(ctx, address+":2000"); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("the test does not reach %s: %v, want a refusal", address, err)
		}
	}
	if err := n.Heal(); err != nil {
		t.Fatal(err)
	}
	arrives(one, two, "healed", true)
	if err := errors.Join(n.Cut(one, two), n.Uncut(one, two)); err != nil {
		t.Fatal(err)
	}
	arrives(one, two, "healed alone", true)

	const sent = 200 // as many as a socket holds
	if err := n.Lose(two, 30); err != nil {
		t.Skipf("SKIPPED, packets cannot be lost by chance here: %v", err)
	}
	target, err := net.ResolveUDPAddr("udp", two+":2000")
	if err != nil {
		t.Fatal(err)
	}
	for range sent {
		if _, err := at[one].WriteTo([]byte("some"), target); err != nil {
			t.Fatal(err)
		}
	}
	came, got := 0, make([]byte, 64)
	for at[two].SetReadDeadline(time.Now().Add(300*time.Millisecond)) == nil {
		if _, _, err := at[two].ReadFrom(got); err != nil {
			break
		}
		came++
	}
	if came < sent*5/10 || came > sent*9/10 {
		t.Errorf("%d of %d packets arrive, and 30 %% are to be lost", came, sent)
	}
	if err := n.LoseNothing(two); err != nil {
		t.Fatal(err)
	}
	arrives(one, two, "without loss", true)
}
