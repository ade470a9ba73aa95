package manager

import (
	"slices"
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// endpoints are those that are pinged.
func (n *node) endpoints() []string {
	n.gossip.mu.Lock()
	defer n.gossip.mu.Unlock()
	var out []string
	for endpoint := range n.gossip.targets {
		out = append(out, endpoint)
	}
	slices.Sort(out)
	return out
}

// One that is said to be somewhere, and has never answered, is not asked for ever.
func TestNeverAnsweredIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a", func(o *Options) { o.Seeds = seeds{"a"} })
		a.gossip.learn("x:8000", "x", false)
		w.run(a)
		time.Sleep(silentAfter - time.Second)
		if got := a.endpoints(); !slices.Contains(got, "x:8000") {
			t.Errorf("dropped too soon: %v", got)
		}
		time.Sleep(silentAfter)
		if got := a.endpoints(); slices.Contains(got, "x:8000") {
			t.Errorf("still asked: %v", got)
		}
	})
}

// TestForgottenTarget: only one that nobody names, that is silent, and that nobody asks
// right now.
func TestForgottenTarget(t *testing.T) {
	now := time.Now()
	m := &Gossip{peers: map[cluster.HostID]*peerState{"b": {contact: cluster.Contact{Host: "b", Endpoint: "b:1"}}}}
	gone := func() *target { return &target{endpoint: "b:2", host: "b", since: now.Add(-2 * silentAfter)} }
	for what, c := range map[string]struct {
		change func(*target)
		want   bool
	}{
		"an earlier address":       {func(*target) {}, true},
		"of a host that is gone":   {func(t *target) { t.host = "c" }, true},
		"where the host is":        {func(t *target) { t.endpoint = "b:1" }, false},
		"discovery names it":       {func(t *target) { t.seed = true }, false},
		"a ping is under way":      {func(t *target) { t.busy = true }, false},
		"never asked":              {func(t *target) { t.since = time.Time{} }, false},
		"silent for a moment":      {func(t *target) { t.since = now.Add(-silentAfter) }, false},
		"nobody knows whose":       {func(t *target) { t.host = "" }, false},
		"nobody knows whose, long": {func(t *target) { t.host, t.since = "", now.Add(-11*silentAfter) }, true},
	} {
		g := gone()
		if c.change(g); m.forgottenLocked(g, now) != c.want {
			t.Errorf("%s: %+v", what, g)
		}
	}
}

// Where a host was before is not learned from another one's view: it is heard itself,
// and says where it is.
func TestViewDoesNotTakeBackAnAddress(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.add("a")
		said := func(id cluster.HostID, view ...cluster.Contact) {
			a.gossip.hear(cluster.Ping{Cluster: clusterName, Host: id, Endpoint: endpoint(id), View: view})
		}
		said("c")
		said("b", cluster.Contact{Host: "c", Endpoint: "old:8000"}, cluster.Contact{Host: "d", Endpoint: endpoint("d")})
		if got, want := a.endpoints(), []string{endpoint("b"), endpoint("c"), endpoint("d")}; !slices.Equal(got, want) {
			t.Errorf("pinged are %v, want %v", got, want)
		}
	})
}

// Who hears two daemons under one host ID follows neither of them, although both say
// that they are well: they need not have heard of each other yet.
func TestNeitherOfTwoIsFollowed(t *testing.T) {
	for what, two := range map[string]bool{"one": false, "two": true} {
		bubble(t, func(t *testing.T, w *world) {
			a := w.add("a")
			b := w.add("b", func(o *Options) { o.Seeds = seeds{"b"} })
			w.run(b)
			led := false
			for i := range 120 {
				p := a.gossip.say("b", "")
				p.Disk, p.Leader, p.Unfit = "disk-a", "a", ""
				b.gossip.hear(p)
				if two {
					p.Endpoint = "z:8000"
					b.gossip.hear(p)
				}
				time.Sleep(250 * time.Millisecond)
				_, leads, _ := b.gossip.Leader()
				led = led || leads && i > 80
			}
			if led != two {
				t.Errorf("%s: b leads %v", what, led)
			}
		})
	}
}
