package pki

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"etcdadm.io/internal/durable"
)

// rotated is an authority in a directory of its own, and its next one, whose key lies there.
func rotated(t *testing.T) (dir string, c Change) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "pki")
	all, err := Create(dir, t0)
	must(t, err)
	next, err := MakeNext(dir, PeersCA, "r1", t0)
	must(t, err)
	return dir, Change{ID: "r1", Name: PeersCA, Old: all.Peers.Signing(), Next: next}
}

// in is the change as it is in a phase.
func (c Change) in(trustNext, signNext, drop bool) Change {
	c.TrustNext, c.SignNext, c.Drop = trustNext, signNext, drop
	return c
}

// state is whom a host trusts, and who signs there.
func state(trusted []string, signs string) string { return strings.Join(trusted, "+") + " by " + signs }

func trusts(t *testing.T, dir string) string {
	t.Helper()
	a, err := LoadAuthority(dir, PeersCA, t0)
	must(t, err)
	var out []string
	for _, c := range a.bundle {
		out = append(out, c.SerialNumber.String())
	}
	return state(out, a.Signing().SerialNumber.String())
}

// One authority after the other is trusted, signs, and is alone; each step twice does nothing the second time. The
// leaf is issued anew as soon as another one signs, and is trusted by who trusts both.
func TestRotate(t *testing.T) {
	dir, c := rotated(t)
	old, next := c.Old.SerialNumber.String(), c.Next.SerialNumber.String()
	request, err := PeerRequest("a", []string{"https://192.0.2.1:2380"}, nil, DefaultLifetime())
	must(t, err)
	leaf := func() string {
		a, err := LoadAuthority(dir, PeersCA, t0)
		must(t, err)
		done, err := Ensure(filepath.Join(dir, "leaf"), PeerNames, a, request, t0)
		must(t, err)
		return a.SignerOf(done.Pair.Leaf()).SerialNumber.String()
	}
	for _, step := range []struct {
		name       string
		c          Change
		want, leaf string
	}{
		{"trust", c.in(true, false, false), state([]string{old, next}, old), old},
		{"sign", c.in(true, true, false), state([]string{old, next}, next), next},
		{"undo", c.in(false, false, false), state([]string{old, next}, old), old},
		{"sign again", c.in(true, true, false), state([]string{old, next}, next), next},
		{"drop", c.in(false, true, true), state([]string{next}, next), next},
	} {
		for range 2 {
			_, err := step.c.Trust(dir)
			must(t, err)
			if step.c.Drop {
				continue
			}
			_, err = step.c.Sign(dir)
			must(t, err)
		}
		if changed, err := step.c.Trust(dir); changed || err != nil {
			t.Errorf("%s is not done: %v", step.name, err)
		}
		if is := trusts(t, dir); is != step.want {
			t.Errorf("%s: %s, want %s", step.name, is, step.want)
		}
		if by := leaf(); by != step.leaf {
			t.Errorf("%s: the leaf is of %s, want %s", step.name, by, step.leaf)
		}
	}
	if a, err := LoadAuthority(dir, PeersCA, t0); err != nil || a.HasHash(HashOf(c.Old)) || !a.HasHash(HashOf(c.Next)) {
		t.Errorf("its hashes are not those of its bundle: %v", err)
	}
	for _, file := range []string{"etcd-peers-ca.before-r1.key", "etcd-peers-ca.next-r1.key", "etcd-peers-ca.key"} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// What the rotation is not about stays in the bundle.
func TestRotateKeepsOthers(t *testing.T) {
	dir, c := rotated(t)
	other := newCA(t, "other", ecKey(t), t0, t0.Add(day))
	file := filepath.Join(dir, PeersCA+".crt")
	must(t, os.WriteFile(file, encodeCertificates(c.Old, other.cert), 0o644))
	for _, step := range []Change{c.in(true, false, false), c.in(true, true, false), c.in(false, true, true)} {
		_, err := step.Trust(dir)
		must(t, err)
		if !step.Drop {
			_, err = step.Sign(dir)
			must(t, err)
		}
	}
	all, err := ReadCertificates(file)
	must(t, err)
	if len(all) != 2 || !slices.ContainsFunc(all, other.cert.Equal) || !slices.ContainsFunc(all, c.Next.Equal) {
		t.Errorf("%d certificates", len(all))
	}
}

// A key goes to another host, and only that of the certificate on record is taken.
func TestRotateOnAnotherHost(t *testing.T) {
	dir, c := rotated(t)
	there := filepath.Join(t.TempDir(), "pki")
	must(t, os.CopyFS(there, os.DirFS(dir)))
	must(t, os.Remove(c.nextKeyFile(there)))
	if c.HasKey(there, c.Next) {
		t.Error("it has a key that is not there")
	}
	sign := c.in(true, true, false)
	_, err := sign.Trust(there)
	must(t, err)
	if _, err := sign.Sign(there); !errors.Is(err, ErrNoNextKey) {
		t.Errorf("without the key: %v", err)
	}
	wrong, err := encodeKey(ecKey(t))
	must(t, err)
	if err := c.PutKey(there, c.Next, wrong); !errors.Is(err, ErrMismatch) || c.HasKey(there, c.Next) {
		t.Errorf("the key of another one: %v", err)
	}
	key, err := c.KeyOf(dir, c.Next)
	must(t, err)
	must(t, c.PutKey(there, c.Next, key))
	must(t, c.PutKey(there, c.Next, key))
	_, err = sign.Sign(there)
	must(t, err)
	// A rotation of another ID knows nothing of it.
	if other := (Change{ID: "r2", Name: PeersCA, Old: c.Old, Next: c.Old}); other.HasKey(filepath.Join(there, "none"), c.Old) {
		t.Error("a key from nowhere")
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", err, c, sign), "PRIVATE") {
		t.Error("a key is shown")
	}
}

// Somebody's own key in the place of the authority's is left alone.
func TestRotateLeavesAForeignKey(t *testing.T) {
	dir, c := rotated(t)
	mine := newCA(t, PeersCA, ecKey(t), t0, t0.Add(day))
	key, err := encodeKey(mine.key)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, PeersCA+".key"), key, 0o600))
	if _, err := c.in(true, true, false).Sign(dir); !errors.Is(err, ErrMismatch) {
		t.Errorf("%v", err)
	}
}

