package form

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// What can be seen to be wrong before anything is touched: one sentence, a
// hint, an exit code, and nothing changed on disk.
func TestDaemonRefuses(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1})
	file := filepath.Join(c.Dir, "file")
	if err := os.WriteFile(file, []byte("no directory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	forbidden := filepath.Join(c.Dir, "forbidden.env")
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
		{"even", fmt.Sprintf(`--static-config={"etcdVersion":"3.6.16","nodes":[{"id":"a","ip":["%s"]},{"id":"b","ip":["192.0.2.1"]}]}`, c.Host(1).Address)},
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
		t.Run(strings.ReplaceAll(x.flags, c.Dir, ""), func(t *testing.T) {
			h := *c.Host(1)
			here := *c
			here.T, h.C = t, &here
			h.Flags = strings.Split(x.flags, " --")
			for i := range h.Flags[1:] {
				h.Flags[i+1] = "--" + h.Flags[i+1]
			}
			h.Refused(x.words, c.Dir)
		})
	}
	for _, v := range []string{"ETCD_DATA_DIR=/tmp/x", "ETCD_NAME=x", "ETCD_INITIAL_CLUSTER=a=b", "ETCD_STRICT_RECONFIG_CHECK=false", "ETCD_UNSAFE_NO_FSYNC=true"} {
		h := c.Host(1)
		h.Env = []string{v}
		name, _, _ := strings.Cut(v, "=")
		h.Refused(name, c.Dir)
	}
}

// A flag of another release is no reason to stay down.
func TestUnknownFlagIsOnlyWarnedOf(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1, Flags: []string{"--from-the-future=yes", "-v=6", "--logtostderr", "--alsologtostderr=true", "--vmodule=x=1"}})
	c.Configure(1)
	c.Start(1)
	c.Voters(rig.Soon, 1)
	c.Host(1).Said(rig.Soon, "unknown flag --from-the-future is ignored")
	if data, err := os.ReadFile(c.Host(1).Log); err != nil || strings.Contains(string(data), "vmodule") {
		t.Errorf("klog's flags are warned of (%v)", err)
	}
}

// Counts that cannot be are refused where they are typed, with the reason, and
// nothing is written.
func TestCountsAreRefused(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1})
	if err := os.MkdirAll(c.Store, 0o700); err != nil {
		t.Fatal(err)
	}
	before := rig.Tree(t, c.Dir)
	type bad struct{ count, version, words string }
	for _, x := range []bad{
		{"0", "3.6.16", "zero"}, {"2", "3.6.16", "even"}, {"4", "3.6.16", "even"}, {"-1", "3.6.16", "negative"}, {"99", "3.6.16", "beyond"},
		{"x", "3.6.16", ""}, {"3", "9.9.9", "9.9.9"}, {"3", "three", "three"}, {"3", "3.5.1", "lose data"}, {"3", "", "version"},
		{"99999999999999999999", "3.6.16", ""},
	} {
		for _, r := range []rig.Result{
			c.Ctl("--backup-store="+c.StoreURL(), "--member-count="+x.count, "--etcd-version="+x.version, "configure-cluster"),
			c.Etcdadm("seed", c.StoreURL(), "--nodes="+x.count, "--version="+x.version),
		} {
			if r.Code != cli.ExitUsage || !strings.Contains(r.Stderr, x.words) {
				t.Errorf("want exit code 2 and %q: %s", x.words, r)
			}
			if lines := strings.Count(strings.TrimSpace(r.Stderr), "\n"); lines > 1 || x.words == "" && lines != 1 {
				t.Errorf("want one sentence and a hint: %s", r)
			}
		}
	}
	rig.SameTree(t, before, rig.Tree(t, c.Dir))
}

// The data directory and the store of one cluster are not another's, and a
// data directory has one daemon.
func TestOthersPropertyIsLeftAlone(t *testing.T) {
	t.Parallel()
	c := rig.Formed(t, 1, rig.Options{Hosts: 3})
	w := c.Write()

	second := c.Host(2)
	second.Flags = []string{"--data-dir=" + c.Host(1).Dir}
	second.Refused("another daemon", filepath.Join(c.Host(1).Dir, "etcdadm", "pki"), second.Dir)
	second.Flags = []string{"--cluster-name=other"}
	second.Refused("test", filepath.Join(c.Store, "control"))

	c.Host(1).Interrupt()
	third := c.Host(3)
	third.Flags = []string{"--data-dir=" + c.Host(1).Dir, "--cluster-name=other", "--backup-store=file://" + filepath.Join(c.Dir, "other-store")}
	third.Refused("test", filepath.Join(c.Host(1).Dir, "data"), filepath.Join(c.Host(1).Dir, "etcdadm"), filepath.Join(c.Store, "control"))
	if pid := c.Host(1).EtcdPID(); pid != 0 {
		t.Errorf("etcd runs on the data of another cluster, pid %d", pid)
	}
	c.Host(1).Start()
	c.Voters(rig.Soon, 1)
	w.Check()
}

// Ports that others have: the daemons' own port is refused at start, and so is
// one of etcd's before the host has been part of a cluster; after that the
// daemon comes up and says what is wrong, and all is well when the port is free.
func TestPortsInUse(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1})
	h := c.Host(1)
	taken, err := net.Listen("tcp", h.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	h.Refused("listen on port", c.Dir)
	taken.Close()

	take := func() net.Listener {
		t.Helper()
		l, err := net.Listen("tcp", c.Block.At(1, rig.PortClient))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	taken = take()
	h.Refused("in use by another program", c.Dir)
	taken.Close()

	c.Configure(1)
	h.Start()
	c.Voters(rig.Soon, 1)
	h.Interrupt()
	taken = take()
	h.Start()
	rig.Eventually(t, rig.Soon, "status names the port", func(ctx context.Context) error {
		r, err := c.Report(ctx, h)
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
	c.Voters(rig.Soon, 1)
}

// An etcd version that is not there: the blocker names those that are, nothing
// is started, and it goes on when the spec is corrected.
func TestUnknownVersion(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1})
	if r := c.Ctl("--backup-store="+c.StoreURL(), "--member-count=1", "--etcd-version=3.6.99", "configure-cluster"); r.Code != 0 {
		t.Fatal(r)
	}
	c.Start(1)
	c.Blocked(c.Host(1), "3.6.99", "3.6.16")
	if pid := c.Host(1).EtcdPID(); pid != 0 {
		t.Errorf("etcd runs, pid %d", pid)
	}
	c.Configure(1)
	c.Voters(rig.Soon, 1)
}
