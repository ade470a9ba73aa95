package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
)

// Schedules of docs/adr/018-upkeep.md.

// TestOddMemberReplaced: the member whose keys are not those of the others is found
// and replaced, also when it leads raft, and when the leader of the daemons dies
// over it; the others stay.
func TestOddMemberReplaced(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct{ leads, killed bool }{
		"a follower": {}, "raft's leader": {leads: true}, "a leader of the daemons that dies": {killed: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Options{Upkeep: cluster.Upkeep{HashInterval: 5 * time.Minute}}, func(w *World) {
				w.formed(3, "a", "b", "c")
				w.run(2 * time.Second)
				var odd *machine
				var others []cluster.MemberID
				for _, m := range w.hosts() {
					if (m == w.raftLeader()) == of.leads && odd == nil {
						odd = m
					} else {
						others = append(others, m.member())
					}
				}
				was := odd.member()
				w.rot(odd)
				if of.killed {
					w.run(70 * time.Second) // hashes are being taken
					l := w.leader()
					w.KillDaemon(l)
					w.run(20 * time.Second)
					w.Start(l)
				}
				w.Until("the odd member is replaced", 20*time.Minute, func() bool { return odd.member() != was && w.votes(odd) })
				w.Await(3, soonEnough)
				for _, m := range w.hosts() {
					if m != odd && !slices.Contains(others, m.member()) {
						w.violate("the member of %s was replaced as well", m.name)
					}
				}
				if w.aside(odd) == "" {
					w.violate("nothing was set aside on %s", odd.name)
				}
			})
		})
	}
}

// TestFullDatabaseCured: a database that is full of its past serves again, also when
// daemons die meanwhile and where there are two voters, and no member is taken away
// beside another one. The leading daemon hears of it from its own member, and not at
// its next look by the clock.
func TestFullDatabaseCured(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hosts  []string
		killed bool
	}{{[]string{"a", "b", "c"}, false}, {[]string{"a", "b", "c"}, true}, {[]string{"a", "b"}, false}, {[]string{"a", "b"}, true}} {
		voters := len(c.hosts)
		inWorld(t, Options{}, func(w *World) {
			w.mu.Lock()
			w.options = []string{"--quota-backend-bytes=400000"}
			w.mu.Unlock()
			for _, name := range c.hosts {
				w.Add(name)
			}
			w.Spec(spec(3)) // two hosts carry two
			w.Load(100 * time.Millisecond)
			w.await(voters, 3, soonEnough)
			w.run(20 * time.Second)
			hosts := w.hosts()
			for n := 0; len(w.alarms()) == 0 && n < 3000; n++ {
				_, _ = w.etcd.Client(hosts[n%voters].ID()).Put(w.ctx, "hot", strings.Repeat("x", 1000)) // it is full at some time
			}
			if len(w.alarms()) == 0 {
				w.violate("the database was not filled")
			}
			w.Until("the cure has begun", 4*time.Second, func() bool {
				told := w.Timeline(1 << 20)
				return strings.Contains(told, "etcd: compact") || strings.Contains(told, "etcd: defragments")
			})
			if c.killed {
				w.run(4 * time.Second)
				l := w.leader()
				w.KillDaemon(l)
				w.run(5 * time.Second)
				w.Start(l)
			}
			w.Until("there is no alarm", soonEnough, func() bool { return len(w.alarms()) == 0 })
			before := w.Acked()
			w.Until("writes are acknowledged", time.Minute, func() bool { return w.Acked() > before+20 })
			w.await(voters, 3, soonEnough)
			defragmented := strings.Count(w.Timeline(1<<20), "etcd: defragments")
			if defragmented < voters {
				w.violate("%d members were defragmented", defragmented)
			}
		})
	}
}
