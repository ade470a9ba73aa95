package removal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"etcdadm.io/internal/setup"
	"golang.org/x/sys/unix"
)

// takeover is a machine as init --adopt has left it after a step, with the data directory of the agent, and that of the etcd.
func takeover(t *testing.T, same bool, step string) (h *Host, data, from string) {
	t.Helper()
	p := setup.Paths{Root: t.TempDir()}
	h = &Host{Paths: p, Service: new(service), Connect: newWorld(t).connect, Say: func(s string) { t.Log(s) }}
	from = filepath.Join(p.Root, "var/lib/etcd")
	if data = p.Data(); same {
		data = from
	}
	put(t, p.Manifest(), `{"format":1,"made":[{"kind":"data","path":"`+data+`"}]}`)
	put(t, filepath.Join(data, "etcdadm", "keeper.json"), "{}")
	put(t, filepath.Join(from, "member", "snap", "db"), "data")
	put(t, filepath.Join(from, "member", "wal", "0.wal"), "data")
	put(t, filepath.Join(data, "myid"), "b")
	put(t, filepath.Join(data, "state"), "{}")
	put(t, filepath.Join(data, "adopted-settings.json"), `{"unit":"etcd.service","manifest":"`+filepath.Join(p.Root, "etc/kubernetes/manifests/etcd.yaml")+`"}`)
	put(t, filepath.Join(p.Root, "etc/kubernetes/etcd.before-etcdadm.yaml"), "kind: Pod")
	put(t, filepath.Join(data, "data", "adopted-1", "member"), "guard")
	if step == "move" || step == "settings" {
		if err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(from, "member"), unix.AT_FDCWD, filepath.Join(data, "data", "adopted-1", "member"), unix.RENAME_EXCHANGE); err != nil {
			t.Fatal(err)
		}
	}
	if step == "settings" {
		put(t, p.Settings(), "ETCDADM_CLUSTER_NAME=etcd\nETCDADM_BACKUP_STORE=hosts://"+data+"\nETCDADM_HOST_ID=b\nETCDADM_PKI_DIR="+p.PKI()+"\nETCDADM_DATA_DIR="+data+"\n")
	}
	return h, data, from
}

// A voter's data is not taken without its cluster's leave where init --adopt was interrupted.
func TestResetOfATakeover(t *testing.T) {
	for _, c := range []struct {
		step string
		same bool
		kind HindranceKind
		is   error
	}{
		{"prepare", false, "", nil}, // the data is where it was
		{"stop", false, "", nil},
		{"move", false, Unknown, ErrUnsafe},
		{"settings", false, Unreachable, ErrUnreachable},
		{"prepare", true, Unknown, ErrUnsafe},
		{"stop", true, Unknown, ErrUnsafe},
		{"move", true, Unknown, ErrUnsafe},
		{"settings", true, Unreachable, ErrUnreachable},
	} {
		name := c.step
		if c.same {
			name += " in the same directory"
		}
		t.Run(name, func(t *testing.T) {
			h, data, from := takeover(t, c.same, c.step)
			etcd := func() {}
			if c.step == "prepare" { // it runs on
				f, err := os.Open(filepath.Join(from, "member", "snap", "db"))
				if err != nil {
					t.Fatal(err)
				}
				if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
					t.Fatal(err)
				}
				etcd = func() { _ = f.Close() }
				defer etcd()
			}
			before := files(t, h.Paths.Root)
			p, _, err := reset(t, h, Options{Purge: true})
			if c.kind == "" {
				if p.Hindrance != nil || err != nil || there(data) || !there(filepath.Join(from, "member", "snap", "db")) {
					t.Errorf("%+v, %v", p.Hindrance, err)
				}
				return
			}
			if p.Hindrance == nil || p.Hindrance.Kind != c.kind || p.Hindrance.Advice == "" || len(p.Left) == 0 || !errors.Is(err, c.is) {
				t.Fatalf("%+v, %v", p, err)
			}
			if c.step == "prepare" {
				if _, _, err := reset(t, h, Options{Force: true, Purge: true}); !errors.Is(err, ErrRuns) {
					t.Errorf("below a running etcd: %v", err)
				}
			}
			if !slices.Equal(before, files(t, h.Paths.Root)) {
				t.Error("something was changed")
			}
			etcd()
			p, done, err := reset(t, h, Options{Force: true})
			if want := c.step == "move" || c.step == "settings"; want != guarded(from) || want != slices.ContainsFunc(p.Stays, func(s Stays) bool { return s.Path == filepath.Join(from, guardName) }) {
				t.Errorf("the guard: there %v, stays %v", guarded(from), p.Stays)
			}
			if n := len(p.Stays); n < 2 || p.Stays[n-2].Path != "etcd.service" || p.Stays[n-1].Path != filepath.Join(h.Paths.Root, "etc/kubernetes/etcd.before-etcdadm.yaml") {
				t.Errorf("stays: %v", p.Stays)
			}
			if err != nil || done.Removed || len(done.Left) == 0 || !slices.ContainsFunc(done.Aside, setup.HoldsMember) {
				t.Errorf("by force: %+v, %v", done, err)
			}
		})
	}
}

// Where an etcd runs, its data is not moved, also where a reset had gone on to that step before.
func TestTakesNothingThatRuns(t *testing.T) {
	h, data, _ := takeover(t, true, "stop")
	f, err := os.Open(filepath.Join(data, "member", "snap", "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for _, purge := range []bool{false, true} {
		j := &job{Purge: purge}
		if err := h.take(t.Context(), j, h.dataItem(data, "x")); !errors.Is(err, ErrRuns) || !setup.HoldsMember(data) {
			t.Errorf("purge %v: %v", purge, err)
		}
	}
}

// The guard lies in place all the while, also where the reset is run again, and where the data directory is a link.
func TestTheGuardStays(t *testing.T) {
	for _, link := range []bool{false, true} {
		h, data, from := takeover(t, true, "settings")
		if link {
			disk := filepath.Join(t.TempDir(), "disk")
			if err := errors.Join(os.Rename(data, disk), os.Symlink(disk, data)); err != nil {
				t.Fatal(err)
			}
		}
		one := h.dataItem(data, "x")
		for _, purge := range []bool{false, false, true} {
			if err := takeData(one, purge); err != nil || !guarded(from) || there(filepath.Join(from, "data")) || there(filepath.Join(one.To, "data")) == purge {
				t.Errorf("link %v, purge %v: %v", link, purge, err)
			}
		}
	}
}
