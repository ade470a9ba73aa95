package tls

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
)

// A daemon that is killed at random times, alone or with its etcd, goes on each
// time as the same member with all its writes. What it was given to keep secret
// is then in no file and no answer but where it belongs, and its files are open
// to nobody else.
func TestKilledAtRandomAndKeepsSecrets(t *testing.T) {
	rig.TakesLong(t, "15 s")
	t.Parallel()
	var env []string
	for name, value := range rig.Planted {
		env = append(env, name+"="+value)
	}
	c := rig.Formed(t, 1, rig.Options{TLS: true, Env: env})
	w := c.Write()
	h := c.Host(1)
	member := c.Voters(rig.Soon, 1)[0].ID
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	rounds := 5
	if *rig.Long {
		rounds = 25
	}
	for range rounds {
		// The time is the point of it: any moment of a daemon's start and of its work.
		time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		if r.IntN(2) == 0 {
			h.Kill()
		} else {
			h.Crash()
		}
		if n := len(h.EtcdPIDs()); n > 1 {
			t.Fatalf("%d etcds run", n)
		}
		h.Start()
	}
	if now := c.Voters(rig.Soon, 1)[0].ID; now != member {
		t.Errorf("it was member %x, and is %x", member, now)
	}
	w.Check()
	if n := len(h.EtcdPIDs()); n != 1 {
		t.Errorf("%d etcds run", n)
	}

	secrets := c.Secrets(h)
	shutToOthers(t, h.Dir, c.Store)
	for _, dir := range []string{h.Dir, c.Store} {
		c.NoSecretBelow(dir, secrets)
	}
	c.NoSecretIn("the daemon's log", rig.FileAt(t, h.Log), secrets)
	for _, words := range [][]string{{"status", "-o", "json"}, {"status"}, {"plan", "-o", "json"}, {"status", "--data-dir=/nowhere"}} {
		said := c.Etcdadm(append(words[:1:1], append([]string{"--data-dir=" + h.Dir}, words[1:]...)...)...)
		c.NoSecretIn("etcdadm "+strings.Join(words, " "), []byte(said.String()), secrets)
	}
}
