package rig

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Planted are secrets that a daemon is given and that are for nobody to see.
var Planted = map[string]string{
	"S3_SECRET_ACCESS_KEY":  "planted-secret-of-s3",
	"AWS_SECRET_ACCESS_KEY": "planted-secret-of-aws",
	"AWS_SESSION_TOKEN":     "planted-token-of-aws",
	"AZURE_STORAGE_KEY":     "cGxhbnRlZC1zZWNyZXQtb2YtYXp1cmU=",
}

// Secrets are what was planted, and a line of each private key.
func (c *Cluster) Secrets(h *Host) map[string][]byte {
	c.T.Helper()
	all := map[string][]byte{}
	for name, value := range Planted {
		all[name] = []byte(value)
	}
	for _, dir := range []string{h.Dir, c.PKIDir()} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(path) != ".key" {
				return err
			}
			lines := bytes.Split(FileAt(c.T, path), []byte("\n"))
			all[path] = lines[len(lines)/2] // of the body: a key is of three lines or more
			return nil
		})
		if err != nil {
			c.T.Fatal(err)
		}
	}
	if len(all) < len(Planted)+6 {
		c.T.Fatalf("only %d secrets are known: the test does not reach what it is about", len(all))
	}
	return all
}

func (c *Cluster) NoSecretBelow(dir string, secrets map[string][]byte) {
	c.T.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Ext(path) == ".key" {
			return err
		}
		c.NoSecretIn(path, FileAt(c.T, path), secrets)
		return nil
	})
	if err != nil {
		c.T.Fatal(err)
	}
}

func (c *Cluster) NoSecretIn(where string, content []byte, secrets map[string][]byte) {
	c.T.Helper()
	for name, secret := range secrets {
		if len(secret) < 12 {
			c.T.Fatalf("the secret of %s is too short to be found by", name)
		}
		if bytes.Contains(content, secret) {
			c.T.Errorf("%s shows the secret of %s", where, name)
		}
	}
}

// FileAt reads a file that may just be gone.
func FileAt(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return b
}
