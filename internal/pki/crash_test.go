package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/durable/crashdisk"
)

// made is what a process told of, or used, when it was through: that has to be there
// whatever comes after.
type made func(disk durable.Disk, dir string) (tell []byte, err error)

// crashes runs it on a disk that dies before each system call that changes a file, cuts the
// power there in every way, and has the next process judge what is left. What the first one
// told before it died is told by the next one, too.
func crashes(t *testing.T, begin func(dir string), do made, judge func(dir string) error) {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err == nil { // nothing here needs a real disk
		t.Setenv("TMPDIR", "/dev/shm")
	}
	cut, cuts, n := filepath.Join(t.TempDir(), "cut"), 0, 1
	for alive := false; !alive && !t.Failed(); n++ {
		root := t.TempDir()
		must(t, os.Mkdir(filepath.Join(root, "top"), modeDir))
		if begin != nil {
			begin(filepath.Join(root, "top", "above", "pki"))
		}
		d, err := crashdisk.New(root, n)
		must(t, err)
		told, err := do(d.Files(), filepath.Join(root, "top", "above", "pki"))
		if alive = !d.Died(); alive {
			must(t, err)
		}
		through := err == nil // also where all that it could not do was to tidy up
		again := func(root, what string) {
			dir := filepath.Join(root, "top", "above", "pki")
			err := judge(dir)
			tells, e := do(durable.OS(), dir)
			err = errors.Join(err, e)
			if err == nil && through && !bytes.Equal(tells, told) {
				err = errors.New("what was told is gone")
			}
			if err == nil {
				err = judge(dir)
			}
			if err != nil {
				t.Errorf("before call %d of %q: %s: %v", n, d.Calls(), what, err)
			}
		}
		more, err := d.Cuts(cut, func(what string) { again(cut, "power cut: "+what) })
		must(t, err)
		cuts += more
		if !through { // the next process goes on, and its word is good whatever the first one had made durable
			d.Again(0)
			told, err = do(d.Files(), filepath.Join(root, "top", "above", "pki"))
			must(t, err)
			through = true
			more, err := d.Cuts(cut, func(what string) { again(cut, "completed, and power cut: "+what) })
			must(t, err)
			cuts += more
			continue
		}
		again(root, "killed")
	}
	t.Logf("%d calls, %d power cuts", n-1, cuts)
	if n < 10 || cuts < 2*n {
		t.Errorf("only %d calls and %d cuts", n-1, cuts)
	}
}

func publicKey(key crypto.Signer) []byte {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err)
	}
	return der
}

// everyPair finds that no certificate is there without the key that it was made for.
func everyPair(dir string, key, cert func(name string) string, names ...string) error {
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, cert(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		certs, err := parseCertificates(data)
		if err != nil {
			return fmt.Errorf("the certificate of %s: %w", name, err)
		}
		if data, err = os.ReadFile(filepath.Join(dir, key(name))); err != nil {
			return fmt.Errorf("a certificate of %s without its key: %w", name, err)
		}
		if k, err := parseKey(data); err != nil || !sameKey(k.Public(), certs[0].PublicKey) {
			return fmt.Errorf("the key of %s is another one's: %w", name, err)
		}
	}
	return nil
}

// TestCreateKilledAnywhere: authorities that were told of are there after a power cut, and
// what a process that was killed left is completed by the next one.
func TestCreateKilledAnywhere(t *testing.T) {
	names := []string{ManagerCA, PeersCA, ClientsCA}
	crashes(t, nil, func(disk durable.Disk, dir string) ([]byte, error) {
		all, err := createOn(disk, dir, t0)
		if err != nil {
			return nil, err
		}
		var keys []byte // what is signed by one is good under each certificate of it
		for _, a := range []*Authority{all.Manager, all.Peers, all.Clients} {
			if !a.CanIssue() {
				return nil, errors.New("one cannot issue")
			}
			keys = append(keys, publicKey(a.key)...)
		}
		return keys, nil
	}, func(dir string) error {
		return everyPair(dir, func(n string) string { return n + ".key" }, func(n string) string { return n + ".crt" }, names...)
	})
}

// TestEnsureKilledAnywhere: so it is with a key pair, of which the certificate comes after
// its key; also where a key that cannot be read is put aside for it, which stays there.
func TestEnsureKilledAnywhere(t *testing.T) {
	_, all := created(t)
	for name, begin := range map[string]func(dir string){
		"first": nil,
		"over a damaged key": func(dir string) {
			must(t, os.MkdirAll(dir, modeDir))
			must(t, os.WriteFile(filepath.Join(dir, PeerNames.Key), []byte("damaged"), modeKey))
		},
	} {
		t.Run(name, func(t *testing.T) {
			crashes(t, begin, func(disk durable.Disk, dir string) ([]byte, error) {
				done, err := ensureOn(disk, dir, PeerNames, all.Peers, hostRequest(t, "h1"), t0, nil)
				if err != nil {
					return nil, err
				}
				return publicKey(done.Pair.key), nil
			}, func(dir string) error {
				err := everyPair(dir, func(string) string { return PeerNames.Key }, func(string) string { return PeerNames.Cert }, "peer")
				if err != nil || begin == nil {
					return err
				}
				tree, err := crashdisk.Tree(dir)
				for path, content := range tree {
					if content == "damaged" && (path == PeerNames.Key || strings.HasPrefix(path, PeerNames.Key+".unreadable-")) {
						return nil
					}
				}
				return fmt.Errorf("the damaged key is gone: %v %w", reflect.ValueOf(tree).MapKeys(), err)
			})
		})
	}
}
