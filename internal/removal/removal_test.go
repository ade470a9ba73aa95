package removal

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/runtime"
	"etcdadm.io/internal/setup"
	"etcdadm.io/internal/staticpod"
	_ "etcdadm.io/internal/testenv" // no test goes by the environment of who runs it
	"etcdadm.io/internal/unit"
	"etcdadm.io/plan"
	"golang.org/x/sys/unix"
)

// service is a service manager that may fail.
type service struct {
	failing          error
	stopped, reloads int
}

func (s *service) Check(context.Context) error { return nil }
func (s *service) Stop(context.Context) error {
	if s.failing != nil {
		return s.failing
	}
	s.stopped++
	return nil
}
func (s *service) Reload(context.Context) error { s.reloads++; return nil }

// world is a cluster of daemons that answer for a, b and c, of which b is this host.
type world struct {
	t       *testing.T
	away    error // what asking comes to
	voters  []cluster.HostID
	up      []cluster.HostID
	blind   bool // no member answers a read through raft
	refuses string
	expires bool // the removal does not come to its end
	stale   bool // the leader's look is of a time when the spec was on hold
	deaf    bool // the others count this host as there for ever
	late    bool // the leader puts it on hold again after the step was called off
	keepers []cluster.HostID
	keys    map[cluster.HostID]bool // who says whether it holds the authorities' keys
	record  *control.Folder
	store   blob.Store
	// What was asked.
	removed []cluster.MemberID
	forgot  []cluster.HostID
	opened  []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, voters: []cluster.HostID{"a", "b", "c"}, up: []cluster.HostID{"a", "b", "c"}, store: memory.New()}
	w.record = control.New(w.store, "etcd").Known()
	if _, _, err := w.record.AmendSpec(t.Context(), control.Amend{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.7.3")}); err != nil {
		t.Fatal(err)
	}
	return w
}

func memberOf(h cluster.HostID) cluster.MemberID { return cluster.MemberID(h[0]) }

