package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/control"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/testetcd"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// adoptCase is the command against a real etcd, with a store and a directory.
type adoptCase struct {
	t               *testing.T
	endpoint        string
	store, dataDir  string
	passwords       string
	releases        string
	peer, clientURL string
}

func newAdoptCase(t *testing.T, c *testetcd.Cluster) *adoptCase {
	t.Helper()
	at := func() string { return "http://127.0.0.1:" + strconv.Itoa(testetcd.FreePort(t)) }
	dir := t.TempDir()
	releases, err := testetcd.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return &adoptCase{releases: releases, t: t, endpoint: c.Members[0].ClientURL, store: filepath.Join(dir, "store"), dataDir: filepath.Join(dir, "data"), passwords: dir, peer: at(), clientURL: at()}
}

func (a *adoptCase) run(more ...string) (out string, err error) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Minute)
	defer cancel()
	var b bytes.Buffer
	c := adoptCommand(daemon.Program{})
	c.SetOut(&b)
	c.SetErr(&b)
	c.SetArgs(append([]string{"--endpoints=" + a.endpoint, "--store=file://" + a.store, "--data-dir=" + a.dataDir, "--manifests-dir=" + filepath.Join(a.passwords, "manifests")}, more...))
	err = c.ExecuteContext(ctx)
	return b.String(), err
}

func (a *adoptCase) join(more ...string) (string, error) {
	a.t.Helper()
	return a.run(append([]string{"--join", "--peer-urls=" + a.peer, "--client-urls=" + a.clientURL, "--release-dir=" + a.releases, "--wait=20s", "--yes"}, more...)...)
}

// refused: in words, and nothing is written.
func (a *adoptCase) refused(words string, more ...string) {
	a.t.Helper()
	out, err := a.join(more...)
	if err == nil || !strings.Contains(err.Error(), words) {
		a.t.Errorf("%v, want a refusal with %q\n%s", err, words, out)
	}
	for _, path := range []string{filepath.Join(a.store, "control"), a.dataDir} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			a.t.Errorf("%s was written (%v)", path, err)
		}
	}
}

func (a *adoptCase) password(user, password string) []string {
	a.t.Helper()
	path := filepath.Join(a.passwords, user)
	if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return []string{"--user=" + user, "--password-file=" + path}
}

// Where authentication is on, a user of the role root is needed, and its lack is said
// before anything is changed. The learner is added with it.
func TestAdoptByJoiningWithAuthentication(t *testing.T) {
	t.Parallel()
	for _, version := range []string{testetcd.V35, testetcd.V36} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := testetcd.Start(t, testetcd.Config{Version: version})
			client := c.Client(t)
			for _, user := range []string{"root", "guest"} {
				if _, err := client.UserAdd(t.Context(), user, "secret"); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := client.UserGrantRole(t.Context(), "root", "root"); err != nil {
				t.Fatal(err)
			}
			if _, err := client.AuthEnable(t.Context()); err != nil {
				t.Fatal(err)
			}
			a := newAdoptCase(t, c)
			a.refused("give --user and --password-file")
			a.refused("give --user and --password-file", a.password("root", "wrong")...)
			a.refused("has not the role root", a.password("guest", "secret")...)
			a.refused("read --password-file", "--user=root", "--password-file="+filepath.Join(a.passwords, "none"))
			out, err := a.join(append(a.password("root", "secret"), "--wait=1s")...)
			if err == nil || !strings.Contains(err.Error(), "run this again") || !strings.Contains(out, "--etcd-user=root") {
				t.Errorf("%v\n%s", err, out)
			}
			if out, err := a.run("--etcd-data-dir=" + t.TempDir()); err == nil || !strings.Contains(err.Error(), "give --user") {
				t.Errorf("in place: %v\n%s", err, out)
			}
		})
	}
}

// Where etcd takes no writes it says so, and what to do, before anything is changed.
func TestAdoptByJoiningWithoutSpace(t *testing.T) {
	t.Parallel()
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36, Args: []string{"--quota-backend-bytes=1048576"}})
	client := c.Client(t)
	value := strings.Repeat("x", 200<<10)
	for n := 0; ; n++ {
		if _, err := client.Put(t.Context(), "fill/"+strconv.Itoa(n), value); errors.Is(err, rpctypes.ErrNoSpace) {
			break
		} else if err != nil || n > 100 {
			t.Fatal(n, err)
		}
	}
	newAdoptCase(t, c).refused("etcdctl alarm disarm")
	if alarms, err := client.AlarmList(t.Context()); err != nil || len(alarms.Alarms) != 1 {
		t.Errorf("%v, %v", alarms, err)
	}
}

// A quota that is larger than etcd's own is kept: in the spec, and for the first start.
// The status of etcd 3.5 does not tell it.
func TestAdoptByJoiningKeepsTheQuota(t *testing.T) {
	t.Parallel()
	for _, version := range []string{testetcd.V35, testetcd.V36} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := testetcd.Start(t, testetcd.Config{Version: version, Args: []string{"--quota-backend-bytes=3221225472"}})
			a := newAdoptCase(t, c)
			if out, err := a.join("--wait=1s"); err == nil || !strings.Contains(err.Error(), "run this again") || !strings.Contains(out, "quota-backend-bytes=3221225472") {
				t.Fatalf("%v\n%s", err, out)
			}
			data, err := os.ReadFile(filepath.Join(a.dataDir, "etcdadm", record.AdmissionFile))
			if err != nil {
				t.Fatal(err)
			}
			var admission record.Admission
			if err := json.Unmarshal(data, &admission); err != nil || strings.Join(admission.Options, " ") != "--quota-backend-bytes=3221225472" {
				t.Errorf("%v, %v", admission.Options, err)
			}
			if got := a.keptQuota(); got != "3221225472" {
				t.Errorf("the spec says %q", got)
			}
		})
	}
}

