package setup

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/runtime"
)

// Data of another cluster, or of nobody knows whom, are refused with the way out, and set aside when a person says so: whole,
// beside their place, once.
func TestSetAside(t *testing.T) {
	for name, fill := range map[string]func(dir string) error{
		"nothing in it is of etcdadm": func(dir string) error { return os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700) },
		"the record of a cluster with other authorities": func(dir string) error {
			return kept.Found(t.Context(), dir, "x", rand.Text, func(ctx context.Context, store blob.Store) error {
				return control.New(store, DefaultCluster).Known().Tokens().Found(ctx, "sha256:other", time.Now())
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := fresh(t)
			data := m.Paths.Data()
			if err := fill(data); err != nil {
				t.Fatal(err)
			}
			o := Init{Address: "127.0.0.1", HostID: "a", Members: 1, Version: v}
			check := func() (Check, Report) {
				r, err := m.CheckInit(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				return r.Checks[slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == "data directory" })], r
			}
			if c, r := check(); len(r.Aside) > 0 || c.Standing != Refused || !strings.Contains(c.Found, name) || !strings.Contains(c.Remedy, "--set-aside") {
				t.Errorf("unasked: %+v, %+v", c, r.Aside)
			}
			o.SetAside = true
			c, r := check()
			if c.Standing != Warned || len(r.Aside) != 1 || !strings.Contains(r.Steps[0], r.Aside[0].To) || !exists(data) {
				t.Fatalf("%+v, %v", c, r)
			}
			if err := run(t.Context(), asideSteps(r.Aside)); err != nil || exists(data) || !exists(r.Aside[0].To) {
				t.Fatal(err)
			}
			// Never over something.
			if err := os.MkdirAll(data, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := run(t.Context(), asideSteps(r.Aside)); err == nil || !strings.Contains(err.Error(), "exists") {
				t.Errorf("again: %v", err)
			}
		})
	}
}

