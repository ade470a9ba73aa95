package conversion_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/conversion"
	"etcdadm.io/internal/snapshot"
	"etcdadm.io/internal/testetcd"
)

// committed reads through a quorum, by one member, and tells how far it is.
func committed(ctx context.Context, m *testetcd.Member) (uint64, error) {
	u := url.URL{Scheme: "http", Host: m.Endpoint(), Path: "/v2/keys/", RawQuery: "quorum=true"}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	return strconv.ParseUint(reply.Header.Get("X-Raft-Index"), 10, 64)
}

// allV2 reads all keys of version 2 of a member.
func allV2(t testing.TB, m *testetcd.Member) map[string]string {
	t.Helper()
	all, err := testetcd.KeysV2(within(t), nil, "http://"+m.Endpoint())
	must(t, err)
	return all
}

// begin runs a real etcd on a backup directory, as its users do.
func begin(t testing.TB, version, dir string) *testetcd.Member {
	t.Helper()
	c, m := founderOf(t, version)
	must(t, os.CopyFS(m.DataDir, os.DirFS(dir)))
	m.Args = append(m.Args, "--force-new-cluster")
	must(t, c.Restart(within(t), 0))
	return m
}

// writers write until they are stopped, each through its own member, and remember what
// was acknowledged.
type writers struct {
	stop  context.CancelFunc
	done  sync.WaitGroup
	mu    sync.Mutex
	acked map[string]string
}

func write(t testing.TB, members []*testetcd.Member) *writers {
	ctx, stop := context.WithCancel(t.Context())
	w := &writers{stop: stop, acked: map[string]string{}}
	for i, m := range members {
		w.done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key, value := fmt.Sprintf("/w%d/%06d", i, n), strings.Repeat("v", n%200+1)
				u := url.URL{Scheme: "http", Host: m.Endpoint(), Path: "/v2/keys" + key}
				request, err := http.NewRequestWithContext(ctx, http.MethodPut, u.String(), strings.NewReader(url.Values{"value": {value}}.Encode()))
				if err != nil {
					return
				}
				request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				reply, err := http.DefaultClient.Do(request)
				if err != nil {
					pause(ctx)
					continue
				}
				reply.Body.Close()
				if reply.StatusCode/100 == 2 {
					w.mu.Lock()
					w.acked[key] = value
					w.mu.Unlock()
				}
			}
		})
	}
	return w
}

// pause leaves the processor to the writers and the members for a moment.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Millisecond):
	}
}

func (w *writers) so(t testing.TB, least int) map[string]string {
	t.Helper()
	for ctx := within(t); ctx.Err() == nil; {
		w.mu.Lock()
		if len(w.acked) >= least {
			defer w.mu.Unlock()
			have := make(map[string]string, len(w.acked))
			for k, v := range w.acked {
				have[k] = v
			}
			return have
		}
		w.mu.Unlock()
		pause(ctx)
	}
	t.Fatalf("fewer than %d writes were acknowledged", least)
	return nil
}

