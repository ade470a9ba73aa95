package e2e

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/cli"
)

// tree is what a directory holds: each path with its kind and content. The
// lock of a state directory is left out: taking it is how a daemon looks; and so
// is that of a store, in which each writer says who it is.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() || strings.HasSuffix(path, "/etcdadm/lock") || d.Name() == ".lock" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		out[path] = fmt.Sprintf("%d bytes, %x", len(data), sha256.Sum256(data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sameTree(t *testing.T, before, after map[string]string) {
	t.Helper()
	var changes []string
	for path, was := range before {
		if is, there := after[path]; !there {
			changes = append(changes, "gone: "+path)
		} else if is != was {
			changes = append(changes, "changed: "+path)
		}
	}
	for path := range after {
		if _, was := before[path]; !was {
			changes = append(changes, "new: "+path)
		}
	}
	sort.Strings(changes)
	if len(changes) > 0 {
		t.Errorf("a refusal changed files:\n  %s", strings.Join(changes, "\n  "))
	}
}

// refused runs a daemon that must not come up: it ends by itself, not with 0,
// with one sentence that has the words and a hint, and changes nothing in the
// directories.
func (h *host) refused(words string, unchanged ...string) {
	t := h.c.t
	t.Helper()
	before := map[string]map[string]string{}
	for _, dir := range unchanged {
		before[dir] = tree(t, dir)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "etcd-manager"), h.arguments()...)
	cmd.Env = append(os.Environ(), h.env...)
	cmd.WaitDelay = 5 * time.Second
	said, err := cmd.CombinedOutput()
	var sentences, hints []string
	for line := range strings.Lines(string(said)) {
		switch {
		case strings.HasPrefix(line, "etcd-manager: "):
			sentences = append(sentences, line)
		case strings.HasPrefix(line, "  hint: "):
			hints = append(hints, line)
		}
	}
	switch {
	case ctx.Err() != nil:
		t.Errorf("the daemon comes up instead of refusing %q:\n%s", words, said)
	case err == nil:
		t.Errorf("the daemon ends with 0:\n%s", said)
	case len(sentences) != 1 || !strings.Contains(sentences[0], words):
		t.Errorf("want one sentence with %q:\n%s", words, said)
	case len(hints) != 1:
		t.Errorf("want one hint:\n%s", said)
	}
	for _, dir := range unchanged {
		sameTree(t, before[dir], tree(t, dir))
	}
}

// What can be seen to be wrong before anything is touched: one sentence, a
// hint, an exit code, and nothing changed on disk.
func TestDaemonRefuses(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 1})
	file := filepath.Join(c.dir, "file")
	if err := os.WriteFile(file, []byte("no directory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	forbidden := filepath.Join(c.dir, "forbidden.env")
	if err := os.WriteFile(forbidden, []byte("ETCD_FORCE_NEW_CLUSTER=true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ words, flags string }{
		{"not a directory", "--backup-store=file://" + file + "/store"},
		{"http", "--backup-store=http://example.org/store"},
		{"no scheme", "--backup-store=no-url"},
		{"not a directory", "--data-dir=" + file + "/data"},
		{"absolute", "--data-dir=relative"},
		{"peer-urls", "--peer-urls=127.0.0.1"},
		{"client-urls", "--client-urls=ftp://127.0.0.1:1"},
		{"no port", "--client-urls=http://127.0.0.1"},
		{"both name", "--client-urls=" + "http://127.0.0.1:2380 --peer-urls=http://127.0.0.1:2380"},
		{"grpc-port", "--grpc-port=0"},
		{"grpc-port", "--grpc-port=many"},
		{"cluster-name", "--cluster-name="},
		{"etcd-address", "--etcd-address=localhost"},
		{"no address", "--address="},
		{"on-sigterm", "--on-sigterm=maybe"},
		{"backup-interval", "--backup-interval=soon"},
		{"static-config", `--static-config={"etcdVersion":"3.6.16","nodes":[]}`},
		{"JSON", `--static-config={`},
		{"even", fmt.Sprintf(`--static-config={"etcdVersion":"3.6.16","nodes":[{"id":"a","ip":["%s"]},{"id":"b","ip":["192.0.2.1"]}]}`, c.host(1).address)},
		{"no node with the address", `--static-config={"etcdVersion":"3.6.16","nodes":[{"id":"a","ip":["192.0.2.1"]}]}`},
		{"ETCD_FORCE_NEW_CLUSTER", "--env-file=" + forbidden},
		{"environment", "--env-file=" + file},
		{"no such file", "--env-file=" + file + ".none"},
		{"aws", "--volume-provider=aws"},
		{"gce", "--volume-provider=gce"},
		{"azure", "--volume-provider=azure"},
		{"floppy", "--volume-provider=floppy"},
		{"volume-tag", "--volume-provider=external"},
	} {
		t.Run(strings.ReplaceAll(x.flags, c.dir, ""), func(t *testing.T) {
			h := *c.host(1)
			here := *c
			here.t, h.c = t, &here
			h.flags = strings.Split(x.flags, " --")
			for i := range h.flags[1:] {
				h.flags[i+1] = "--" + h.flags[i+1]
			}
			h.refused(x.words, c.dir)
		})
	}
	for _, v := range []string{"ETCD_DATA_DIR=/tmp/x", "ETCD_NAME=x", "ETCD_INITIAL_CLUSTER=a=b", "ETCD_STRICT_RECONFIG_CHECK=false", "ETCD_UNSAFE_NO_FSYNC=true"} {
		h := c.host(1)
		h.env = []string{v}
		name, _, _ := strings.Cut(v, "=")
		h.refused(name, c.dir)
	}
}

// A flag of another release is no reason to stay down.
func TestUnknownFlagIsOnlyWarnedOf(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 1, flags: []string{"--from-the-future=yes", "-v=6", "--logtostderr", "--alsologtostderr=true", "--vmodule=x=1"}})
	c.configure(1)
	c.start(1)
	c.voters(soon, 1)
	c.host(1).said(soon, "unknown flag --from-the-future is ignored")
	if data, err := os.ReadFile(c.host(1).log); err != nil || strings.Contains(string(data), "vmodule") {
		t.Errorf("klog's flags are warned of (%v)", err)
	}
}

