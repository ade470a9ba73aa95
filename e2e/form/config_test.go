package form

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/cli"
)

// A static configuration takes the place of discovery and of the spec: three
// daemons that know each other by it form a cluster of three, with the IDs
// that it gives them, and nobody runs a ctl.
func TestStaticConfig(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3})
	var nodes []string
	for i, h := range c.Hosts {
		nodes = append(nodes, fmt.Sprintf(`{"id":"node-%d","ip":["%s"]}`, i+1, h.Address))
	}
	for _, h := range c.Hosts {
		h.Flags = []string{fmt.Sprintf(`--static-config={"etcdVersion":"%s","nodes":[%s]}`, c.Options.Version, strings.Join(nodes, ","))}
	}
	c.Start(1, 2, 3)
	for i, m := range c.Voters(rig.Soon, 1, 2, 3) {
		if want := fmt.Sprintf("node-%d", i+1); m.Name != want {
			t.Errorf("the member of host %d is called %s, want %s", i+1, m.Name, want)
		}
	}
	w := c.Write()
	c.Host(2).Crash()
	c.Host(2).Wipe(false)
	c.Host(2).Start()
	c.Voters(rig.Soon, 1, 2, 3)
	w.Check()
}

// Variables of etcd in the environment file, or in the daemon's environment,
// reach etcd and nothing else does; what is the daemon's own counts for the
// daemon.
func TestEnvFile(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1, TLS: true})
	file := filepath.Join(c.Dir, "etcd.env")
	if err := os.WriteFile(file, []byte("# for the test\nETCD_QUOTA_BACKEND_BYTES=1234567890\n\nETCD_MANAGER_CERT_DURATION=48h\nSECRET_OF_THE_DAEMON=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	metrics := "http://" + c.Block.At(1, rig.PortMetrics)
	c.Host(1).Flags = []string{"--env-file=" + file, "--listen-metrics-urls=" + metrics}
	c.Host(1).Env = []string{"ETCD_MAX_REQUEST_BYTES=100000"}
	c.Configure(1)
	c.Start(1)
	c.Voters(rig.Soon, 1)
	rig.Eventually(t, rig.Soon, "the quota of the environment file in etcd's metrics", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, metrics+"/metrics", nil)
		if err != nil {
			return err
		}
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer reply.Body.Close()
		body, err := io.ReadAll(reply.Body)
		if err == nil && !strings.Contains(string(body), "etcd_server_quota_backend_bytes 1.23456789e+09") {
			err = errors.New("it is not there")
		}
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), rig.Soon)
	defer cancel()
	if _, err := c.Etcd().Put(ctx, "large", strings.Repeat("x", 200_000)); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a request beyond ETCD_MAX_REQUEST_BYTES: %v", err)
	}
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.Host(1).EtcdPID()), "environ"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(environ), "SECRET_OF_THE_DAEMON") || strings.Contains(string(environ), "ETCD_MANAGER_") {
		t.Errorf("etcd's environment has more than it needs: %q", environ)
	}
	r, err := c.Report(ctx, c.Host(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range r.Certificates {
		if left := time.Until(k.NotAfter); !strings.HasSuffix(k.Name, "-ca") && left > 49*time.Hour {
			t.Errorf("certificate %s is good for %s, the environment file says 48h", k.Name, left)
		}
	}
}

// With a DNS suffix every daemon keeps the names of all hosts in its hosts
// file, between its own marks, and leaves every other line alone; URLs may use
// __name__ and __address__.
func TestHostsFile(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 3, Flags: []string{"--dns-suffix=.internal.test"}})
	const others = "127.0.0.1\tlocalhost\n# a comment\n"
	for _, h := range c.Hosts {
		path := filepath.Join(c.Dir, fmt.Sprintf("hosts-%d", h.N))
		if err := os.WriteFile(path, []byte(others), 0o644); err != nil {
			t.Fatal(err)
		}
		h.Flags = []string{"--hosts-file=" + path, "--host-id=host-" + strconv.Itoa(h.N),
			fmt.Sprintf("--client-urls=http://__address__:%d", rig.PortClient+c.Block.Shift)}
	}
	c.Configure(3)
	c.Start(1, 2, 3)
	c.Voters(rig.Soon, 1, 2, 3)
	for _, h := range c.Hosts {
		rig.Eventually(t, rig.Soon, fmt.Sprintf("the names of all hosts in the hosts file of host %d", h.N), func(context.Context) error {
			data, err := os.ReadFile(filepath.Join(c.Dir, fmt.Sprintf("hosts-%d", h.N)))
			if err != nil {
				return err
			}
			text := string(data)
			if !strings.HasPrefix(text, others) {
				return fmt.Errorf("the other lines were touched:\n%s", text)
			}
			for _, words := range []string{
				"# Begin host entries managed by etcd-manager[test] - do not edit\n", "# End host entries managed by etcd-manager[test]\n",
			} {
				if strings.Count(text, words) != 1 {
					return fmt.Errorf("no %q in\n%s", words, text)
				}
			}
			for _, o := range c.Hosts {
				if line := o.Address + "\thost-" + strconv.Itoa(o.N) + ".internal.test\n"; !strings.Contains(text, line) {
					return fmt.Errorf("no %q in\n%s", line, text)
				}
			}
			return nil
		})
	}
}

