package e2e

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// planted are secrets that a daemon is given and that are for nobody to see.
var planted = map[string]string{
	"S3_SECRET_ACCESS_KEY":  "planted-secret-of-s3",
	"AWS_SECRET_ACCESS_KEY": "planted-secret-of-aws",
	"AWS_SESSION_TOKEN":     "planted-token-of-aws",
	"AZURE_STORAGE_KEY":     "cGxhbnRlZC1zZWNyZXQtb2YtYXp1cmU=",
}

// A daemon that is killed at random times, alone or with its etcd, goes on each
// time as the same member with all its writes. What it was given to keep secret
// is then in no file and no answer but where it belongs, and its files are open
// to nobody else.
func TestKilledAtRandomAndKeepsSecrets(t *testing.T) {
	t.Parallel()
	var env []string
	for name, value := range planted {
		env = append(env, name+"="+value)
	}
	c := formed(t, 1, options{tls: true, env: env})
	w := c.write()
	h := c.host(1)
	member := c.voters(soon, 1)[0].ID
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	rounds := 5
	if *long {
		rounds = 25
	}
	for range rounds {
		// The time is the point of it: any moment of a daemon's start and of its work.
		time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		if r.IntN(2) == 0 {
			h.kill()
		} else {
			h.crash()
		}
		if n := len(h.etcdPIDs()); n > 1 {
			t.Fatalf("%d etcds run", n)
		}
		h.start()
	}
	if now := c.voters(soon, 1)[0].ID; now != member {
		t.Errorf("it was member %x, and is %x", member, now)
	}
	w.check()
	if n := len(h.etcdPIDs()); n != 1 {
		t.Errorf("%d etcds run", n)
	}

	secrets := c.secrets(h)
	shutToOthers(t, h.dir, c.store)
	for _, dir := range []string{h.dir, c.store} {
		c.noSecretBelow(dir, secrets)
	}
	c.noSecretIn("the daemon's log", fileAt(t, h.log), secrets)
	for _, words := range [][]string{{"status", "-o", "json"}, {"status"}, {"plan", "-o", "json"}, {"status", "--data-dir=/nowhere"}} {
		said := c.etcdadm(append(words[:1:1], append([]string{"--data-dir=" + h.dir}, words[1:]...)...)...)
		c.noSecretIn("etcdadm "+strings.Join(words, " "), []byte(said.String()), secrets)
	}
}

// secrets are what was planted, and a line of each private key.
func (c *testCluster) secrets(h *host) map[string][]byte {
	c.t.Helper()
	all := map[string][]byte{}
	for name, value := range planted {
		all[name] = []byte(value)
	}
	for _, dir := range []string{h.dir, c.pkiDir()} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(path) != ".key" {
				return err
			}
			lines := bytes.Split(fileAt(c.t, path), []byte("\n"))
			all[path] = lines[len(lines)/2] // of the body: a key is of three lines or more
			return nil
		})
		if err != nil {
			c.t.Fatal(err)
		}
	}
	if len(all) < len(planted)+6 {
		c.t.Fatalf("only %d secrets are known: the test does not reach what it is about", len(all))
	}
	return all
}

func (c *testCluster) noSecretBelow(dir string, secrets map[string][]byte) {
	c.t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Ext(path) == ".key" {
			return err
		}
		c.noSecretIn(path, fileAt(c.t, path), secrets)
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *testCluster) noSecretIn(where string, content []byte, secrets map[string][]byte) {
	c.t.Helper()
	for name, secret := range secrets {
		if len(secret) < 12 {
			c.t.Fatalf("the secret of %s is too short to be found by", name)
		}
		if bytes.Contains(content, secret) {
			c.t.Errorf("%s shows the secret of %s", where, name)
		}
	}
}

// fileAt reads a file that may just be gone.
func fileAt(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return b
}