// A backup of a member of etcd 2 that runs, whichever it is, has every write that was
// acknowledged before, through whatever member: also while clients write, and etcd
// makes raft snapshots and removes them and files of its log.
func TestBackupOfRunningVersion2(t *testing.T) {
	t.Parallel()
	old := testetcd.Start(t, testetcd.Config{Version: testetcd.V23, Members: 3, Args: []string{"--snapshot-count=100", "--max-snapshots=1", "--max-wals=1"}})
	w := write(t, old.Members)
	dir, last := t.TempDir(), ""
	var before map[string]string
	for i := range 9 {
		before = w.so(t, 150*(i+1))
		m := old.Members[i%3]
		least, err := committed(within(t), m)
		must(t, err)
		last = filepath.Join(dir, fmt.Sprint(i))
		at, err := snapshot.BackupV2(within(t), m.DataDir, last, least, func(ctx context.Context) error {
			_, err := committed(ctx, m)
			return err
		})
		must(t, err)
		if at.Index < least || at.Term == 0 {
			t.Errorf("it ends at %+v, and was to have %d", at, least)
		}
		if i%4 == 0 {
			report, err := conversion.Survey(within(t), conversion.Options{
				Source: conversion.Source{Release: theRelease(t, testetcd.V23), DataDir: last}, Site: filepath.Join(dir, "site"),
			}, cluster.Version{Major: 2, Minor: 3, Patch: 8})
			must(t, err)
			if report.Keys < int64(len(before)) {
				t.Errorf("%d keys, and %d writes were acknowledged", report.Keys, len(before))
			}
		}
	}
	w.stop()
	w.done.Wait()
	got := allV2(t, begin(t, testetcd.V23, last))
	lost := 0
	for key, value := range before {
		if got[key] != value {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged writes are lost", lost, len(before))
	}
	t.Logf("%d acknowledged writes are there", len(before))
}

// An etcd that was killed while it wrote a raft snapshot leaves half of the file under
// its name, and the log knows of it: the one before and the log behind that have all.
func TestBackupBeforeHalfSnapshot(t *testing.T) {
	t.Parallel()
	old := testetcd.Start(t, testetcd.Config{Version: testetcd.V23, Args: []string{"--snapshot-count=20"}})
	m, want := old.Members[0], map[string]string{}
	snaps := func() []string {
		files, err := filepath.Glob(filepath.Join(m.DataDir, "member", "snap", "*.snap"))
		must(t, err)
		return files
	}
	for i := 0; i < 50 || i < 5000 && len(snaps()) < 2; i++ { // etcd writes them beside what it serves
		key := fmt.Sprintf("/d/%04d", i)
		want[key] = fmt.Sprint(i)
		set(t, m, key, want[key])
	}
	least, err := committed(within(t), m)
	must(t, err)
	must(t, old.Kill(within(t), 0, syscall.SIGKILL))
	files := snaps()
	newest := files[len(files)-1]
	info, err := os.Stat(newest)
	must(t, err)
	must(t, os.Truncate(newest, info.Size()/2))
	dir := t.TempDir()
	_, err = snapshot.ReviveV2(within(t), m.DataDir, filepath.Join(dir, "revived"))
	must(t, err)
	_, err = snapshot.BackupV2(within(t), m.DataDir, filepath.Join(dir, "backup"), least-1, func(context.Context) error { return errors.New("it is stopped") })
	must(t, err)
	for _, made := range []string{"revived", "backup"} {
		has, err := filepath.Glob(filepath.Join(dir, made, "member", "snap", "*.snap"))
		must(t, err)
		if len(has) != 1 || filepath.Base(has[0]) != filepath.Base(files[len(files)-2]) {
			t.Errorf("%s begins with %v, of %v", made, has, files)
		}
	}
	if diff := cmp.Diff(want, allV2(t, begin(t, testetcd.V23, filepath.Join(dir, "revived")))); diff != "" {
		t.Error(diff)
	}
}

// What etcdctl of etcd 2 backed up, as the predecessor keeps it, is read like ours:
// with a raft snapshot in it, and without.
func TestBackupByEtcdctl(t *testing.T) {
	t.Parallel()
	for name, count := range map[string]string{"log only": "10000", "snapshot and log": "20"} {
		t.Run(name, func(t *testing.T) {
			old := testetcd.Start(t, testetcd.Config{Version: testetcd.V23, Args: []string{"--snapshot-count=" + count}})
			m, want := old.Members[0], map[string]string{}
			for i := range 50 {
				key := fmt.Sprintf("/d/%02d", i)
				want[key] = fmt.Sprint(i)
				set(t, m, key, want[key])
			}
			dir := filepath.Join(t.TempDir(), "backup")
			said, err := exec.CommandContext(within(t), theRelease(t, testetcd.V23).Etcdctl, "backup", "--data-dir", m.DataDir, "--backup-dir", dir).CombinedOutput()
			if err != nil {
				t.Fatalf("etcdctl backup: %v: %s", err, said)
			}
			if at, err := snapshot.VerifyV2(dir); err != nil || at.Index < 50 {
				t.Errorf("%+v, %v", at, err)
			}
			c, to := founderOf(t, testetcd.V23)
			_, err = conversion.Convert(within(t), conversion.Options{
				Source:  conversion.Source{Release: theRelease(t, testetcd.V23), DataDir: dir},
				Release: theRelease(t, testetcd.V23), Site: to.DataDir + ".site",
				Founder: conversion.Founder{DataDir: to.DataDir, Name: to.Name, PeerURLs: []string{to.PeerURL}, Token: "new"},
			})
			must(t, err)
			must(t, c.Restart(within(t), 0))
			if diff := cmp.Diff(want, allV2(t, to)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
