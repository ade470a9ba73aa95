package etcd_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/testetcd"
)

var _ member.Member = (*etcd.Client)(nil)

func TestMain(m *testing.M) {
	testetcd.SideBySide(6)
	goleak.VerifyTestMain(m)
}

// start runs a cluster in a directory of its own, so that its token is known.
func start(t *testing.T, cfg testetcd.Config) (c *testetcd.Cluster, token string) {
	t.Helper()
	testetcd.Binary(t, cfg.Version)
	dir := t.TempDir()
	c, err := testetcd.StartIn(t.Context(), dir, cfg)
	if c != nil {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("end etcd: %v", err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, "by-hand-" + filepath.Base(dir)
}

func drive(t *testing.T, c *testetcd.Cluster, i int, credential ...string) *etcd.Client {
	t.Helper()
	cfg := etcd.Config{Endpoints: []string{c.Members[i].ClientURL}, TLS: c.ClientTLS(), Peer: []string{c.Members[i].PeerURL}, PeerTLS: c.ClientTLS()}
	if len(credential) == 2 {
		cfg.Credential = func(context.Context) (string, string, error) { return credential[0], credential[1], nil }
	}
	d, err := etcd.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// within bounds one step of a test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func status(t *testing.T, d *etcd.Client) cluster.MemberStatus {
	t.Helper()
	s, err := d.Status(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// until repeats an etcd call for whose success there is no event.
func until(t *testing.T, d time.Duration, what string, try func() error) {
	t.Helper()
	ctx := within(t, d)
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %v", what, d, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func forEachRelease(t *testing.T, f func(t *testing.T, version string)) {
	for _, v := range testetcd.Versions() {
		t.Run(v, func(t *testing.T) { f(t, v) })
	}
}

// What the driver says of a founding is what etcd computed, and what it says of
// a running member is what the member is.
func TestIdentitiesAndStatus(t *testing.T) {
	t.Parallel()
	forEachRelease(t, func(t *testing.T, version string) {
		c, token := start(t, testetcd.Config{Version: version, Members: 3, TLS: true})
		founders := make([]cluster.Member, len(c.Members))
		for i, m := range c.Members {
			founders[i] = cluster.Member{Name: m.Name, PeerURLs: []string{m.PeerURL}}
		}
		ids, id := etcd.MemberIDs(token, founders)
		leaders := map[cluster.MemberID]bool{}
		for i := range c.Members {
			s := status(t, drive(t, c, i))
			if s.Member != ids[i] || s.Cluster != id {
				t.Errorf("member %d is %s of %s, computed %s of %s", i, s.Member, s.Cluster, ids[i], id)
			}
			if !s.Healthy || s.Learner || s.Auth || s.Version.String() != version || s.Term == 0 || s.Index == 0 || s.Revision != 1 || s.DBSize == 0 {
				t.Errorf("status of member %d: %+v", i, s)
			}
			leaders[s.Leader] = true
		}
		if len(leaders) != 1 || leaders[0] {
			t.Errorf("leaders: %v", leaders)
		}
		view, err := drive(t, c, 1).View(within(t, 5*time.Second), true)
		if err != nil {
			t.Fatal(err)
		}
		if !view.Linearizable || view.Cluster != id || len(view.Members) != 3 ||
			!slices.IsSortedFunc(view.Members, func(a, b cluster.Member) int { return int(min(1, max(-1, int64(a.ID>>1)-int64(b.ID>>1)))) }) {
			t.Errorf("view: %+v", view)
		}
	})
}

// A membership is led through its life, and each refusal is the sentinel that
// it should be.
func TestMembership(t *testing.T) {
	t.Parallel()
	forEachRelease(t, func(t *testing.T, version string) {
		c, _ := start(t, testetcd.Config{Version: version})
		d := drive(t, c, 0)
		ctx := within(t, 60*time.Second)
		own := status(t, d).Member

		wantErr(t, "promote a stranger", d.Promote(ctx, 42), etcd.ErrMemberNotFound)
		wantErr(t, "remove a stranger", d.Remove(ctx, 42), etcd.ErrMemberNotFound)
		wantErr(t, "promote a voter", d.Promote(ctx, own), etcd.ErrNotLearner)
		wantErr(t, "move to a stranger", d.MoveLeader(ctx, 42), etcd.ErrBadTransferee)
		_, err := d.AddMember(ctx, []string{c.Members[0].PeerURL}, true)
		wantErr(t, "add at a used URL", err, etcd.ErrPeerURLExists)
		_, err = d.AddMember(ctx, []string{"nonsense"}, true)
		wantErr(t, "add at nonsense", err, etcd.ErrBadPeerURLs)

		i, err := c.Join(ctx)
		if err != nil {
			t.Fatal(err)
		}
		learner := drive(t, c, i)
		var ls cluster.MemberStatus
		until(t, 10*time.Second, "learner sees a leader", func() error {
			ls = status(t, learner)
			if !ls.Learner || !ls.Healthy {
				return errors.New("not yet")
			}
			return nil
		})
		_, err = learner.View(ctx, true)
		wantErr(t, "list through a learner", err, etcd.ErrLearner)
		wantErr(t, "move to a learner", d.MoveLeader(ctx, ls.Member), etcd.ErrBadTransferee)
		_, err = d.AddMember(ctx, []string{"http://127.0.0.1:2"}, true)
		wantErr(t, "second learner", err, etcd.ErrTooManyLearners)
		until(t, 10*time.Second, "promote", func() error { return d.Promote(ctx, ls.Member) })
		until(t, 10*time.Second, "the new voter knows that it is one", func() error {
			if s := status(t, learner); s.Learner || !s.Healthy {
				return errors.New("not yet")
			}
			return nil
		})
		wantErr(t, "move by a follower", learner.MoveLeader(ctx, ls.Member), etcd.ErrNotLeader)
		until(t, 10*time.Second, "move the leader", func() error { return d.MoveLeader(ctx, ls.Member) })
		if s := status(t, d); s.Leader != ls.Member {
			t.Errorf("leader is %s, moved to %s", s.Leader, ls.Member)
		}

		// A learner at an address where nobody is can be neither promoted nor in
		// the way of its own removal.
		until(t, 10*time.Second, "add an absent learner", func() error {
			_, err = d.AddMember(ctx, []string{"http://127.0.0.1:2"}, true)
			if err != nil && !errors.Is(err, etcd.ErrUnhealthy) {
				t.Fatal(err)
			}
			return err
		})
		view, err := d.View(ctx, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range view.Members {
			if m.Learner {
				wantErr(t, "promote an absent learner", d.Promote(ctx, m.ID), etcd.ErrNotReady)
				if err := d.Remove(ctx, m.ID); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// How long after kill -9 of one's own member the driver sees it healthy, and
// that nothing is awaited by polling: with the other member up there is no
// election to wait for.
func TestSeesARestartAtOnce(t *testing.T) {
	c, _ := start(t, testetcd.Config{Version: testetcd.V37, Members: 3})
	ctx := within(t, 60*time.Second)
	i := 0
	if s := status(t, drive(t, c, 0)); s.Leader == s.Member {
		i = 1
	}
	d := drive(t, c, i)
	status(t, d)
	for range 3 {
		if err := c.Kill(ctx, i, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := d.Status(ctx)
		// The call may still have been sent on the connection that just broke.
		if !errors.Is(err, etcd.ErrUnreachable) && !errors.Is(err, etcd.ErrNoAnswer) {
			t.Errorf("status of a dead member: %v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("a dead member was noticed after %s", took)
		}
		if err := c.Launch(ctx, i); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		seen := make(chan time.Duration, 1)
		go func() {
			defer close(seen)
			if d.WaitReady(ctx) == nil {
				seen <- time.Since(began)
			}
		}()
		if err := c.WaitHealthy(ctx); err != nil {
			t.Fatal(err)
		}
		byHand := time.Since(began)
		took, ok := <-seen
		if !ok {
			t.Fatal("the driver did not see the member come back")
		}
		t.Logf("ready after %s, healthy by hand after %s", took, byHand)
		if took > byHand+200*time.Millisecond {
			t.Errorf("ready after %s, by hand after %s", took, byHand)
		}
		if s := status(t, d); !s.Healthy {
			t.Errorf("status after the restart: %+v", s)
		}
	}
}

// A change that was sent to a member that does not answer has an unknown
// outcome; one that could not be sent has none.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	c, _ := start(t, testetcd.Config{Version: testetcd.V37})
	d := drive(t, c, 0)
	id := status(t, d).Member
	ctx := within(t, 60*time.Second)
	if err := c.Kill(ctx, 0, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, err := d.AddMember(within(t, 300*time.Millisecond), []string{"http://127.0.0.1:2"}, true)
	wantErr(t, "add through a stopped member", err, etcd.ErrUnknownOutcome)
	wantErr(t, "add through a stopped member", err, context.DeadlineExceeded)
	_, err = d.View(within(t, 300*time.Millisecond), false)
	wantErr(t, "list through a stopped member", err, etcd.ErrNoAnswer)

	// A member that is killed before the call was sent is unreachable: then it is stopped
	// anew, and given more time until it is killed.
	for wait := time.Duration(0); ; wait = 2*wait + 50*time.Millisecond {
		killed := make(chan error, 1)
		go func() { killed <- d.Remove(ctx, id) }()
		time.Sleep(wait)
		if err := c.Kill(ctx, 0, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err = <-killed; !errors.Is(err, etcd.ErrUnreachable) || wait > 5*time.Second {
			break
		}
		if err := errors.Join(c.Restart(ctx, 0), c.Kill(ctx, 0, syscall.SIGSTOP)); err != nil {
			t.Fatal(err)
		}
	}
	wantErr(t, "remove through a member that is killed", err, etcd.ErrUnknownOutcome)
	_, err = d.AddMember(ctx, []string{"http://127.0.0.1:2"}, true)
	wantErr(t, "add through a dead member", err, etcd.ErrUnreachable)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Status(ctx); err == nil {
		t.Error("a closed driver answers")
	}
}

// Without a quorum a list that claims to be linearizable is not given, and the
// member's own is.
func TestViewWithoutQuorum(t *testing.T) {
	t.Parallel()
	forEachRelease(t, func(t *testing.T, version string) {
		c, _ := start(t, testetcd.Config{Version: version, Members: 3})
		d := drive(t, c, 0)
		status(t, d)
		ctx := within(t, 60*time.Second)
		for _, i := range []int{1, 2} {
			if err := c.Kill(ctx, i, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.View(within(t, time.Second), true); err == nil {
			t.Error("a linearizable list without a quorum")
		}
		view, err := d.View(ctx, false)
		if err != nil || view.Linearizable || len(view.Members) != 3 {
			t.Errorf("own list: %+v, %v", view, err)
		}
		if s, err := d.Status(within(t, time.Second)); err != nil || s.Healthy {
			t.Errorf("status without a quorum: %+v, %v", s, err)
		}
	})
}

// With auth on, the driver says that it needs a credential, and with one it
// does everything, also after its token was forgotten by a restart.
func TestAuth(t *testing.T) {
	t.Parallel()
	forEachRelease(t, func(t *testing.T, version string) {
		c, _ := start(t, testetcd.Config{Version: version})
		ctx := within(t, 60*time.Second)
		admin := c.Client(t)
		enableAuth(ctx, t, admin)

		none := drive(t, c, 0)
		s, err := none.Status(ctx)
		if err != nil || !s.Auth || s.Healthy {
			t.Errorf("status without a credential: %+v, %v", s, err)
		}
		_, err = none.View(ctx, true)
		wantErr(t, "list without a credential", err, etcd.ErrAuthRequired)
		wantErr(t, "remove without a credential", none.Remove(ctx, 42), etcd.ErrAuthRequired)

		wrong := drive(t, c, 0, "root", "guess")
		if s, err := wrong.Status(ctx); err != nil || !s.Auth {
			t.Errorf("status with a wrong password: %+v, %v", s, err)
		}
		reader := drive(t, c, 0, "reader", "r")
		if s := status(t, reader); !s.Healthy {
			t.Errorf("status of a user without permissions: %+v", s)
		}
		wantErr(t, "remove as a user", reader.Remove(ctx, 42), etcd.ErrPermission)

		root := drive(t, c, 0, "root", "secret")
		if s := status(t, root); !s.Healthy || s.Auth {
			t.Errorf("status as root: %+v", s)
		}
		wantErr(t, "remove as root", root.Remove(ctx, 42), etcd.ErrMemberNotFound)
		if err := c.Restart(ctx, 0); err != nil {
			t.Fatal(err)
		}
		if err := root.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "remove with a forgotten token", root.Remove(ctx, 42), etcd.ErrMemberNotFound)
	})
}

func enableAuth(ctx context.Context, t *testing.T, c *clientv3.Client) {
	t.Helper()
	for _, step := range []func() error{
		func() error { _, err := c.RoleAdd(ctx, "root"); return err },
		func() error { _, err := c.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.UserAdd(ctx, "reader", "r"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewRefusesEndpoints(t *testing.T) {
	t.Parallel()
	for _, bad := range [][]string{
		nil, {"127.0.0.1:2379"}, {"ftp://127.0.0.1:1"}, {"http://127.0.0.1"},
		{"http://127.0.0.1:1", "https://127.0.0.1:2"},
	} {
		if c, err := etcd.New(etcd.Config{Endpoints: bad}); err == nil {
			c.Close()
			t.Errorf("%v was accepted", bad)
		}
	}
}
