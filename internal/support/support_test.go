package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/setup"
	_ "etcdadm.io/internal/testenv" // no test goes by the environment of who runs it
	"etcdadm.io/internal/version"
)

// idle is a service manager that runs nothing.
type idle struct{}

func (idle) Check(context.Context) error          { return nil }
func (idle) Active(context.Context) (bool, error) { return false, nil }
func (idle) Start(context.Context) error          { return nil }

// secrets that somebody has put where a bundle is made from; each is to be found in none.
var secrets = map[string]string{
	"a credential of the store":  "planted-secret-of-s3",
	"one in the store's URL":     "planted-in-a-url",
	"one in a parameter":         "planted-signature",
	"one by its name in a log":   "planted-by-name",
	"a private key":              "planted+body+of+a+private+key",
	"a secret key of age":        "AGE-SECRET-KEY-1PLANTED",
	"a join token":               "plantedplantedplantedplantedplan",
	"one before an @ in a log":   "planted-before-at",
	"one in the error of a part": "planted-in-an-error",
}

// a machine that was set up, with secrets where people and programs put them.
func machine(t *testing.T) setup.Look {
	t.Helper()
	l := setup.Look{Paths: setup.Paths{Root: t.TempDir()}, Service: idle{}, ShowURL: func(string) string { return "s3://bucket" }}
	data := filepath.Join(l.Paths.Root, "data")
	put := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(l.Paths.Settings(), fmt.Sprintf("ETCDADM_CLUSTER_NAME=etcd\nETCDADM_BACKUP_STORE=s3://u:%s@bucket/f?sig=%s\nETCDADM_DATA_DIR=%s\nS3_SECRET_ACCESS_KEY=%s\nAWS_REGION=eu-somewhere-1\n",
		secrets["one in the store's URL"], secrets["one in a parameter"], data, secrets["a credential of the store"]))
	put(l.Paths.Unit(), "# Made by etcdadm\n[Service]\nEnvironment=PASSWORD="+secrets["one by its name in a log"]+"\n")
	put(filepath.Join(data, "logs", "etcd.log"), strings.Join([]string{
		"a line that is wanted, in region eu-somewhere-1",
		"the store said: " + secrets["a credential of the store"] + " is wrong, at " + secrets["one in the store's URL"] + " " + secrets["one in a parameter"],
		`{"msg":"x","etcd-password": "` + secrets["one by its name in a log"] + `"}`,
		"-----BEGIN EC PRIVATE KEY-----\n" + secrets["a private key"] + "\n-----END EC PRIVATE KEY-----",
		"key " + secrets["a secret key of age"], "etcdadm join 192.0.2.1:8000 --token k3v9qd." + secrets["a join token"],
		"proxy http://user:" + secrets["one before an @ in a log"] + "@proxy:3128",
	}, "\n")+"\n")
	return l
}

func untar(t *testing.T, data []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(text)
	}
}

// A bundle holds what is wanted and no secret, and names what it lacks.
func TestBundleHoldsNoSecret(t *testing.T) {
	s := Source{
		Look: machine(t), Unasked: errors.New("no daemon answers"), Build: version.Of("3.7.3"),
		Journal: func(context.Context, int) ([]byte, error) {
			return []byte("agent says " + secrets["a credential of the store"]), nil
		},
		More: []Part{
			{Name: "more.txt", Get: func(context.Context) ([]byte, error) {
				return []byte("more of " + secrets["a credential of the store"]), nil
			}},
			{Name: "broken.txt", Get: func(context.Context) ([]byte, error) {
				return nil, errors.New("secret=" + secrets["one in the error of a part"])
			}},
		},
	}
	var b bytes.Buffer
	made, err := s.Write(t.Context(), &b, "bundle", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, b.Bytes())
	for name, text := range files {
		for what, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %s: %s", name, what, text)
			}
		}
	}
	for _, want := range []string{"README.txt", "info.json", "version.json", "unit", "logs/etcd.log", "logs/agent.log", "more.txt", "system/kernel"} {
		if files["bundle/"+want] == "" {
			t.Errorf("without %s", want)
		}
	}
	if log := files["bundle/logs/etcd.log"]; !strings.Contains(log, "a line that is wanted, in region eu-somewhere-1") || strings.Count(log, removed) < 7 || !strings.Contains(log, "k3v9qd."+removed) {
		t.Errorf("%s", log)
	}
	missing := map[string]string{}
	for _, m := range made.Missing {
		missing[m.Name] = m.Why
	}
	if missing["status.json"] != "no daemon answers" || !strings.Contains(missing["broken.txt"], removed) || len(missing) != 4 || !strings.Contains(files["bundle/README.txt"], "missing: status.json: no daemon answers") {
		t.Errorf("%v\n%s", missing, files["bundle/README.txt"])
	}
}

// Where the settings cannot be read, what is secret is not known, and no log is taken.
func TestNoLogsWhereSecretsAreUnknown(t *testing.T) {
	l := machine(t)
	if err := os.WriteFile(l.Paths.Settings(), []byte("what is this\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	l.DataDir = filepath.Join(l.Paths.Root, "data")
	made, err := Source{Look: l, Unasked: errors.New("nobody")}.Write(t.Context(), &b, "bundle", time.Now())
	if err != nil || len(made.Missing) == 0 || made.Missing[0].Name != "logs" {
		t.Errorf("%+v, %v", made, err)
	}
	for name := range untar(t, b.Bytes()) {
		if strings.Contains(name, "log") {
			t.Errorf("it has %s", name)
		}
	}
}

// A part that hangs is left out; an interruption leaves no file; nothing is written over.
func TestBundleIsBoundedAndWhole(t *testing.T) {
	l := setup.Look{Paths: setup.Paths{Root: t.TempDir()}, Service: idle{}}
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	ctx, cancel := context.WithCancel(t.Context())
	hangs := Part{Name: "hangs", Get: func(ctx context.Context) ([]byte, error) { cancel(); <-ctx.Done(); return nil, ctx.Err() }}
	if _, err := (Source{Look: l, Unasked: errors.New("nobody"), More: []Part{hangs}}).Create(ctx, path, time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a bundle is there: %v", err)
	}
	if err := os.WriteFile(path, []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Source{Look: l}).Create(t.Context(), path, time.Now()); !errors.Is(err, os.ErrExist) {
		t.Errorf("over what is there: %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "somebody's" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("first line\nsecond line\nthird line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int64]string{100: "first line\nsecond line\nthird line\n", 25: "second line\nthird line\n", 15: "third line\n"} {
		if got, err := tail(path, most); err != nil || string(got) != want {
			t.Errorf("%d: %q, %v", most, got, err)
		}
	}
}
