package network

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
)

// The leading daemon hears all the others, and its own calls to them are lost: an
// outgoing firewall was set up. It gives up the lead to one that is answered, which
// carries out what is asked for, the first one's host included; and it takes the lead
// from nobody when it is answered again.
func TestLeadingDaemonIsNotAnswered(t *testing.T) {
	t.Parallel()
	if !*rig.Long {
		t.Skip("takes a minute and a half: -e2e.long")
	}
	c := rig.Formed(t, 3, rig.Options{Hosts: 5, Network: true})
	w := c.Write()
	// The last by its ID: where the first one is silent for a moment others may miss it
	// before they call it themselves, and lead.
	ids := map[*rig.Host]string{}
	for _, h := range c.Hosts[:3] {
		rig.Eventually(t, rig.Soon, "its daemon's ID", func(ctx context.Context) error {
			r, err := c.Report(ctx, h)
			ids[h] = string(r.Host)
			return err
		})
	}
	byID := slices.SortedFunc(slices.Values(c.Hosts[:3]), func(a, b *rig.Host) int { return cmp.Compare(ids[a], ids[b]) })
	mute := byID[2]
	for _, h := range byID[:2] {
		h.Kill()
	}
	c.Leader(rig.Soon, mute, byID[:2]...)
	c.Start(byID[0].N, byID[1].N)
	c.Voters(rig.Soon, 1, 2, 3)
	c.Passes(8 * time.Second)
	if led := c.Leader(rig.Soon, byID[0]); led != mute {
		t.Fatalf("host %d leads, and host %d was to be muted", led.N, mute.N)
	}
	_, text, err := net.SplitHostPort(byID[0].Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	mark := mute.Mark()
	if err := c.Net.Mute(mute.Address, port); err != nil {
		t.Fatal(err)
	}
	muted := time.Now()
	led := c.Leader(90*time.Second, byID[0], mute)
	t.Logf("host %d leads after host %d, whose calls are lost, %s later", led.N, mute.N, time.Since(muted).Round(time.Second))
	log, err := os.ReadFile(mute.Log)
	if err != nil {
		t.Fatal(err)
	}
	if words := "other hosts do not answer the calls of this one"; !bytes.Contains(log[mark:], []byte(words)) {
		t.Errorf("host %d does not say %q", mute.N, words)
	}
	c.Start(4, 5)
	c.Configure(5)
	c.Voters(2*time.Minute, 1, 2, 3, 4, 5)
	if err := c.Net.LoseNothing(mute.Address); err != nil {
		t.Fatal(err)
	}
	c.Passes(15 * time.Second)
	if now := c.Agree(); now != led {
		t.Errorf("host %d leads, and host %d did", now.N, led.N)
	}
	w.Check()
}