// Killed or without power before any call to the disk, the host still loads an authority that can issue, and goes on.
func TestRotateOverCrashes(t *testing.T) {
	next := map[string]Change{} // by the directory's certificate
	begin := func(dir string) {
		must(t, os.MkdirAll(filepath.Dir(dir), 0o700))
		_, err := Create(dir, t0)
		must(t, err)
		all, err := Load(dir, t0)
		must(t, err)
		cert, err := MakeNext(dir, PeersCA, "r1", t0)
		must(t, err)
		next[all.Peers.Signing().SerialNumber.String()] = Change{ID: "r1", Name: PeersCA, Old: all.Peers.Signing(), Next: cert}
	}
	of := func(dir string) (c Change, err error) {
		all, err := ReadCertificates(filepath.Join(dir, PeersCA+".crt"))
		if err != nil {
			return c, err
		}
		for _, c := range next {
			if slices.ContainsFunc(all, c.Old.Equal) || slices.ContainsFunc(all, c.Next.Equal) {
				return c, nil
			}
		}
		return c, errors.New("whose is it")
	}
	do := func(disk durable.Disk, dir string) ([]byte, error) {
		c, err := of(dir)
		if err != nil {
			return nil, err
		}
		for _, step := range []Change{c.in(true, false, false), c.in(true, true, false), c.in(false, true, true)} {
			if step.TrustNext {
				if now, err := ReadCertificates(filepath.Join(dir, PeersCA+".crt")); err == nil && !slices.ContainsFunc(now, c.Old.Equal) {
					continue // it was through
				}
			}
			if _, err := step.trustOn(disk, dir); err != nil {
				return nil, err
			}
			if !step.Drop {
				if _, err := step.signOn(disk, dir); err != nil {
					return nil, err
				}
			}
		}
		return []byte("x"), nil
	}
	judge := func(dir string) error {
		a, err := LoadAuthority(dir, PeersCA, t0.Add(time.Minute))
		if err != nil {
			return err
		}
		if !a.CanIssue() {
			return errors.New("it cannot issue")
		}
		return nil
	}
	crashes(t, begin, do, judge)
}