// __name__ is the host's ID with the DNS suffix; it is advertised as it is,
// and the daemon needs no resolver to reach its own member.
func TestNameInURLs(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1, TLS: true})
	h := c.Host(1)
	h.Flags = []string{"--host-id=host-1", "--dns-suffix=.internal.test", "--hosts-file=" + filepath.Join(c.Dir, "hosts"),
		fmt.Sprintf("--client-urls=https://__name__:%d", rig.PortClient+c.Block.Shift)}
	if err := os.WriteFile(filepath.Join(c.Dir, "hosts"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.Configure(1)
	h.Start()
	h.Serves(rig.Soon)
	ctx, cancel := context.WithTimeout(t.Context(), rig.Soon)
	defer cancel()
	list, err := c.Etcd().MemberList(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("https://host-1.internal.test:%d", rig.PortClient+c.Block.Shift)
	if got := list.Members[0].ClientURLs; len(got) != 1 || got[0] != want {
		t.Errorf("the member advertises %v, want %s", got, want)
	}
	rig.Eventually(t, rig.Soon, "the plan is at rest", func(ctx context.Context) error {
		r, err := c.Report(ctx, h)
		if err == nil && (r.Decision == nil || r.Decision.Rule != "steady") {
			err = fmt.Errorf("the decision is %+v", r.Decision)
		}
		return err
	})
}

// The external provider takes the data directory and the host's ID from what
// is mounted below /mnt/disks. The test gives the daemon a /mnt of its own.
func TestExternalVolume(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "unshare", "--mount", "mount", "--make-rprivate", "/").Run(); err != nil {
		t.Skipf("SKIPPED, it needs a mount namespace (root): %v", err)
	}
	c := rig.NewCluster(t, rig.Options{Hosts: 1})
	h := c.Host(1)
	mnt := filepath.Join(c.Dir, "mnt")
	if err := os.MkdirAll(filepath.Join(mnt, "disks", "data--main", "mnt"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.Dir = "/mnt/disks/data--main/mnt" // as the daemon sees it, and in etcd's arguments
	var args []string
	for _, a := range h.Arguments() {
		if !strings.HasPrefix(a, "--data-dir=") {
			args = append(args, a)
		}
	}
	args = append(args, "--volume-provider=external", "--volume-tag=data--", "--volume-name-tag=x")
	script := `mount --make-rprivate / && mount --bind "$0" /mnt && exec "$@"`
	cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-c", script, mnt, filepath.Join(rig.Programs, "etcd-manager")}, args...)...)
	out, err := os.Create(h.Log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	// Its etcd cannot be told from another's by its arguments, so it must not
	// outlive this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt) // stops etcd as well
		select {
		case <-ended:
		case <-time.After(rig.Soon):
			cmd.Process.Kill()
			t.Error("the daemon does not end")
		}
	})
	c.Configure(1)
	h.Serves(rig.Soon)
	if !rig.Exists(filepath.Join(mnt, "disks", "data--main", "mnt", "etcdadm", "state.json")) {
		t.Error("the state is not on the volume")
	}
	ctx, cancel := context.WithTimeout(t.Context(), rig.Soon)
	defer cancel()
	list, err := c.Etcd().MemberList(ctx)
	if err != nil || list.Members[0].Name != "data--main" {
		t.Errorf("the members are %v (%v), want one called data--main", list, err)
	}
}

// What etcd-manager-ctl says about commands and flags that it does not know.
func TestCtlRefuses(t *testing.T) {
	t.Parallel()
	c := rig.NewCluster(t, rig.Options{Hosts: 1})
	for _, x := range []struct {
		args []string
		code int
	}{
		{[]string{"get"}, cli.ExitUsage},
		{[]string{"--backup-store=" + c.StoreURL(), "destroy-everything"}, cli.ExitUsage},
		{[]string{"--backup-store=" + c.StoreURL(), "get"}, cli.ExitError},
		{[]string{"--backup-store=file://relative", "get"}, cli.ExitError},
		{[]string{"--backup-store=" + c.StoreURL(), "delete-command"}, cli.ExitError},
	} {
		r := c.Ctl(x.args...)
		if r.Code != x.code || !strings.Contains(r.Stderr, "hint:") {
			t.Errorf("want exit code %d and a hint: %s", x.code, r)
		}
	}
	if rig.Exists(c.Store) {
		t.Error("reading made a store")
	}
}
