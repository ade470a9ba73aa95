package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/daemon"
)

// What the daemon of this host was started with is not to be said again, and what is said counts.
func TestAdoptTakesWhatTheDaemonHas(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "etcdadm")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	left := console.Access{
		Cluster: "team.main", Endpoints: []string{"127.0.0.1:1"}, Etcd: console.EtcdAccess{CA: "/l/ca", Cert: "/l/crt", Key: "/l/key"},
		Settings: &console.Settings{
			URLs:         cluster.URLs{Peer: []string{"https://p:2380"}, Client: []string{"https://c:2379"}, Quarantine: []string{"https://c:8001"}},
			ControlStore: "kubernetes://team/main", Store: "s3://b/x", Leaves: "/l", Releases: []string{"/r"},
		},
	}
	known := func(said ...string) (*adoptFlags, error) {
		t.Helper()
		a := &adoptFlags{}
		if err := left.Write(state); err != nil {
			t.Fatal(err)
		}
		a.request.DataDir, a.name = dir, "etcd"
		for _, s := range said {
			switch s {
			case "store":
				a.store = "s3://other"
			case "peer-urls":
				a.join.urls.Peer = []string{"https://other:2380"}
			}
		}
		return a, a.known(func(flag string) bool { return slices.Contains(said, flag) })
	}
	a, err := known()
	if err != nil || a.name != "team.main" || a.store != "s3://b/x" || a.control != "kubernetes://team/main" || a.join.leaves != "/l" || a.access.Cert != "/l/crt" ||
		a.join.urls.Peer[0] != "https://p:2380" || a.join.urls.Quarantine[0] != "https://c:8001" || a.join.releaseDirs[0] != "/r" || a.join.daemon == "" {
		t.Errorf("%+v, %+v, %v", a.join.urls, a.access, err)
	}
	a, err = known("store", "peer-urls", "cert", "certs-dir")
	if err != nil || a.store != "s3://other" || a.join.urls.Peer[0] != "https://other:2380" || a.join.urls.Client[0] != "https://c:2379" || a.access.Cert != "" || a.join.leaves != "" {
		t.Errorf("%+v, %+v, %v", a.join.urls, a.access, err)
	}
	left.Settings.Secret = true
	if _, err = known(); err == nil || !strings.Contains(err.Error(), "holds a credential") {
		t.Errorf("a store's credential is not asked for: %v", err)
	}
	left.Settings = nil // as a release before leaves it
	if a, err = known(); err != nil || a.store != "" || a.join.leaves != "" {
		t.Errorf("%+v, %+v, %v", a.join.urls, a.access, err)
	}
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	a = &adoptFlags{}
	a.request.DataDir = dir
	if err := a.known(func(string) bool { return false }); err != nil {
		t.Errorf("where no daemon ran: %v", err)
	}
}

// A pod's daemon may not have begun when the command does: that passes, and is no mistake of who typed it.
func TestAdoptBeforeTheDaemon(t *testing.T) {
	c := adoptCommand(daemon.Program{})
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	c.SetArgs([]string{"--join", "--endpoints=http://127.0.0.1:1", "--data-dir=" + t.TempDir()})
	var failed *Failure
	if err := c.ExecuteContext(t.Context()); !errors.As(err, &failed) || failed.Code != ExitWaiting || !strings.Contains(failed.Err.Error(), "no daemon has started") {
		t.Errorf("%v", err)
	}
}

// What cannot be meant is refused before anything is asked.
func TestAdoptRefusesWhatCannotBeMeant(t *testing.T) {
	for flag, want := range map[string]string{
		"--cluster-id=main": "no ID of a cluster", "--cluster-id=0": "no ID of a cluster", "--option=quota-backend-bytes": "no setting with its value",
	} {
		c := adoptCommand(daemon.Program{})
		var out bytes.Buffer
		c.SetOut(&out)
		c.SetErr(&out)
		dir := t.TempDir()
		c.SetArgs([]string{"--join", "--endpoints=http://127.0.0.1:1", "--store=file://" + dir, "--data-dir=" + dir, "--peer-urls=http://127.0.0.1:2", "--client-urls=http://127.0.0.1:3", flag})
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// Whoever started the command in a pod ends it by going: its input ends then, and a password is its first line.
func TestAdoptEndsWithItsInput(t *testing.T) {
	in, hold := io.Pipe()
	a := &adoptFlags{}
	a.join.user, a.join.passwordFile = "root", "/dev/stdin"
	go func() { _, _ = io.WriteString(hold, "secret\n") }()
	err := a.whileInput(t.Context(), in, func(ctx context.Context) error {
		given, err := a.join.password.given(ctx, "--", a.join.user, a.join.passwordFile)
		if err != nil {
			return err
		}
		if user, password, err := given(ctx); err != nil || user != "root" || password != "secret" {
			t.Errorf("given are %q, %q, %v", user, password, err)
		}
		if ctx.Err() != nil {
			t.Error("it ends before its input")
		}
		_ = hold.Close()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(30 * time.Second):
			return errors.New("it goes on without its input")
		}
	})
	if !errors.Is(err, errInput) {
		t.Errorf("it ends with %v", err)
	}
	if err := a.whileInput(t.Context(), in, func(context.Context) error { t.Error("it runs without a password"); return nil }); err == nil {
		t.Error("no password, and no error")
	}
	a.join.passwordFile = ""
	if err := a.whileInput(t.Context(), strings.NewReader(""), func(context.Context) error { return nil }); err != nil {
		t.Errorf("what had ended before fails: %v", err)
	}
}
