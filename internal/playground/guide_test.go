package playground

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/release"
)

// sceneOf is a scene of n hosts in a directory; nothing runs.
func sceneOf(dir string, n int) Scene {
	p := &playground{dir: dir, store: "file://" + dir + "/store", o: Options{BasePort: 2379}}
	for i := range n {
		p.hosts = append(p.hosts, p.newHost(i+1))
	}
	return Scene{Dir: dir, Store: p.store, Shown: "/opt/bin/etcdadm", Hosts: p.hosts, Access: p.access()}
}

func TestPictureFitsTheTerminal(t *testing.T) {
	var said []string
	for i := range 40 {
		said = append(said, fmt.Sprintf("12:00:00  rule             decision %d %s", i, strings.Repeat("because ", 20)))
	}
	for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 60}, {40, 12}, {80, 5}, {1, 1}} {
		for _, hosts := range []int{1, 3, 5} {
			s := sceneOf("/tmp/etcdadm-playground-901761923", hosts)
			lines := strings.Split(picture(s, said, size[0], size[1]), "\n")
			if n := rows(lines, size[0]); n > size[1] && len(lines) > 1 {
				t.Errorf("%v, %d hosts: %d rows", size, hosts, n)
			}
			if !strings.HasPrefix(lines[0], "e") || size[1] < 24 {
				continue
			}
			text := strings.Join(lines, "\n")
			for _, want := range []string{"host-1", fmt.Sprintf("host-%d", hosts), "decision 39", "etcdadm-playground-901761923/env", "kill -9", "--member-count", "Ctrl-C"} {
				if !strings.Contains(text, want) {
					t.Errorf("%v, %d hosts: %q is not shown:\n%s", size, hosts, want, text)
				}
			}
		}
	}
}

// What is printed is pasted into a shell, whatever the directory's name is.
func TestGuideIsShell(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's a $HOME; rm")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := sceneOf(dir, 3)
	if err := writeEnvironment(s); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"lines": strings.Join(reachIt(s, true)[2:], "\n"),
		"file":  strings.TrimSpace(reachIt(s, false)[1]),
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script+"\nprintf '%s|%s' \"$ETCDADM_DATA_DIR\" \"$ETCDCTL_KEY\"")
		cmd.Dir = "/"
		out, err := cmd.CombinedOutput()
		want := s.Hosts[0].Dir + "|" + s.Access.Etcd.Key
		if err != nil || string(out) != want {
			t.Errorf("%s: %q, %v; want %q", name, out, err, want)
		}
	}
	data := filepath.Join(s.Hosts[2].Dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	wipe := hurtIt(s)[3]
	wipe = wipe[:strings.LastIndex(wipe, "; kill")]
	if out, err := exec.CommandContext(t.Context(), "sh", "-ec", wipe).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v %s", wipe, err, out)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Fatalf("%s left %s", wipe, data)
	}
}

func TestFoundIsTheHighestHost(t *testing.T) {
	p := &playground{dir: t.TempDir()}
	if n := p.found(); n != 0 {
		t.Fatalf("%d hosts in an empty directory", n)
	}
	for _, n := range []string{"1", "3", "x", "99"} {
		if err := os.MkdirAll(filepath.Join(p.dir, "hosts", n), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.found(); n != 3 {
		t.Fatalf("%d hosts found, want all up to 3", n)
	}
}

// What keeps a first start from succeeding leaves nothing behind.
func TestRefusedStartMakesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pg")
	err := Run(t.Context(), Options{
		Members: 3, Version: cluster.MustVersion("3.6.99"), Dir: dir, BasePort: 2379,
		Releases: &release.Finder{Roots: []string{t.TempDir()}}, View: NewJSON(io.Discard),
	})
	var missing *release.NotFoundError
	if !errors.As(err, &missing) || missing.Hint() == "" {
		t.Fatalf("%v, want that the release is not there and how to get it", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("%s was made: %v", dir, err)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = Run(t.Context(), Options{
		Members: 1, Version: cluster.MustVersion("3.7.3"), Dir: dir, BasePort: l.Addr().(*net.TCPAddr).Port,
		Releases: &release.Finder{Roots: []string{t.TempDir()}, Builtin: &release.Builtin{Version: "3.7.3", Path: "/proc/self/exe"}}, View: NewJSON(io.Discard),
	})
	if err == nil || !strings.Contains(err.Error(), "listens on") {
		t.Fatalf("%v, want that the port is taken", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("%s was made: %v", dir, err)
	}
}

// A cluster with TLS is not started without, nor the other way round.
func TestOtherTLSIsRefused(t *testing.T) {
	for _, insecure := range []bool{true, false} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "hosts", "1"), 0o700); err != nil {
			t.Fatal(err)
		}
		if insecure { // the cluster that is there has TLS
			if err := os.Mkdir(filepath.Join(dir, "pki"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		p := &playground{dir: dir, o: Options{Insecure: insecure}}
		err := p.prepare(t.Context(), cluster.Spec{}, 1)
		var mistake *Mistake
		if !errors.As(err, &mistake) || !strings.Contains(err.Error(), "TLS") {
			t.Errorf("insecure %v: %v", insecure, err)
		}
	}
}

// A daemon that is started just as the playground ends is ended as the others are: it
// was not there yet when they were.
func TestADaemonThatStartsAtTheEndIsEnded(t *testing.T) {
	k := newKeeper(func(string, string) {})
	h := &Host{Name: "h", Log: filepath.Join(t.TempDir(), "log"), path: "/bin/sleep", args: []string{"10"}}
	if signal.Ignored(os.Interrupt) { // as in a job that a script has in the background, and a program that it starts inherits that
		t.Skip("sleep would ignore SIGINT, which a daemon does not")
	}
	close(k.quit)
	began := time.Now()
	if err := k.run(h, func() {}); !isExit(err) || time.Since(began) > 9*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}
