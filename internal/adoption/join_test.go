package adoption

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

var errCrash = errors.New("the command was killed")

// world is a cluster in memory that keeps etcd's rules about its members.
type world struct {
	t       *testing.T
	draw    *rand.Rand
	store   *memory.Store
	dir     string
	next    cluster.MemberID
	members []cluster.Member
	down    map[cluster.MemberID]bool
	started map[cluster.MemberID]bool // a learner that its daemon runs
	leader  cluster.MemberID
	ours    map[cluster.MemberID]bool
	backups int
	count   int
	moved   bool
	removed bool
	// giveUps is how often the person gives up before anything was removed, and
	// replaced how many foreign members were replaced then, of which the newest backup
	// knows that many.
	giveUps, replaced, backed int
	// secure: the daemons of ours have TLS, and no member of theirs.
	secure bool
	// left is how many calls the command may make before it is killed.
	left int
	late []func() // calls whose answer was lost, and that take effect later
}

func newWorld(t *testing.T, seed uint64, foreign int) *world {
	w := &world{
		t: t, draw: rand.New(rand.NewPCG(seed, 1)), store: memory.New(), dir: t.TempDir(), next: 1, left: 1 << 30,
		down: map[cluster.MemberID]bool{}, started: map[cluster.MemberID]bool{}, ours: map[cluster.MemberID]bool{}, count: 3,
	}
	for range foreign {
		w.members = append(w.members, cluster.Member{ID: w.next, Name: fmt.Sprint("f", w.next), PeerURLs: []string{fmt.Sprint("http://f", w.next)}, ClientURLs: []string{"http://c"}})
		w.next++
	}
	w.leader = 1
	return w
}

func (w *world) find(id cluster.MemberID) int {
	return slices.IndexFunc(w.members, func(m cluster.Member) bool { return m.ID == id })
}

func (w *world) voters() (all, up int) {
	for _, m := range w.members {
		if !m.Learner {
			all++
			if !w.down[m.ID] {
				up++
			}
		}
	}
	return all, up
}

func (w *world) quorum() bool {
	all, up := w.voters()
	return up >= cluster.Quorum(all)
}

// call is one call of the command; do takes effect now, later, or never.
func (w *world) call(do func() error) error {
	if w.left--; w.left < 0 {
		return errCrash
	}
	if !w.quorum() {
		return errors.New("no quorum")
	}
	switch w.draw.IntN(12) {
	case 0:
		w.late = append(w.late, func() {
			if w.quorum() {
				_ = do()
			}
		})
		return errors.New("unknown outcome")
	case 1:
		_ = do()
		return errors.New("unknown outcome")
	case 2:
		return errors.New("unhealthy cluster")
	}
	return do()
}

func (w *world) List(ctx context.Context) (cluster.MemberView, error) {
	if w.left--; w.left < 0 {
		return cluster.MemberView{}, errCrash
	}
	if !w.quorum() {
		return cluster.MemberView{}, errors.New("no quorum")
	}
	return cluster.MemberView{Cluster: 9, Members: slices.Clone(w.members), Linearizable: true}, ctx.Err()
}

func (w *world) Status(_ context.Context, m cluster.Member) (cluster.MemberStatus, error) {
	if w.down[m.ID] || m.Learner && !w.started[m.ID] {
		return cluster.MemberStatus{}, errors.New("no answer")
	}
	return cluster.MemberStatus{Member: m.ID, Cluster: 9, Version: cluster.MustVersion("3.6.16"), Leader: w.leader, Index: 100, Applied: 100, Learner: m.Learner, Healthy: w.quorum()}, nil
}