// An agent that runs on the data keeps them where they are.
func TestSetAsideWhatRuns(t *testing.T) {
	m, _ := fresh(t)
	state := filepath.Join(m.Paths.Data(), "etcdadm")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := runtime.LockStateDir(state)
	if err != nil {
		t.Fatal(err)
	}
	aside := Aside{"data directory", m.Paths.Data(), m.Paths.Data() + ".aside", false}
	if err := setAside(t.Context(), aside); err == nil || !exists(state) {
		t.Errorf("%v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := setAside(t.Context(), aside); err != nil || exists(state) {
		t.Errorf("%v", err)
	}
}

// What is moved inside a mount, and interrupted, ends in one directory.
func TestSetAsideInsideGoesOn(t *testing.T) {
	dir := t.TempDir()
	part := filepath.Join(dir, AsidePrefix+"1"+unfinished)
	for _, path := range []string{filepath.Join(part, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "lost+found"), filepath.Join(dir, AsidePrefix+"0", "x")} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(dir, AsidePrefix+"2")
	if err := moveAsideInside(dir, to); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(to, "a"), filepath.Join(to, "b"), filepath.Join(dir, "lost+found"), filepath.Join(dir, AsidePrefix+"0", "x")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if exists(part) {
		t.Error("the unfinished one is left")
	}
}

// ran is an etcd that runs here, of which each step fails the first time, after it was done.
type ran struct {
	dir    string
	failed map[string]bool
	done   []string
}

func (r *ran) step(name string) error {
	r.done = append(r.done, name)
	if !r.failed[name] {
		r.failed[name] = true
		return errors.New(name + " was interrupted")
	}
	return nil
}

func (r *ran) Settings() Settings {
	s := Settings{}
	s.setFlag("host-id", "a")
	s.setFlag("address", "127.0.0.1")
	s.setFlag("data-dir", r.dir)
	return s
}
func (r *ran) Release() cluster.Version              { return v }
func (r *ran) Members() int                          { return 3 }
func (r *ran) Prepared() bool                        { return true }
func (r *ran) Checks() []Check                       { return nil }
func (r *ran) Among(context.Context, []string) error { return nil }
func (r *ran) Authorities(string) error              { return r.step("authorities") }
func (r *ran) Prepare() error                        { return r.step("prepare") }
func (r *ran) Stop(context.Context) error            { return r.step("stop") }
func (r *ran) Move() error                           { return r.step("move") }
func (r *ran) Words() (string, string, string)       { return "prepare", "stop", "move" }
func (r *ran) Back() []string                        { return nil }
func (r *ran) Mark(ctx context.Context, f *control.Folder) error {
	if err := f.MarkForeign(ctx, cluster.Spec{MemberCount: 3, EtcdVersion: v}, time.Now()); err != nil {
		return err
	}
	return r.step("mark")
}

// Interrupted at each step and run again, a takeover comes to its end; nothing is stopped before what comes before is done, and
// the settings are written when the data are in their place.
func TestTakeOverGoesOn(t *testing.T) {
	m, service := fresh(t)
	r := &ran{dir: m.Paths.Data(), failed: map[string]bool{}}
	o := Init{Existing: r, Wait: 1, Members: 3, Version: v}
	for range 10 {
		_, err := m.Init(t.Context(), o)
		if errors.Is(err, ErrWaiting) { // the agent, which is none, is waited for
			break
		}
		if _, there := ReadSettings(m.Paths); there == nil || service.started > 0 {
			t.Fatalf("%v, and the settings are there", err)
		}
		if err == nil || !strings.Contains(err.Error(), "was interrupted") {
			t.Fatal(err)
		}
	}
	want := []string{
		"authorities",
		"authorities", "mark",
		"authorities", "mark", "prepare",
		"authorities", "prepare", "stop",
		"authorities", "prepare", "stop", "move",
		"authorities", "prepare", "stop", "move",
	}
	if !slices.Equal(r.done, want) || service.started != 1 {
		t.Errorf("%q, started %d times", r.done, service.started)
	}
	s, err := ReadSettings(m.Paths)
	if err != nil || s.HostID() != "a" {
		t.Errorf("%v, %v", s, err)
	}
}

// What a host of a cluster has is never in the way of that cluster, and a host whose disk is not there begins no second one.
func TestHostKeepsItsData(t *testing.T) {
	m, _ := fresh(t)
	o := Init{Address: "127.0.0.1", HostID: "a", Members: 1, Version: v}
	settled, s, err := m.Settle(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.writeSettings(s); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(m.Paths.Data(), "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	o.SetAside = true
	if r, err := m.CheckInit(t.Context(), o); err != nil || len(r.Aside) > 0 {
		t.Errorf("%+v, %v", r.Aside, err)
	}
	if err := m.foundRecord(t.Context(), m.Paths.Data(), settled, s, &Initialised{CAHash: "sha256:x"}); !errors.Is(err, ErrSetUp) {
		t.Errorf("without its record: %v", err)
	}
}

// Self-management is off from the beginning of a cluster that is taken over, too.
func TestManualTakeOver(t *testing.T) {
	m, _ := fresh(t)
	dir := t.TempDir()
	o := Init{HostID: "a", Manual: true, Existing: &ran{failed: map[string]bool{"mark": true}}}
	done := Initialised{CAHash: "sha256:x"}
	s := Settings{}
	s.setFlag("cluster-name", DefaultCluster)
	if err := m.foundRecord(t.Context(), dir, o, s, &done); err != nil || !done.SelfManagementOff {
		t.Fatalf("%+v, %v", done, err)
	}
	by, err := kept.Founder(t.Context(), dir, func(ctx context.Context, store blob.Store) (string, error) {
		manual, err := control.New(store, DefaultCluster).Known().ReadManual(ctx)
		if err != nil {
			return "", err
		}
		return manual.By, nil
	})
	if err != nil || by != "etcdadm init on a" {
		t.Errorf("%q, %v", by, err)
	}
}
