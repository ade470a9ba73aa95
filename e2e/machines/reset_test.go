package machines

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/removal"
	"etcdadm.io/internal/setup"
)

func (d *direct) Stop(context.Context) error {
	d.stop(syscall.SIGTERM)
	return nil
}

func (d *direct) Reload(context.Context) error { return nil }

func (m *machine) removal() *removal.Host {
	return &removal.Host{Paths: m.Paths, Service: m.direct, Say: m.Say}
}

func (m *machine) tryReset(t *testing.T, o removal.Options) (removal.Plan, removal.Done, error) {
	t.Helper()
	o.Wait = time.Minute
	h := m.removal()
	p, err := h.Look(t.Context(), o)
	if err != nil {
		return p, removal.Done{}, err
	}
	done, err := h.Reset(t.Context(), p, o)
	return p, done, err
}

// status is what the leading daemon says, asked at this machine's agent.
func (m *machine) status(t *testing.T) console.Report {
	t.Helper()
	access, err := console.ReadAccess(m.Paths.Data())
	if err != nil {
		t.Fatal(err)
	}
	c, err := console.Open(access)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// left are the files on a machine that are not below a directory with what was set aside.
func (m *machine) left(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(m.Paths.Root, func(path string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.Contains(e.Name(), setup.AsidePrefix):
			return filepath.SkipDir
		case e.Type().IsRegular() && e.Name() != "agent.log" && e.Name() != "hosts":
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// The only host goes by force, and begins anew. An etcd that its agent has left behind is ended.
func TestResetOfTheLastHost(t *testing.T) {
	t.Parallel()
	all, _ := newMachines(t, 1)
	m := all[0]
	first := m.begin(t, "")
	if _, _, err := m.tryReset(t, removal.Options{}); !errors.Is(err, removal.ErrUnsafe) {
		t.Fatalf("%v", err)
	}
	m.direct.stop(syscall.SIGKILL)
	if _, _, err := m.tryReset(t, removal.Options{}); !errors.Is(err, removal.ErrUnreachable) {
		t.Fatalf("without its agent: %v", err)
	}
	_, done, err := m.tryReset(t, removal.Options{Force: true})
	if err != nil || len(done.Aside) != 2 || len(m.left(t)) > 0 {
		t.Fatalf("%+v, %v, %v", done, err, m.left(t))
	}
	if second := m.begin(t, ""); second.CAHash == first.CAHash || second.Again {
		t.Errorf("%+v", second)
	}
}

// Hosts go and come back: one that follows, the one that leads, and the last one by force.
func TestReset(t *testing.T) {
	t.Parallel()
	if !*rig.Long {
		t.Skip("TestResetOfTheLastHost is enough for every day: -e2e.long")
	}
	for name, shared := range map[string]bool{"a shared store": true, "no store": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, store := newMachines(t, 3)
			if !shared {
				store = ""
			}
			resets(t, all, store)
		})
	}
}

func resets(t *testing.T, all []*machine, store string) {
	t.Helper()
	first := all[0].begin(t, store)
	for _, m := range all[1:] {
		if _, err := m.tryJoin(t, first, first.Token); err != nil {
			t.Fatal(err)
		}
	}
	all[0].voters(t, 3)

	gone := func(m *machine, from *machine, voters int) {
		t.Helper()
		p, done, err := m.tryReset(t, removal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if p.Member == nil || !p.Leaves() || !done.Removed || len(done.Left) > 0 || len(done.Aside) != 2 {
			t.Errorf("%s: %+v; %+v", m.id, p, done)
		}
		if files := m.left(t); len(files) > 0 {
			t.Errorf("%s: left are %v", m.id, files)
		}
		from.voters(t, voters)
		deadline := time.Now().Add(20 * time.Second)
		for {
			r := from.status(t)
			held, known := true, false
			if o := r.Observation; o != nil {
				held = o.Wanted() == nil || o.Wanted().Hold
			}
			for _, c := range r.Contacts {
				known = known || string(c.Host) == m.id
			}
			if !held && !known {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("on hold: %v; host %s is known: %v", held, m.id, known)
			}
			time.Sleep(200 * time.Millisecond)
		}
		if _, again, err := m.tryReset(t, removal.Options{}); err != nil || !again.Nothing {
			t.Errorf("again: %+v, %v", again, err)
		}
	}
	back := func(m *machine, voters int) {
		t.Helper()
		if _, err := m.tryJoin(t, first, first.Token); err != nil {
			t.Fatal(err)
		}
		m.voters(t, voters)
	}

	leader := all[0].status(t).Leader
	follower, lead := all[2], all[1]
	for _, m := range all[1:] {
		if string(m.id) != string(leader) {
			follower = m
		}
	}
	gone(follower, all[0], 2)
	back(follower, 3)
	for _, m := range all { // whoever leads now, of the daemons
		if m.id == string(all[0].status(t).Leader) {
			lead = m
		}
	}
	rest := make([]*machine, 0, 2)
	for _, m := range all {
		if m != lead {
			rest = append(rest, m)
		}
	}
	gone(lead, rest[0], 2)
	gone(rest[1], rest[0], 1)

	// The last one goes by force only.
	if _, _, err := rest[0].tryReset(t, removal.Options{}); !errors.Is(err, removal.ErrUnsafe) {
		t.Errorf("the last voter: %v", err)
	}
	rest[0].voters(t, 1)
	p, done, err := rest[0].tryReset(t, removal.Options{Force: true, Purge: true})
	if err != nil || p.Hindrance == nil || p.Hindrance.Kind != removal.LastMember || done.Removed || len(done.Aside) > 0 {
		t.Errorf("by force: %+v, %+v, %v", p, done, err)
	}
	if entries, err := os.ReadDir(filepath.Join(rest[0].Paths.Root, "etc")); err == nil {
		for _, e := range entries {
			if e.Name() != "systemd" { // whose directories are not ours
				t.Errorf("etc/%s is left", e.Name())
			}
		}
	}

	// And a new cluster over what was left.
	if store != "" {
		store += "-2"
	}
	second := lead.begin(t, store)
	if second.CAHash == first.CAHash || second.Again {
		t.Errorf("%+v", second)
	}
}

// A whole cluster ends: its last backup lies where it is said, and no etcd runs any more.
func TestDestroy(t *testing.T) {
	t.Parallel()
	if !*rig.Long {
		t.Skip("TestResetOfTheLastHost is enough for every day: -e2e.long")
	}
	for name, shared := range map[string]bool{"a shared store": true, "no store": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, store := newMachines(t, 3)
			if !shared {
				store = ""
			}
			first := all[0].begin(t, store)
			for _, m := range all[1:] {
				if _, err := m.tryJoin(t, first, first.Token); err != nil {
					t.Fatal(err)
				}
			}
			all[1].voters(t, 3)
			h := all[1].removal()
			d, err := h.LookToDestroy(t.Context())
			if err != nil || len(d.Others) != 2 || d.Hindrance != nil {
				t.Fatalf("%+v, %v", d, err)
			}
			// Interrupted once.
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			if _, err := h.Destroy(ctx, d, removal.Options{Wait: time.Minute}); err == nil {
				t.Error("it was done in a moment")
			}
			if d, err = h.LookToDestroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			done, err := h.Destroy(t.Context(), d, removal.Options{Wait: time.Minute})
			if err != nil || done.Backup == "" || len(done.Left) != 2 || len(done.Aside) != 2 {
				t.Fatalf("%+v, %v", done, err)
			}
			t.Logf("%+v", done)
			if !shared {
				if _, err := os.Stat(done.At); err != nil {
					t.Error(err)
				}
			}
			for _, m := range []*machine{all[0], all[2]} {
				state, err := datadir.KnownState(m.Paths.Data())
				if err != nil || state.Local.State != cluster.MemberNone {
					t.Errorf("%s: %+v, %v", m.id, state.Local, err)
				}
				if _, _, err := m.tryReset(t, removal.Options{Force: true}); err != nil {
					t.Error(err)
				}
				if files := m.left(t); len(files) > 0 {
					t.Errorf("%s: left are %v", m.id, files)
				}
			}
		})
	}
}