func (w *world) AddLearner(_ context.Context, _ cluster.ClusterID, peer []string) error {
	return w.call(func() error {
		for _, m := range w.members {
			if m.Learner || cluster.SameAddresses(m.PeerURLs, peer) {
				return errors.New("too many learners, or peer URL exists")
			}
		}
		if !strings.HasPrefix(peer[0], "http:") {
			w.t.Errorf("a member is added at %v: the other members have no certificates, and cannot reach it", peer)
		}
		if w.backups == 0 || w.backed != w.replaced {
			w.t.Error("a member is added without a backup of what is there")
		}
		w.members = append(w.members, cluster.Member{ID: w.next, PeerURLs: peer, Learner: true})
		w.ours[w.next] = true
		w.next++
		return nil
	})
}

func (w *world) Promote(_ context.Context, _ cluster.ClusterID, id cluster.MemberID) error {
	return w.call(func() error {
		i := w.find(id)
		if i < 0 || !w.members[i].Learner || !w.started[id] {
			return errors.New("not a learner in sync")
		}
		j, _, err := control.New(w.store, "c").ReadJoining(context.Background())
		if err != nil || !slices.Contains(j.Promoted, id) {
			w.t.Errorf("member %s is promoted, and the store does not say so", id)
		}
		w.members[i].Learner = false
		return nil
	})
}

func (w *world) Remove(_ context.Context, _ cluster.ClusterID, id cluster.MemberID) error {
	if id == w.leader {
		w.t.Errorf("the leader %s is removed", id)
	}
	return w.call(func() error {
		i := w.find(id)
		if i < 0 {
			return errors.New("member not found")
		}
		if w.ours[id] {
			w.t.Errorf("member %s of ours is removed", id)
		}
		if w.backups == 0 || w.backed != w.replaced {
			w.t.Error("a member is removed without a backup of what is there")
		}
		w.removed = true
		before := w.quorum()
		w.members = slices.Delete(w.members, i, i+1)
		if before && !w.quorum() {
			w.t.Errorf("the removal of %s cost the quorum: %+v, down %v", id, w.members, w.down)
		}
		return nil
	})
}

func (w *world) MoveLeader(_ context.Context, _ cluster.ClusterID, leader cluster.Member, to cluster.MemberID) error {
	return w.call(func() error {
		if w.leader != leader.ID || w.down[to] || w.find(to) < 0 {
			return errors.New("not the leader, or a bad heir")
		}
		if !w.ours[to] {
			w.t.Errorf("leadership goes to %s, which is not ours", to)
		}
		w.leader, w.moved = to, true
		return nil
	})
}

func (w *world) Backup(context.Context, cluster.ClusterID) (string, error) {
	if w.left--; w.left < 0 {
		return "", errCrash
	}
	if slices.ContainsFunc(w.members, func(m cluster.Member) bool { return w.ours[m.ID] && !m.Learner }) {
		w.t.Error("the backup comes after the first change")
	}
	w.backups, w.backed = w.backups+1, w.replaced
	return fmt.Sprint("b", w.backups), nil
}

func (w *world) Quota(context.Context, cluster.Member) (int64, error) { return 0, nil }

func (w *world) MayChange(context.Context) error { return nil }

func (w *world) Reach(context.Context, cluster.Member) error { return nil }

func (w *world) Certified() error { return nil }

// host is the command on a host of ours.
func (w *world) host(n int) *Join {
	scheme := "http"
	if w.secure {
		scheme = "https"
	}
	return &Join{
		DataDir: filepath.Join(w.dir, fmt.Sprint(n)), URLs: cluster.URLs{Peer: []string{fmt.Sprint(scheme, "://o", n)}, Client: []string{fmt.Sprint(scheme, "://o", n, ":1")}},
		Count: w.count, Within: time.Hour, Members: w, Folder: control.New(w.store, "c"), Has: func(cluster.Version) bool { return true }, Say: func(string, ...any) {},
	}
}

