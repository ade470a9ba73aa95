package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/pki"
)

// A leaf that was issued while this host's clock was ahead is replaced soon after the
// clock was set, and not at the next look at certificates that are good.
func TestCertificatesOfAWrongClockAreReplacedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		if _, err := pki.Create(dir, time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		k, err := newCerts(&Config{ClusterName: "c", DataDir: t.TempDir(), PKIDir: dir, Address: "192.0.2.1"}, "a", nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ahead := time.Now().Add(24 * time.Hour)
		self, err := pki.HostRequest(pki.Identity{Cluster: "c", Role: pki.RoleHost, ID: "a"}, k.addresses, pki.Lifetime{Duration: time.Hour, MinTimeLeft: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(k.stateDir("daemon")); err != nil {
			t.Fatal(err)
		}
		made, err := pki.Ensure(k.stateDir("daemon"), pki.PeerNames, k.cas.Manager, self, ahead)
		if err != nil || made.Issued == "" {
			t.Fatalf("%+v %v", made, err)
		}
		k.leaves["daemon"] = made.Pair.Leaf()

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.run(ctx) }()
		time.Sleep(2 * untimelyEvery)
		synctest.Wait()
		pair, err := pki.LoadKeypair(k.stateDir("daemon"), pki.PeerNames)
		if err != nil {
			t.Fatal(err)
		}
		if from := pair.Leaf().NotBefore; from.After(time.Now()) {
			t.Errorf("%s after the clock was set, the certificate is valid from %s, and it is %s", 2*untimelyEvery, from, time.Now())
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A certificate that is not valid and cannot be replaced is looked at often, and told as
// seldom as any other that cannot be renewed.
func TestACertificateThatCannotBeReplacedIsToldSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		if _, err := pki.Create(dir, time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		k, err := newCerts(&Config{ClusterName: "c", DataDir: t.TempDir(), PKIDir: dir, Address: "192.0.2.1"}, "a", nil, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil {
			t.Fatal(err)
		}
		gone := *k.leaves["daemon"]
		gone.NotAfter = time.Now().Add(-time.Minute)
		k.leaves["daemon"] = &gone
		if err := errors.Join(os.RemoveAll(k.stateDir("daemon")), os.WriteFile(k.stateDir("daemon"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.run(ctx) }()
		time.Sleep(time.Hour)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if n := strings.Count(said.String(), "could not renew certificates"); n < 5 || n > 6 {
			t.Errorf("it is told %d times within an hour:\n%s", n, &said)
		}
	})
}

// What was set aside is no member, and its certificates are neither renewed nor told; the
// files stay.
func TestCertificatesOfDataThatWasSetAsideAreForgotten(t *testing.T) {
	authorities, data := t.TempDir(), t.TempDir()
	if _, err := pki.Create(authorities, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	k, err := newCerts(&Config{ClusterName: "c", DataDir: data, PKIDir: authorities, Address: "192.0.2.1"}, "a", nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	files, err := datadir.Open(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"one", "other"} {
		if err := os.MkdirAll(files.DataDir(token), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.forLaunch(record.Launch{Token: "one"}); err != nil {
		t.Fatal(err)
	}
	disk := memberDisk{files, k}
	told := func() bool {
		return slices.ContainsFunc(k.list(), func(c console.Certificate) bool { return c.Name == "etcd-peer" })
	}
	if _, err := disk.SetAside("other", cluster.SetAside{Reason: "left"}); err != nil || !told() {
		t.Errorf("%v; with the data of another: %+v", err, k.list())
	}
	if _, err := disk.SetAside("one", cluster.SetAside{Reason: "left"}); err != nil || told() {
		t.Errorf("%v; still told: %+v", err, k.list())
	}
	was, err := os.ReadFile(filepath.Join(k.peersDir("one"), pki.PeerNames.Cert))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pki.Create(filepath.Join(authorities, "new"), time.Now()); err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	k.cas, err = pki.Load(filepath.Join(authorities, "new"), time.Now()) // everything is due
	k.mu.Unlock()
	if err != nil || k.renew(t.Context()) != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(filepath.Join(k.peersDir("one"), pki.PeerNames.Cert)); err != nil || string(now) != string(was) || told() {
		t.Errorf("it was renewed, %v", err)
	}
}

// The certificates of a launch that is over are not looked at any more.
func TestCertificatesOfALaunchThatIsOverAreForgotten(t *testing.T) {
	dir := t.TempDir()
	if _, err := pki.Create(dir, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	k, err := newCerts(&Config{ClusterName: "c", DataDir: t.TempDir(), PKIDir: dir, Address: "192.0.2.1"}, "a", nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.forLaunch(record.Launch{Token: "one"}); err != nil || k.leaves["etcd-peer"] == nil {
		t.Fatalf("%v %v", err, k.leaves)
	}
	if err := os.MkdirAll(filepath.Dir(k.peersDir("two")), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(k.peersDir("two"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := k.forLaunch(record.Launch{Token: "two"}); err == nil || k.leaves["etcd-peer"] != nil || k.leaves["etcd-server"] != nil {
		t.Errorf("%v, still looked at: %v", err, k.leaves)
	}
}
