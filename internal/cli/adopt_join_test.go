package cli

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/etcd"
	"etcdadm.io/internal/testetcd"
)

// A change goes by way of one member, which is of the cluster that was looked at.
// Where it is not reached, another one is asked only by the next change.
func TestForeignEtcdChanges(t *testing.T) {
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36})
	list, err := c.Client(t).MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of := cluster.ClusterID(list.Header.ClusterId)
	at := func() string { return "http://127.0.0.1:" + strconv.Itoa(testetcd.FreePort(t)) }
	silent, live := at(), c.Members[0].ClientURL
	peer := []string{at()}
	e := &foreignEtcd{endpoints: []string{silent, live}}
	wantMembers := func(n int) {
		t.Helper()
		now, err := c.Client(t).MemberList(t.Context())
		if err != nil || len(now.Members) != n {
			t.Fatalf("%v, %v, want %d members", now, err, n)
		}
	}
	if err := e.AddLearner(t.Context(), of, peer); !errors.Is(err, etcd.ErrUnreachable) {
		t.Errorf("by way of who is not there: %v", err)
	}
	wantMembers(1)
	if err := e.AddLearner(t.Context(), of+1, peer); err == nil || !strings.Contains(err.Error(), "and not of "+(of+1).String()) {
		t.Errorf("to another cluster: %v", err)
	}
	wantMembers(1)
	if _, err := e.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.AddLearner(t.Context(), of, peer); err != nil {
		t.Fatal(err)
	}
	wantMembers(2)
	view, err := e.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(view.Members, func(m cluster.Member) bool { return m.Learner })
	if err := e.Remove(t.Context(), of+1, view.Members[i].ID); err == nil {
		t.Error("removed from another cluster")
	}
	wantMembers(2)
	if _, err := e.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.endpoints = slices.DeleteFunc(e.endpoints, func(u string) bool { return u == silent })
	if err := e.Remove(t.Context(), of, view.Members[1-i].ID); err == nil || !strings.Contains(err.Error(), "no member is left") {
		t.Errorf("by way of the one that goes: %v", err)
	}
	if err := e.Remove(t.Context(), of, view.Members[i].ID); err != nil {
		t.Error(err)
	}
	wantMembers(1)
}

// The daemon's line has what the command was given, and no credential.
func TestDaemonLineOfAJoiner(t *testing.T) {
	a := adoptFlags{name: "etcd", store: "s3://bucket/etcd?region=r&secretKey=hidden"}
	a.request.PKIDir, a.request.DataDir = "/pki", "/data"
	a.join.releaseDirs = []string{"/a", "/b"}
	a.join.user, a.join.passwordFile = "root", "/pw"
	p := &adoption.Plan{URLs: cluster.URLs{Peer: []string{"https://10.0.0.4:2380"}, Client: []string{"https://10.0.0.4:2379"}, Quarantine: []string{"https://10.0.0.4:8001"}}}
	line := a.daemonLine(p)
	for _, want := range []string{"--release-dir=/a,/b", "--etcd-user=root", "--etcd-password-file=/pw", "--backup-store=s3://bucket/etcd?region=r", "--pki-dir=/pki"} {
		if !slices.Contains(line, want) {
			t.Errorf("%v lacks %s", line, want)
		}
	}
	cfg, _, err := ParseManager(line[1:], nil)
	if err != nil || !slices.Equal(cfg.ReleaseDirs, []string{"/a", "/b"}) || cfg.EtcdUser != "root" || cfg.EtcdPasswordFile != "/pw" {
		t.Errorf("the daemon reads %v, %q, %q, %v", cfg.ReleaseDirs, cfg.EtcdUser, cfg.EtcdPasswordFile, err)
	}
}

// A pipe is gone with the command that read it, and no daemon takes one.
func TestDaemonLineAfterPipe(t *testing.T) {
	var a adoptFlags
	a.join.user, a.join.passwordFile = "root", pipeAt(t)
	a.join.password.piped = []byte("secret")
	words := a.daemonWords(new(adoption.Plan))
	if strings.Contains(words, a.join.passwordFile) || strings.Contains(words, "secret") ||
		!strings.Contains(words, " --etcd-password-file=FILE ") || !strings.HasSuffix(words, "   # FILE: a file with the password, which came by a pipe here") {
		t.Errorf("printed %s", words)
	}
}

// The data stays where it is when the store falls silent before it goes: nobody could say
// then how the member serves again.
func TestNothingIsMovedWhereTheStoreIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := new(adoptFlags).move(t.Context(), control.New(silent{}, ""), new(adoption.Plan))
		var f *Failure
		if took := time.Since(began); took != storeTimeout || !errors.As(err, &f) || !strings.Contains(f.Hint(), "etcd's data is where it was") {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

// Where an earlier run has moved the data, nobody is told that it is where it was,
// whatever this run fails at.
func TestWhereTheDataIsIsTold(t *testing.T) {
	silent, other := &adoption.SilentError{What: "read a mark", Err: context.DeadlineExceeded}, errors.New("no such certificate")
	for _, c := range []struct {
		moved     bool
		err       error
		want, not string
	}{
		{true, silent, "the data is in place, and the member is down until our daemon serves it: run the same again once the store answers", "where it was"},
		{true, other, "the data is in place, and the member is down until our daemon serves it: run the same again once that is mended", "the store answers"},
		{false, silent, "etcd's data is where it was", "in place"},
	} {
		var f *Failure
		if err := untold(c.moved, c.err); !errors.Is(err, c.err) || !errors.As(err, &f) || !strings.Contains(f.Hint(), c.want) || strings.Contains(f.Hint(), c.not) {
			t.Errorf("moved %t, %v: %v", c.moved, c.err, err)
		}
	}
	if err := untold(false, other); !errors.Is(err, other) || errors.As(err, new(*Failure)) {
		t.Errorf("nothing was moved: %v", err)
	}
}