// daemons does what daemons do: each starts the member that it was given a place for.
func (w *world) daemons() {
	for n := 1; n <= w.count; n++ {
		a, _ := w.host(n).place().ReadAdmission()
		if a == nil || a.Member == 0 {
			continue
		}
		if slices.Contains(a.Known, a.Member) {
			w.t.Errorf("the admission knows its own member: %+v", a)
		}
		if i := w.find(a.Member); i >= 0 && w.draw.IntN(2) == 0 {
			w.members[i].Name, w.members[i].ClientURLs, w.started[a.Member] = fmt.Sprint("o", n), []string{"http://c"}, true
		}
	}
}

// TestJoinModel takes an adoption through by single steps of commands on any of the
// hosts, which are killed at any call, whose calls take effect late or unseen, while
// members go down and come back, and looks at what must never happen on the way.
func TestJoinModel(t *testing.T) {
	ended := 0
	for seed := range uint64(100) {
		w := newWorld(t, seed, 1+int(seed%4))
		w.giveUps, w.secure = int(seed%3), seed%5 < 2
		folder := control.New(w.store, "c")
		for round := range 3000 {
			w.disturb(round)
			w.giveUp()
			w.left = 1 << 30
			if w.draw.IntN(3) == 0 {
				w.left = w.draw.IntN(4)
			}
			j := w.host(1 + w.draw.IntN(w.count))
			s, err := j.Look(t.Context())
			if err != nil {
				continue
			}
			if w.draw.IntN(4) == 0 { // somebody else acts between the look and the step
				w.elsewhere()
			}
			next := s.Next()
			if next.Kind == StepRefuse {
				t.Fatalf("seed %d: refused: %s", seed, next.Reason)
			}
			_, _ = j.take(t.Context(), s, next)
			if t.Failed() {
				t.Fatalf("seed %d, round %d, after %+v", seed, round, next)
			}
			if next.Kind == StepDone {
				ended++
				break
			}
		}
		if _, marker, _, err := folder.ReadIntent(t.Context()); err != nil || !marker && w.backups > 0 {
			t.Errorf("seed %d: no marker, %v", seed, err)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if ended < 100 {
		t.Errorf("%d of 100 came to their end", ended)
	}
}

// giveUp is what a person does by docs/operations/predecessor.md: our members are
// removed, our hosts emptied; and then what runs the others replaces one of them.
func (w *world) giveUp() {
	ours := slices.ContainsFunc(w.members, func(m cluster.Member) bool { return w.ours[m.ID] })
	if w.giveUps == 0 || !ours || len(w.down) > 0 || w.removed || w.draw.IntN(15) > 0 {
		return
	}
	w.giveUps--
	w.late = nil
	w.members = slices.DeleteFunc(w.members, func(m cluster.Member) bool { return w.ours[m.ID] })
	for n := 1; n <= w.count; n++ {
		if err := os.RemoveAll(w.host(n).DataDir); err != nil {
			w.t.Fatal(err)
		}
	}
	if w.draw.IntN(2) == 0 {
		w.members[0].ID, w.next, w.replaced = w.next, w.next+1, w.replaced+1
	}
	w.leader = w.members[0].ID
}

func (w *world) elsewhere() {
	j := w.host(1 + w.draw.IntN(w.count))
	if s, err := j.Look(context.Background()); err == nil {
		_, _ = j.take(context.Background(), s, s.Next())
	}
}

// disturb is what happens beside the command. The faults end after a while.
func (w *world) disturb(round int) {
	if len(w.late) > 0 && w.draw.IntN(3) == 0 {
		do := w.late[0]
		w.late = w.late[1:]
		do()
	}
	w.daemons()
	m := w.members[w.draw.IntN(len(w.members))]
	switch {
	case round > 300:
		clear(w.down)
	case w.draw.IntN(20) == 0 && len(w.down) == 0 && !m.Learner:
		w.down[m.ID] = true
	case w.draw.IntN(8) == 0:
		clear(w.down)
	}
	if w.find(w.leader) < 0 || w.down[w.leader] || w.draw.IntN(50) == 0 {
		for _, m := range w.members {
			if !m.Learner && !w.down[m.ID] && w.quorum() {
				w.leader = m.ID
				break
			}
		}
	}
}
