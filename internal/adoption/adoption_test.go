package adoption_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/adoption"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/testetcd"
)

var v36 = cluster.MustVersion(testetcd.V36)

func has(lines []string, words string) bool {
	return strings.Contains(strings.Join(lines, "\n"), words)
}

// What is missing is said, and nothing is done before it is there.
func TestLookSaysWhatIsMissing(t *testing.T) {
	c := testetcd.Start(t, testetcd.Config{Version: testetcd.V36})
	client := c.Client(t)
	list, err := client.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := list.Members[0]
	good := adoption.Request{
		From: c.Members[0].DataDir, DataDir: t.TempDir(), Version: v36,
		Members: &cluster.MemberView{Cluster: cluster.ClusterID(list.Header.ClusterId), Members: []cluster.Member{
			{ID: cluster.MemberID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs},
		}},
	}
	held := errors.New("held")
	for name, x := range map[string]struct {
		change func(*adoption.Request)
		words  string
	}{
		"no data":         {func(r *adoption.Request) { r.From = t.TempDir() }, "holds no member"},
		"another cluster": {func(r *adoption.Request) { v := *r.Members; v.Cluster++; r.Members = &v }, "are of cluster"},
		"removed":         {func(r *adoption.Request) { v := *r.Members; v.Members = nil; r.Members = &v }, "removed"},
		"a learner": {func(r *adoption.Request) {
			v := *r.Members
			v.Members = append([]cluster.Member{{ID: 1, Name: "x", Learner: true}}, v.Members...)
			r.Members = &v
		}, "learner"},
		"nobody answers":  {func(r *adoption.Request) { r.Members = nil }, "no earlier run"},
		"unknown release": {func(r *adoption.Request) { r.Version = cluster.Version{} }, "which release"},
		"certificates":    {func(r *adoption.Request) { r.CertsDir = t.TempDir() }, "--certs-dir"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			x.change(&r)
			p, err := adoption.Look(t.Context(), r, control.New(memory.New(), "test"))
			if err != nil || !has(p.Missing, x.words) || len(p.Steps) != 0 {
				t.Fatalf("%+v, %v", p, err)
			}
			if p.Prepare(t.Context(), nil) == nil {
				t.Error("it is prepared all the same")
			}
		})
	}
	folder := control.New(memory.New(), "test")
	good.Held, good.FlagsUnknown = func(string) error { return held }, errors.New("it is elsewhere")
	for range 2 { // a second run finds everything there
		p, err := adoption.Look(t.Context(), good, folder)
		if err != nil || len(p.Missing) > 0 || !errors.Is(p.Stop, held) {
			t.Fatalf("%+v, %v", p, err)
		}
		if !has(p.Kept.LeftOut, "with which flags etcd was run is not known (it is elsewhere)") {
			t.Errorf("of its flags it says %q", p.Kept.LeftOut)
		}
		if err := p.Prepare(t.Context(), folder); err != nil {
			t.Fatal(err)
		}
		if p.Move() == nil {
			t.Fatal("data is moved that a process holds")
		}
	}
	keepsNoSecret(t, good, folder)
	in, marker, _, err := folder.ReadIntent(t.Context())
	if err != nil || !marker || !in.Adopted() {
		t.Errorf("%+v, %t, %v", in, marker, err)
	}
	if info, err := os.Stat(filepath.Join(good.From, "member")); err != nil || !info.IsDir() {
		t.Errorf("the data is not where it was: %v", err)
	}
}

// An authority of which a file is there is nobody's to mix with another one, and what
// an interrupted run began is ended.
func TestCopyAuthorities(t *testing.T) {
	from := t.TempDir()
	for name, content := range map[string]string{"ca.crt": "theirs", "ca.key": "their key"} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ had, want map[string]string }{
		"none":              {nil, map[string]string{".crt": "theirs", ".key": "their key"}},
		"a certificate":     {map[string]string{".crt": "own"}, map[string]string{".crt": "own"}},
		"their certificate": {map[string]string{".crt": "theirs"}, map[string]string{".crt": "theirs"}},
		"another key":       {map[string]string{".key": "own key"}, map[string]string{".key": "own key"}},
		"interrupted":       {map[string]string{".key": "their key"}, map[string]string{".crt": "theirs", ".key": "their key"}},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "pki")
			if err := os.Mkdir(to, 0o700); err != nil {
				t.Fatal(err)
			}
			for suffix, content := range c.had {
				if err := os.WriteFile(filepath.Join(to, pki.PeersCA+suffix), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := adoption.CopyAuthorities(from, to); err != nil {
				t.Fatal(err)
			}
			for _, suffix := range []string{".crt", ".key"} {
				if got, _ := os.ReadFile(filepath.Join(to, pki.PeersCA+suffix)); string(got) != c.want[suffix] {
					t.Errorf("%s holds %q, want %q", suffix, got, c.want[suffix])
				}
				if _, err := os.Stat(filepath.Join(to, pki.ClientsCA+suffix)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