// keptQuota is what the spec in the store says.
func (a *adoptCase) keptQuota() string {
	a.t.Helper()
	store, err := openForWords(a.t.Context(), "file://"+a.store, toRead)
	if err != nil {
		a.t.Fatal(err)
	}
	read, err := control.New(store, "etcd").ReadSpec(a.t.Context())
	if err != nil || read.Spec == nil {
		a.t.Fatalf("%+v, %v", read, err)
	}
	return read.Spec.Options["quota-backend-bytes"]
}

// A static pod's manifest has to be moved before the data is, also while the pod does
// not run for the moment. The quota of etcd 3.5 goes into the spec and the daemon's line,
// and so do its metrics URLs; what does not is said before anything is done.
func TestAdoptBesideAManifest(t *testing.T) {
	t.Parallel()
	metrics := "--listen-metrics-urls=http://127.0.0.1:" + strconv.Itoa(testetcd.FreePort(t))
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V35, Args: []string{"--quota-backend-bytes=3221225472", metrics, "--snapshot-count=5000", "--experimental-watch-progress-notify-interval", "5s"}})
	m := c.Members[0]
	a := newAdoptCase(t, c)
	a.dataDir = filepath.Join(filepath.Dir(m.DataDir), "ours") // on the same file system
	manifests := filepath.Join(a.passwords, "manifests")
	if err := os.Mkdir(manifests, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"apiserver.yaml": "- --etcd-servers=https://127.0.0.1:2379\n",
		"etcd2.yaml":     "- --data-dir=" + m.DataDir + "2\n- etcd\n",
		"etcd.yaml":      "spec:\n  containers:\n  - command:\n    - etcd\n    - --data-dir=" + m.DataDir + "\n  volumes:\n  - hostPath:\n      path: " + m.DataDir + "\n",
	} {
		if err := os.WriteFile(filepath.Join(manifests, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	from := "--etcd-data-dir=" + m.DataDir
	move := "mv " + filepath.Join(manifests, "etcd.yaml")
	if out, err := a.run(from, "--yes"); err == nil || !strings.Contains(err.Error(), "find etcd "+testetcd.V35) || !strings.Contains(out, "etcdadm download "+testetcd.V35) {
		t.Fatalf("without the release: %v\n%s", err, out)
	}
	if _, err := os.Stat(a.dataDir); err == nil {
		t.Fatal("something was made ready")
	}
	out, _ := a.run(from)
	_, left, _ := strings.Cut(out, "Not carried over:\n")
	left, _, _ = strings.Cut(left, "To be done:")
	for word, want := range map[string]bool{
		"--snapshot-count=5000; to keep it, once the spec is in the store: etcdadm config set snapshot-count=5000\n": true,
		"  --experimental-watch-progress-notify-interval=5s; ":                                                       true,
		"metrics-urls": false, "quota": false, "--name": false, "listen-client-urls": false, "initial": false,
	} {
		if strings.Contains(left, word) != want {
			t.Errorf("of %q in what is left out: %t, want %t:\n%s", word, !want, want, out)
		}
	}
	releases := "--release-dir=" + a.releases
	if out, err := a.run(from, releases, "--yes"); err != nil || !strings.Contains(out, "on which etcd runs") || !strings.Contains(out, move) {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := c.Kill(t.Context(), 0, 9); err != nil {
		t.Fatal(err)
	}
	moved := func() bool {
		info, err := os.Stat(filepath.Join(m.DataDir, "member"))
		return err == nil && !info.IsDir()
	}
	if out, err := a.run(from, releases, "--yes"); err != nil || moved() || !strings.Contains(out, "would start etcd again") || !strings.Contains(out, move) {
		t.Fatalf("%v, moved: %t\n%s", err, moved(), out)
	}
	if err := os.Rename(filepath.Join(manifests, "etcd.yaml"), filepath.Join(a.passwords, "etcd.yaml")); err != nil {
		t.Fatal(err)
	}
	if out, err := a.run(from, releases, "--yes"); err != nil || !moved() || !strings.Contains(out, "ETCD_QUOTA_BACKEND_BYTES=3221225472 etcd-manager --cluster-name") || !strings.Contains(out, metrics) || !strings.Contains(out, "--snapshot-count=5000") {
		t.Fatalf("%v, moved: %t\n%s", err, moved(), out)
	}
}

// An etcd that advertises localhost, and does not listen there, is asked at the URL that
// the person named.
func TestAdoptAnEtcdThatAdvertisesLocalhost(t *testing.T) {
	t.Parallel()
	unheard := "http://localhost:" + strconv.Itoa(testetcd.FreePort(t))
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36, Args: []string{"--advertise-client-urls=" + unheard}})
	a := newAdoptCase(t, c)
	a.dataDir = filepath.Join(filepath.Dir(c.Members[0].DataDir), "ours")
	out, err := a.run("--etcd-data-dir="+c.Members[0].DataDir, "--release-dir="+a.releases)
	if err != nil || !strings.Contains(out, "it runs etcd "+testetcd.V36) {
		t.Errorf("%v\n%s", err, out)
	}
}