func (w *world) onHold() bool {
	w.t.Helper()
	read, err := w.record.ReadSpec(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return read.Spec.Hold
}

func (w *world) connect(a console.Access) (Cluster, error) {
	w.opened = append(w.opened, strings.Join(a.Endpoints, ","))
	return w, nil
}

func (w *world) Status(context.Context) (console.Report, error) {
	if w.away != nil {
		return console.Report{}, w.away
	}
	spec := &cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.7.3"), Hold: w.onHold() || w.stale}
	o := &cluster.Observation{At: time.Now(), Cluster: "etcd", Leader: "a", Spec: spec}
	view := &cluster.MemberView{Cluster: 7, Linearizable: !w.blind}
	for _, h := range w.voters {
		view.Members = append(view.Members, cluster.Member{ID: memberOf(h), Name: string(h), PeerURLs: []string{"https://" + string(h) + ":2380"}})
	}
	for _, h := range []cluster.HostID{"a", "b", "c"} {
		r := cluster.HostReport{UnderFence: true}
		if holds, known := w.keys[h]; known {
			r.AuthorityKeys = &holds
		}
		r.View = view
		r.Host = h
		r.URLs.Peer = []string{"https://" + string(h) + ":2380"}
		if slices.Contains(w.voters, h) {
			r.Local = cluster.LocalMember{State: cluster.MemberStarted, Member: memberOf(h), Cluster: 7, Generation: 1, Run: true, HasData: true}
			r.Process.State = cluster.ProcessRunning
			r.Status = &cluster.MemberStatus{Member: memberOf(h), Cluster: 7, Healthy: slices.Contains(w.up, h), Leader: memberOf("a")}
		}
		o.Hosts = append(o.Hosts, r)
	}
	return console.Report{
		Cluster: "etcd", Host: "a", Leader: "a", Leading: true, Observation: o, Decision: &plan.Decision{}, Keepers: w.keepers,
		Contacts: []cluster.Contact{{Host: "a", Endpoint: "a:8000"}, {Host: "b", Endpoint: "b:8000"}, {Host: "c", Endpoint: "c:8000"}},
	}, nil
}

func (w *world) Goal(ctx context.Context, r manager.GoalRequest) (manager.GoalResult, error) {
	if w.refuses != "" {
		return manager.GoalResult{Outcome: manager.GoalRefused, Decision: plan.Decision{Refused: true}}, nil
	}
	if r.DryRun {
		return manager.GoalResult{Outcome: manager.GoalPlanned}, nil
	}
	if r.Goal.Hold {
		if err := w.record.Settings().Hold(ctx, true); err != nil {
			return manager.GoalResult{}, err
		}
	}
	if w.late {
		time.AfterFunc(20*time.Millisecond, func() { _ = w.record.Settings().Hold(context.Background(), true) })
	}
	if w.expires {
		return manager.GoalResult{Outcome: manager.GoalExpired}, nil
	}
	w.removed = append(w.removed, r.Goal.Member)
	w.voters = slices.DeleteFunc(w.voters, func(h cluster.HostID) bool { return memberOf(h) == r.Goal.Member })
	return manager.GoalResult{Outcome: manager.GoalDone}, nil
}

func (w *world) Forget(_ context.Context, by cluster.Contact, id cluster.HostID) (console.Forgot, error) {
	if slices.Contains(w.voters, id) || w.deaf {
		return console.Forgot{By: by.Host, Host: id, Refuse: "a member names it"}, nil
	}
	w.forgot = append(w.forgot, by.Host)
	return console.Forgot{By: by.Host, Host: id, Knew: true}, nil
}

func (w *world) Kept() blob.Store { return w.store }
func (w *world) Close() error     { return nil }

// installed is a machine as join has left it, of host b, without a shared store.
func installed(t *testing.T, w *world) (*Host, *service) {
	t.Helper()
	p := setup.Paths{Root: t.TempDir()}
	s := new(service)
	h := &Host{Paths: p, Service: s, Connect: w.connect, Say: func(s string) { t.Log(s) }}
	h.bounds.look, h.bounds.tell, h.bounds.keep, h.bounds.sure = 2*time.Second, 2*time.Second, 2*time.Second, 50*time.Millisecond
	put(t, p.Settings(), "ETCDADM_CLUSTER_NAME=etcd\nETCDADM_BACKUP_STORE=hosts://"+p.Data()+"\nETCDADM_HOST_ID=b\nETCDADM_PKI_DIR="+p.PKI()+"\nETCDADM_DATA_DIR="+p.Data()+"\n")
	put(t, p.Unit(), unit.Mark+"\n")
	put(t, p.Etcdctl(), "# Made by etcdadm\n")
	put(t, p.EtcdctlScript(), "#!/bin/sh\n# Made by etcdadm\n")
	for _, name := range setup.AuthorityFiles() {
		put(t, filepath.Join(p.PKI(), name), "secret")
	}
	put(t, filepath.Join(p.Data(), "data", "x", "member", "wal", "0.log"), "data")
	d, err := datadir.Open(p.Data(), runtime.CheckUnlocked, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Save(record.State{Format: 1, Cluster: "etcd", Host: "b", Disk: "d", Local: cluster.LocalMember{State: cluster.MemberStarted, Member: memberOf("b"), Cluster: 7}}); err != nil {
		t.Fatal(err)
	}
	if err := (console.Access{Cluster: "etcd", Endpoints: []string{"b:8000"}}).Write(filepath.Join(p.Data(), "etcdadm")); err != nil {
		t.Fatal(err)
	}
	return h, s
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// files are those below a directory, by their paths from there.
func files(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			name, _ := filepath.Rel(dir, path)
			out = append(out, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func reset(t *testing.T, h *Host, o Options) (Plan, Done, error) {
	t.Helper()
	p, err := h.Look(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	done, err := h.Reset(t.Context(), p, o)
	return p, done, err
}

func TestReset(t *testing.T) {
	w := newWorld(t)
	h, s := installed(t, w)
	before := files(t, h.Paths.Root)
	p, done, err := reset(t, h, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Member == nil || *p.Member != (Member{ID: memberOf("b"), Voters: 3, Up: 3}) || !p.Leaves() || !done.Removed || len(done.Left) > 0 {
		t.Errorf("%+v, %+v", p, done)
	}
	if !slices.Equal(w.removed, []cluster.MemberID{memberOf("b")}) || !slices.Equal(w.forgot, []cluster.HostID{"a", "c"}) || w.onHold() || s.stopped != 1 || s.reloads != 1 {
		t.Errorf("removed %v, forgotten by %v, on hold: %v, %+v", w.removed, w.forgot, w.onHold(), s)
	}
	after := files(t, h.Paths.Root)
	if len(after) != len(before)+1 { // the lock of the data directory
		t.Errorf("%d files before, now %v", len(before), after)
	}
	for _, path := range after {
		if !strings.Contains(path, setup.AsidePrefix) {
			t.Errorf("%s is left", path)
		}
	}
	if _, again, err := reset(t, h, Options{}); err != nil || !again.Nothing {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// What somebody else put there stays, with a manifest and without one.
func TestOnlyWhatWasMade(t *testing.T) {
	w := newWorld(t)
	h, _ := installed(t, w)
	put(t, filepath.Join(h.Paths.Root, "etc/etcdadm/issued/x.json"), "the record of a certificate, which is renewed by it")
	own := []string{h.Paths.Etcdctl(), h.Paths.Unit() + ".d/own.conf", filepath.Join(h.Paths.PKI(), "mine.crt"), filepath.Join(h.Paths.PKI(), setup.AuthorityFiles()[0])}
	for _, path := range own {
		put(t, path, "somebody's")
	}
	manifest := `{"format":1,"made":[`
	for _, name := range setup.AuthorityFiles()[1:] {
		manifest += `{"kind":"authority","path":"` + filepath.Join(h.Paths.PKI(), name) + `"},`
	}
	put(t, h.Paths.Manifest(), manifest+`{"kind":"directory","path":"`+filepath.Dir(h.Paths.Settings())+`"}]}`)
	p, done, err := reset(t, h, Options{Purge: true})
	if err != nil || !done.Removed || len(done.Aside) > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	left := files(t, h.Paths.Root)
	if len(left) != len(own) {
		t.Errorf("left are %v", left)
	}
	for _, path := range own {
		if !there(path) {
			t.Errorf("%s is gone", path)
		}
	}
	if len(p.Stays) != 4 {
		t.Errorf("%v stays", p.Stays)
	}

	// A directory that is not an agent's, though the settings name it.
	h, _ = installed(t, w)
	odd := filepath.Join(h.Paths.Root, "srv", "things")
	put(t, filepath.Join(odd, "thing"), "")
	put(t, h.Paths.Settings(), "ETCDADM_CLUSTER_NAME=etcd\nETCDADM_BACKUP_STORE=s3://x\nETCDADM_HOST_ID=b\nETCDADM_DATA_DIR="+odd+"\n")
	if _, _, err := reset(t, h, Options{Force: true, Purge: true}); err != nil || !there(filepath.Join(odd, "thing")) {
		t.Errorf("%v, or it is gone", err)
	}
	for _, dir := range []string{"/", "/var", "/etc"} {
		if notOurData(dir) == "" {
			t.Errorf("%s would be taken away", dir)
		}
	}
}

// A mount stays, and its content is set aside in it.
func TestDataOnAMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root, so nothing can be mounted")
	}
	w := newWorld(t)
	h, _ := installed(t, w)
	if err := os.Rename(h.Paths.Data(), h.Paths.Data()+".was"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(h.Paths.Data(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", h.Paths.Data(), "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("nothing can be mounted: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(h.Paths.Data(), unix.MNT_DETACH) })
	if err := os.CopyFS(h.Paths.Data(), os.DirFS(h.Paths.Data()+".was")); err != nil {
		t.Fatal(err)
	}
	_, done, err := reset(t, h, Options{})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(h.Paths.Data())
	if err != nil || len(entries) != 1 || !strings.HasPrefix(entries[0].Name(), setup.AsidePrefix) || !slices.Contains(done.Aside, filepath.Join(h.Paths.Data(), entries[0].Name())) {
		t.Errorf("%v, %v, %+v", entries, err, done)
	}
}

// A link stays, and its content is set aside in it.
func TestDataBehindALink(t *testing.T) {
	w := newWorld(t)
	h, _ := installed(t, w)
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.Rename(h.Paths.Data(), disk); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(disk, h.Paths.Data()); err != nil {
		t.Fatal(err)
	}
	_, done, err := reset(t, h, Options{})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(h.Paths.Data())
	if err != nil || len(entries) != 1 || !strings.HasPrefix(entries[0].Name(), setup.AsidePrefix) || !there(filepath.Join(disk, entries[0].Name(), "data", "x")) {
		t.Errorf("%v, %v, %+v", entries, err, done)
	}
}

func TestHindrances(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		kind   HindranceKind
		is     error
	}{
		"nobody answers":       {func(w *world) { w.away = console.ErrNoDaemon }, Unreachable, ErrUnreachable},
		"no quorum":            {func(w *world) { w.blind = true }, NoQuorum, ErrUnsafe},
		"another one is down":  {func(w *world) { w.up = []cluster.HostID{"a", "b"} }, NoQuorum, ErrUnsafe},
		"of two one is down":   {func(w *world) { w.voters, w.up = []cluster.HostID{"a", "b"}, []cluster.HostID{"b"} }, NoQuorum, ErrUnsafe},
		"the last one":         {func(w *world) { w.voters, w.up = []cluster.HostID{"b"}, []cluster.HostID{"b"} }, LastMember, ErrUnsafe},
		"the leader refuses":   {func(w *world) { w.refuses = "no" }, Refused, ErrUnsafe},
		"the last holder":      {func(w *world) { w.keys = map[cluster.HostID]bool{"a": false, "b": true} }, LastHolder, ErrUnsafe},
		"one of two holders":   {func(w *world) { w.keys = map[cluster.HostID]bool{"a": false, "b": true, "c": true} }, "", nil},
		"all hold the keys":    {func(w *world) { w.keys = map[cluster.HostID]bool{"b": true} }, "", nil},
		"it holds none":        {func(w *world) { w.keys = map[cluster.HostID]bool{"a": false, "b": false} }, "", nil},
		"none":                 {func(*world) {}, "", nil},
		"of two":               {func(w *world) { w.voters, w.up = []cluster.HostID{"a", "b"}, []cluster.HostID{"a", "b"} }, "", nil},
		"it is down itself":    {func(w *world) { w.up = []cluster.HostID{"a", "c"} }, "", nil},
		"it carries no member": {func(w *world) { w.voters, w.up = []cluster.HostID{"a", "c"}, []cluster.HostID{"a", "c"} }, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			h, s := installed(t, w)
			c.change(w)
			before := files(t, h.Paths.Root)
			p, _, err := reset(t, h, Options{})
			if c.kind == "" {
				if p.Hindrance != nil || err != nil {
					t.Errorf("%+v, %v", p.Hindrance, err)
				}
				return
			}
			if p.Hindrance == nil || p.Hindrance.Kind != c.kind || p.Hindrance.Advice == "" || !errors.Is(err, c.is) {
				t.Fatalf("%+v, %v", p.Hindrance, err)
			}
			if s.stopped > 0 || len(w.removed) > 0 || w.onHold() || !slices.Equal(before, files(t, h.Paths.Root)) {
				t.Error("something was changed")
			}
			p, done, err := reset(t, h, Options{Force: true})
			if err != nil || done.Removed || len(done.Aside) != 2 || s.stopped != 1 || len(w.removed)+len(w.forgot) > 0 {
				t.Errorf("by force: %+v, %v", done, err)
			}
			if last := c.kind == LastMember; last != (len(done.Left) == 0) || len(p.Left) != len(done.Left) {
				t.Errorf("left behind: %+v", done.Left)
			}
		})
	}
}

// A removal that comes to no end is called off: the spec is followed again, and nothing else was changed.
func TestCalledOff(t *testing.T) {
	w := newWorld(t)
	h, s := installed(t, w)
	w.expires = true
	if _, _, err := reset(t, h, Options{}); !errors.Is(err, ErrWaiting) || w.onHold() || s.stopped > 0 || there(h.Paths.Reset()) {
		t.Errorf("%v; on hold: %v", err, w.onHold())
	}
	w.late = true
	if _, _, err := reset(t, h, Options{}); !errors.Is(err, ErrWaiting) || w.onHold() {
		t.Errorf("a leader is late: %v; on hold: %v", err, w.onHold())
	}
	w.late, w.stale, w.expires = false, true, false
	if _, done, err := reset(t, h, Options{}); err != nil || w.onHold() || !done.Removed {
		t.Errorf("the leader's look is old: %+v, %v; on hold: %v", done, err, w.onHold())
	}
	w = newWorld(t)
	h, _ = installed(t, w)
	w.expires = true
	// With force this machine is reset alone, and the hold does not stay either.
	if _, done, err := reset(t, h, Options{Force: true}); err != nil || w.onHold() || done.Removed || len(done.Left) == 0 {
		t.Errorf("%+v, %v; on hold: %v", done, err, w.onHold())
	}
	// Killed while the spec is on hold, the next run still knows by whom.
	w = newWorld(t)
	h, _ = installed(t, w)
	p, err := h.Look(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.job.Lift = true
	if err := errors.Join(h.saveJob(p.job), w.record.Settings().Hold(t.Context(), true)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := reset(t, h, Options{}); err != nil || w.onHold() {
		t.Errorf("%v; on hold: %v", err, w.onHold())
	}
	// A hold that a person had put is not lifted.
	w = newWorld(t)
	h, _ = installed(t, w)
	if err := w.record.Settings().Hold(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if _, _, err := reset(t, h, Options{}); err != nil || !w.onHold() {
		t.Errorf("%v; on hold: %v", err, w.onHold())
	}
}

// Without a shared store this host goes when the others keep the record alone.
func TestKeepersFirst(t *testing.T) {
	w := newWorld(t)
	h, s := installed(t, w)
	w.keepers = []cluster.HostID{"a", "b"}
	if _, _, err := reset(t, h, Options{}); !errors.Is(err, ErrWaiting) || s.stopped > 0 {
		t.Fatalf("%v", err)
	}
	if !there(h.Paths.Reset()) || !w.onHold() {
		t.Error("the member is removed, and it was called off")
	}
	w.keepers = []cluster.HostID{"a"}
	if _, done, err := reset(t, h, Options{}); err != nil || !done.Removed || w.onHold() {
		t.Errorf("%+v, %v", done, err)
	}
}

// Killed after any step, it is run again and comes to the same end, under the names that were chosen first.
func TestGoesOn(t *testing.T) {
	for _, purge := range []bool{false, true} {
		for cut := range 20 {
			w := newWorld(t)
			h, s := installed(t, w)
			h.Now = func() time.Time { return time.Unix(1e9, 0) }
			p, err := h.Look(t.Context(), Options{Purge: purge})
			if err != nil {
				t.Fatal(err)
			}
			j := p.job
			steps := []func() error{
				func() error { j.Lift = true; return h.saveJob(j) },
				func() error { return h.leave(t.Context(), p, Options{}) },
				func() error { j.Gone = true; return h.saveJob(j) },
				func() error { return h.stop(t.Context(), j) },
				func() error { return h.farewell(t.Context(), j, Options{}) },
			}
			for _, one := range j.Items {
				steps = append(steps, func() error { return h.take(t.Context(), j, one) })
			}
			for _, step := range steps[:min(cut, len(steps))] {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			if cut > 0 && !there(h.Paths.Reset()) {
				t.Fatal("nothing says that it was begun")
			}
			h.Now = time.Now
			m := &setup.Machine{Paths: h.Paths}
			if _, _, err := m.Settle(t.Context(), setup.Init{Address: "127.0.0.1", HostID: "b"}); cut > 0 && !errors.Is(err, setup.ErrHalfReset) {
				t.Errorf("init on a machine that is half reset: %v", err)
			}
			_, done, err := reset(t, h, Options{Purge: purge})
			if err != nil || !done.Removed || w.onHold() || len(w.voters) != 2 || len(w.removed) != 1 || len(w.forgot) < 2 || s.reloads != 1 {
				t.Fatalf("cut after %d steps: %+v, %v; on hold: %v, removed %v, forgotten by %v", cut, done, err, w.onHold(), w.removed, w.forgot)
			}
			left := files(t, h.Paths.Root)
			for _, path := range left {
				if purge || !strings.Contains(path, setup.AsidePrefix) || cut > 0 && !strings.Contains(path, setup.AsidePrefix+"20010909T014640Z") {
					t.Errorf("cut after %d steps: %s is left", cut, path)
				}
			}
			if !purge && len(done.Aside) != 2 {
				t.Errorf("cut after %d steps: %+v", cut, done)
			}
		}
	}
}

// Interrupted while the others forget this host, it is not taken for done.
func TestInterruptedWhileTheOthersAreTold(t *testing.T) {
	for _, force := range []bool{false, true} {
		w := newWorld(t)
		h, _ := installed(t, w)
		w.deaf = true
		ctx, cancel := context.WithCancel(t.Context())
		h.Say = func(s string) {
			if strings.Contains(s, "forget") {
				cancel()
			}
		}
		p, err := h.Look(ctx, Options{Force: force})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Reset(ctx, p, Options{Force: force}); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v", err)
		}
		w.deaf = false
		if _, done, err := reset(t, h, Options{Force: force}); err != nil || len(done.Left) > 0 || !slices.Equal(w.forgot, []cluster.HostID{"a", "c"}) {
			t.Errorf("%+v, %v; forgotten by %v", done, err, w.forgot)
		}
		// Who never takes it in is named, and nothing waits for it.
		w = newWorld(t)
		h, _ = installed(t, w)
		w.deaf = true
		if _, done, err := reset(t, h, Options{Force: force}); err != nil || len(done.Left) != 1 || !done.Removed {
			t.Errorf("%+v, %v", done, err)
		}
		cancel()
	}
}

// An agent that is not systemd's keeps its data.
func TestAnAgentThatRuns(t *testing.T) {
	w := newWorld(t)
	h, _ := installed(t, w)
	lock, err := runtime.LockStateDir(filepath.Join(h.Paths.Data(), "etcdadm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := reset(t, h, Options{}); !errors.Is(err, ErrRuns) || !there(h.Paths.Data()) {
		t.Errorf("%v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, done, err := reset(t, h, Options{}); err != nil || !done.Removed || there(h.Paths.Data()) {
		t.Errorf("%+v, %v", done, err)
	}
}

// A host whose data is not in sight is not out of its cluster for that: nobody was asked.
func TestResetWithoutData(t *testing.T) {
	w := newWorld(t)
	h, s := installed(t, w)
	data := h.Paths.Data()
	if err := os.Rename(data, data+".elsewhere"); err != nil {
		t.Fatal(err)
	}
	p, _, err := reset(t, h, Options{})
	if !errors.Is(err, ErrUnsafe) || p.Hindrance == nil || p.Hindrance.Kind != Unknown || s.stopped > 0 || len(w.removed) > 0 {
		t.Errorf("%+v, %v", p.Hindrance, err)
	}
	if _, done, err := reset(t, h, Options{Force: true}); err != nil || done.Removed || len(done.Left) == 0 {
		t.Errorf("by force: %+v, %v", done, err)
	}
}

// A reset that was begun is no destruction that has come far.
func TestDestroyDoesNotEndAReset(t *testing.T) {
	w := newWorld(t)
	h, _ := installed(t, w)
	p, err := h.Look(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.job.Gone = true
	if err := h.saveJob(p.job); err != nil {
		t.Fatal(err)
	}
	if d, err := h.LookToDestroy(t.Context()); !errors.Is(err, ErrUnsafe) {
		t.Errorf("%+v, %v", d, err)
	}
}

// podService is a kubelet.
type podService struct {
	service
	manifest string
	early    bool
}

func (s *podService) Stop(ctx context.Context) error {
	s.early = s.early || there(s.manifest)
	return s.service.Stop(ctx)
}

// The manifest of a static pod is set aside before the pod's end is waited for. Other manifests stay.
func TestResetOfAStaticPod(t *testing.T) {
	w := newWorld(t)
	h, _ := installed(t, w)
	s := &podService{manifest: h.Paths.PodFile("")}
	h.Service = s
	if err := os.MkdirAll(filepath.Dir(s.manifest), 0o755); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(filepath.Dir(s.manifest), "kube-apiserver.yaml")
	for _, path := range []string{s.manifest, other} {
		if err := os.WriteFile(path, []byte(staticpod.Mark+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made := setup.Manifest{Format: 1, Made: []setup.Made{{Kind: setup.KindPod, Path: s.manifest}}}
	data, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Paths.Manifest(), data, 0o600); err != nil {
		t.Fatal(err)
	}
	p, done, err := reset(t, h, Options{})
	if err != nil || !done.Removed || p.Service != "static pod "+s.manifest {
		t.Fatalf("%+v, %+v, %v", p, done, err)
	}
	if s.early || s.stopped != 1 || there(s.manifest) || !there(other) {
		t.Errorf("the pod's end was waited for %d times; before its manifest was gone: %v; it is there: %v", s.stopped, s.early, there(s.manifest))
	}
	if !slices.ContainsFunc(files(t, h.Paths.Root), func(path string) bool {
		return strings.Contains(path, setup.AsidePrefix) && filepath.Base(path) == staticpod.File
	}) {
		t.Error("it is not set aside")
	}
}

// A person may have the member stay listed, but not lose the quorum or the last member by that.
func TestKeepMember(t *testing.T) {
	w := newWorld(t)
	h, s := installed(t, w)
	p, done, err := reset(t, h, Options{KeepMember: true})
	if err != nil || p.Hindrance == nil || p.Hindrance.Kind != Asked || done.Removed || len(done.Left) == 0 || len(w.removed) > 0 || s.stopped != 1 || there(h.Paths.Data()) {
		t.Errorf("%v: %+v, %+v, removed %v", err, p.Hindrance, done, w.removed)
	}
	for name, c := range map[string]struct {
		change func(*world)
		kind   HindranceKind
		is     error
	}{
		"without a quorum afterwards": {func(w *world) { w.up = []cluster.HostID{"a"} }, NoQuorum, ErrUnsafe},
		"one of three is down":        {func(w *world) { w.up = []cluster.HostID{"a", "b"} }, NoQuorum, ErrUnsafe},
		"of two": {func(w *world) { // the other one alone is no quorum of two
			w.voters, w.up = []cluster.HostID{"a", "b"}, []cluster.HostID{"a", "b"}
		}, NoQuorum, ErrUnsafe},
		"the last one":   {func(w *world) { w.voters, w.up = []cluster.HostID{"b"}, []cluster.HostID{"b"} }, LastMember, ErrUnsafe},
		"nobody answers": {func(w *world) { w.away = console.ErrNoDaemon }, Unreachable, ErrUnreachable},
	} {
		w := newWorld(t)
		c.change(w)
		h, s := installed(t, w)
		before := files(t, h.Paths.Root)
		p, _, err := reset(t, h, Options{KeepMember: true, Purge: true})
		if p.Hindrance == nil || p.Hindrance.Kind != c.kind || !errors.Is(err, c.is) || s.stopped > 0 || !slices.Equal(before, files(t, h.Paths.Root)) {
			t.Errorf("%s: %+v, %v", name, p.Hindrance, err)
		}
	}
}
