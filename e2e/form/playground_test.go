package form

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"etcdadm.io/e2e/internal/rig"
	"etcdadm.io/internal/testetcd"
)

// playgroundLine is what the tests read of one line of its JSON.
type playgroundLine struct {
	Event       string
	Text        string
	Dir         string
	Endpoints   []string
	Environment []string
}

// aPlayground is one that runs.
type aPlayground struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan playgroundLine
	errs  bytes.Buffer
}

func startPlayground(t *testing.T, args ...string) *aPlayground {
	t.Helper()
	p := &aPlayground{t: t, lines: make(chan playgroundLine, 10000)}
	p.cmd = exec.Command(filepath.Join(rig.Programs, "etcdadm"), append([]string{"playground", "-o", "json"}, args...)...)
	p.cmd.Stderr = &p.errs
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 4<<20)
		for s.Scan() {
			var l playgroundLine
			if json.Unmarshal(s.Bytes(), &l) == nil {
				p.lines <- l
			}
		}
	}()
	t.Cleanup(func() { p.End() })
	return p
}

func (p *aPlayground) await(event string, within time.Duration) playgroundLine {
	p.t.Helper()
	over := time.After(within)
	for {
		select {
		case l, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the playground ended before %q: %s", event, p.errs.String())
			}
			if l.Event == event {
				return l
			}
		case <-over:
			p.t.Fatalf("no %q within %s", event, within)
		}
	}
}

// End presses Ctrl-C and waits.
func (p *aPlayground) End() {
	if p.cmd.ProcessState != nil {
		return
	}
	p.cmd.Process.Signal(syscall.SIGINT)
	killer := time.AfterFunc(40*time.Second, func() { p.cmd.Process.Kill() })
	defer killer.Stop()
	for range p.lines {
	}
	p.cmd.Wait()
}

func playgroundPort(t *testing.T) string {
	// Five ports in a row on each host; a free one with room above it.
	return strconv.Itoa(testetcd.FreePort(t))
}

// A playground forms a cluster in seconds, finds it again, and leaves no
// process behind.
func TestPlayground(t *testing.T) {
	dir, port := filepath.Join(t.TempDir(), "pg"), playgroundPort(t)
	p := startPlayground(t, "--dir", dir, "--base-port", port)
	ready := p.await("ready", 30*time.Second)
	start := time.Now()
	etcdctl := testetcd.Binary(t, testetcd.V36).Etcdctl
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), etcdctl, args...)
		cmd.Env = os.Environ()
		cmd.Env = append(cmd.Env, playgroundEnvironment(dir, ready.Endpoints)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("etcdctl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("put", "hello", "world")
	if second := playgroundOnce(t, "--dir", dir, "--base-port", port); !strings.Contains(second, "another playground runs") && !strings.Contains(second, "another program listens") {
		t.Fatalf("a second playground: %q", second)
	}
	p.End()
	if left := processesNaming(dir); len(left) > 0 {
		t.Fatalf("processes are left after %s: %v", time.Since(start), left)
	}
	again := startPlayground(t, "--dir", dir, "--base-port", port)
	again.await("ready", 30*time.Second)
	if got := run("get", "hello", "--print-value-only"); strings.TrimSpace(got) != "world" {
		t.Fatalf("after the second start the key is %q", got)
	}
}

// What keeps a playground from starting is one sentence and a hint.
func TestPlaygroundMistakes(t *testing.T) {
	taken := playgroundPort(t)
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", taken))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"busy port":       {[]string{"--base-port", taken}, "another program listens on 127.0.0.2:" + taken},
		"bad directory":   {[]string{"--dir", "/proc/nowhere"}, "cannot make the playground's directory"},
		"even members":    {[]string{"--members", "2"}, "is even"},
		"bad version":     {[]string{"--etcd-version", "new"}, "three numbers"},
		"unknown output":  {[]string{"-o", "xml"}, "is unknown"},
		"unknown flag":    {[]string{"--frobnicate"}, "unknown flag"},
		"impossible port": {[]string{"--base-port", "65535"}, "leaves no room"},
	} {
		t.Run(name, func(t *testing.T) {
			said := playgroundOnce(t, c.args...)
			if !strings.Contains(said, c.want) || strings.Count(said, "\n") > 2 {
				t.Fatalf("%q, want one sentence with %q and a hint", said, c.want)
			}
		})
	}
}

// playgroundOnce runs a playground that cannot start and gives what it said.
func playgroundOnce(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(rig.Programs, "etcdadm"), append([]string{"playground"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("it started: %s", out)
	}
	return string(out)
}

func playgroundEnvironment(dir string, endpoints []string) []string {
	pki := filepath.Join(dir, "hosts", "1", "etcdadm", "pki", "etcdctl")
	return []string{
		"ETCDCTL_ENDPOINTS=" + strings.Join(endpoints, ","), "ETCDCTL_CACERT=" + filepath.Join(pki, "ca.crt"),
		"ETCDCTL_CERT=" + filepath.Join(pki, "etcdadm.crt"), "ETCDCTL_KEY=" + filepath.Join(pki, "etcdadm.key"),
	}
}

// processesNaming lists processes with the text among their arguments, other
// than this one.
func processesNaming(text string) []string {
	var out []string
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range lines {
		data, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(data), text) && f != "/proc/"+strconv.Itoa(os.Getpid())+"/cmdline" {
			out = append(out, strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return out
}
