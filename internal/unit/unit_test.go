package unit

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func spec() Spec {
	return Spec{Binary: "/usr/bin/etcdadm", Environment: "/etc/etcdadm/agent.env", Writes: []string{"/var/lib/etcdadm", "/mnt/store"}, Mounts: []string{"/mnt/store"}}
}

func TestText(t *testing.T) {
	data, err := spec().Text()
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if !Ours(data) || Ours([]byte("[Unit]\n")) {
		t.Error("whose it is cannot be told")
	}
	for _, want := range []string{
		"\nExecStart=/usr/bin/etcdadm auto\n", "\nEnvironmentFile=/etc/etcdadm/agent.env\n", "\nReadWritePaths=/var/lib/etcdadm\nReadWritePaths=/mnt/store\n",
		"\nRequiresMountsFor=/mnt/store\n", "\nKillMode=process\n", "\nType=notify\n", "\nRestart=always\n", "\nOOMPolicy=continue\n", "\n[Install]\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in it:\n%s", want, text)
		}
	}
}

var rewrite = flag.Bool("rewrite", false, "write the unit of the packages anew")

// The packages have the unit that init would write, for agents that are set up by hand.
func TestUnitOfThePackages(t *testing.T) {
	s := Spec{Binary: "/usr/bin/etcdadm", Environment: "/etc/etcdadm/agent.env", Writes: []string{"/var/lib/etcdadm"}}
	want, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "tools", "release", "files", Name)
	if *rewrite {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is not what Text makes: go test ./internal/unit -run TestUnitOfThePackages -rewrite", path)
	}
}

func TestPathsThatNoUnitTakes(t *testing.T) {
	for _, path := range []string{"relative", "/with blank", "/percent%n", "/dollar$x", `/back\slash`, "/quote\"", "/line\n", ""} {
		s := spec()
		s.Binary = path
		if _, err := s.Text(); err == nil {
			t.Errorf("%q was taken", path)
		}
		s = spec()
		s.Writes = append(s.Writes, path)
		if _, err := s.Text(); err == nil {
			t.Errorf("%q was taken", path)
		}
	}
}

// systemd itself finds nothing to complain of.
func TestSystemdTakesIt(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not on this machine")
	}
	s := spec()
	s.Binary = "/bin/true"
	data, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), Name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput()
	var of []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, Name) { // what it says of the machine's other units is not ours
			of = append(of, line)
		}
	}
	if len(of) > 0 {
		t.Errorf("%v: %s", err, strings.Join(of, ""))
	}
}