// Counts that cannot be are refused where they are typed, with the reason, and
// nothing is written.
func TestCountsAreRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 1})
	if err := os.MkdirAll(c.store, 0o700); err != nil {
		t.Fatal(err)
	}
	before := tree(t, c.dir)
	type bad struct{ count, version, words string }
	for _, x := range []bad{
		{"0", "3.6.16", "zero"}, {"2", "3.6.16", "even"}, {"4", "3.6.16", "even"}, {"-1", "3.6.16", "negative"}, {"99", "3.6.16", "beyond"},
		{"x", "3.6.16", ""}, {"3", "9.9.9", "9.9.9"}, {"3", "three", "three"}, {"3", "3.5.1", "lose data"}, {"3", "", "version"},
		{"99999999999999999999", "3.6.16", ""},
	} {
		for _, r := range []result{
			c.ctl("--backup-store="+c.storeURL(), "--member-count="+x.count, "--etcd-version="+x.version, "configure-cluster"),
			c.etcdadm("seed", c.storeURL(), "--nodes="+x.count, "--version="+x.version),
		} {
			if r.code != cli.ExitUsage || !strings.Contains(r.stderr, x.words) {
				t.Errorf("want exit code 2 and %q: %s", x.words, r)
			}
			if lines := strings.Count(strings.TrimSpace(r.stderr), "\n"); lines > 1 || x.words == "" && lines != 1 {
				t.Errorf("want one sentence and a hint: %s", r)
			}
		}
	}
	sameTree(t, before, tree(t, c.dir))
}

// The data directory and the store of one cluster are not another's, and a
// data directory has one daemon.
func TestOthersPropertyIsLeftAlone(t *testing.T) {
	t.Parallel()
	c := formed(t, 1, options{hosts: 3})
	w := c.write()

	second := c.host(2)
	second.flags = []string{"--data-dir=" + c.host(1).dir}
	second.refused("another daemon", filepath.Join(c.host(1).dir, "etcdadm", "pki"), second.dir)
	second.flags = []string{"--cluster-name=other"}
	second.refused("test", filepath.Join(c.store, "control"))

	c.host(1).interrupt()
	third := c.host(3)
	third.flags = []string{"--data-dir=" + c.host(1).dir, "--cluster-name=other", "--backup-store=file://" + filepath.Join(c.dir, "other-store")}
	third.refused("test", filepath.Join(c.host(1).dir, "data"), filepath.Join(c.host(1).dir, "etcdadm"), filepath.Join(c.store, "control"))
	if pid := c.host(1).etcdPID(); pid != 0 {
		t.Errorf("etcd runs on the data of another cluster, pid %d", pid)
	}
	c.host(1).start()
	c.voters(soon, 1)
	w.check()
}

// Ports that others have: the daemons' own port is refused at start, and so is
// one of etcd's before the host has been part of a cluster; after that the
// daemon comes up and says what is wrong, and all is well when the port is free.
func TestPortsInUse(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 1})
	h := c.host(1)
	taken, err := net.Listen("tcp", h.endpoint())
	if err != nil {
		t.Fatal(err)
	}
	h.refused("listen on port", c.dir)
	taken.Close()

	take := func() net.Listener {
		t.Helper()
		l, err := net.Listen("tcp", c.block.at(1, portClient))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	taken = take()
	h.refused("in use by another program", c.dir)
	taken.Close()

	c.configure(1)
	h.start()
	c.voters(soon, 1)
	h.interrupt()
	taken = take()
	h.start()
	eventually(t, soon, "status names the port", func(ctx context.Context) error {
		r, err := c.report(ctx, h)
		if err != nil {
			return err
		}
		if r.Observation == nil || len(r.Observation.Hosts) != 1 {
			return errors.New("there is no observation")
		}
		if said := fmt.Sprintf("%+v %+v", r.Decision, r.Observation.Hosts[0].Process); !strings.Contains(said, "address already in use") {
			return fmt.Errorf("it says %s", said)
		}
		return nil
	})
	taken.Close()
	c.voters(soon, 1)
}

// An etcd version that is not there: the blocker names those that are, nothing
// is started, and it goes on when the spec is corrected.
func TestUnknownVersion(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{hosts: 1})
	if r := c.ctl("--backup-store="+c.storeURL(), "--member-count=1", "--etcd-version=3.6.99", "configure-cluster"); r.code != 0 {
		t.Fatal(r)
	}
	c.start(1)
	c.blocked(c.host(1), "3.6.99", "3.6.16")
	if pid := c.host(1).etcdPID(); pid != 0 {
		t.Errorf("etcd runs, pid %d", pid)
	}
	c.configure(1)
	c.voters(soon, 1)
}
