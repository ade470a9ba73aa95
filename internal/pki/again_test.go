package pki

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A leaf is asked for again as it was, whoever asked for it first: nothing differs, and so nothing is issued before it is due.
func TestRequestAgain(t *testing.T) {
	_, all := created(t)
	life := DefaultLifetime()
	peer, err := PeerRequest("a", []string{"https://a.example:2380"}, []string{"127.0.0.1", "192.0.2.1", "2001:db8::1"}, life)
	must(t, err)
	client, err := ClientRequest("root", life)
	must(t, err)
	for name, c := range map[string]struct {
		request Request
		from    *Authority
	}{"host": {hostRequest(t, "h1", "192.0.2.1", "h1.example"), all.Manager}, "peer": {peer, all.Peers}, "client": {client, all.Clients}} {
		dir := filepath.Join(t.TempDir(), name)
		had, err := Ensure(dir, PeerNames, c.from, c.request, t0)
		must(t, err)
		again := RequestAgain(had.Pair.Leaf(), life)
		if why := again.differs(had.Pair.Leaf()); why != "" || again.Server != c.request.Server {
			t.Errorf("%s: %s", name, why)
		}
		if why := WhyRenew(dir, PeerNames, c.from, again, t0.Add(day)); why != "" {
			t.Errorf("%s is renewed although it is not due: %s", name, why)
		}
		again.Anew = true
		if why := WhyRenew(dir, PeerNames, c.from, again, t0.Add(day)); why == "" {
			t.Errorf("%s is not renewed, as a person asked", name)
		}
		next, err := Ensure(dir, PeerNames, c.from, again, t0.Add(day))
		must(t, err)
		if why := c.request.differs(next.Pair.Leaf()); why != "" || next.Issued == "" || !next.Pair.Leaf().NotAfter.After(had.Pair.Leaf().NotAfter) || !sameKey(next.Pair.key.Public(), had.Pair.key.Public()) {
			t.Errorf("%s: %s, %s", name, next.Issued, why)
		}
		again.Anew = false
		if why := WhyRenew(dir, PeerNames, c.from, again, life.RenewAt(next.Pair.Leaf())); why == "" {
			t.Errorf("%s is not renewed when it is due", name)
		}
		if !c.from.Signed(next.Pair.Leaf()) || all.Manager != c.from && all.Manager.Signed(next.Pair.Leaf()) {
			t.Errorf("%s: it is said to be signed by another authority", name)
		}
	}
	if why := WhyRenew(filepath.Join(t.TempDir(), "none"), PeerNames, all.Peers, peer, t0); why == "" {
		t.Error("nothing is issued where there is nothing")
	}
}

func TestReadCertificates(t *testing.T) {
	dir, all := created(t)
	got, err := ReadCertificates(all.Peers.File())
	if err != nil || len(got) != 1 || !all.Peers.Trusts(got[0]) || all.Clients.Trusts(got[0]) || len(Fingerprint(got[0])) != 64 {
		t.Errorf("%d, %v", len(got), err)
	}
	if _, err := ReadCertificates(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "x"), []byte("x"), 0o600))
	if _, err := ReadCertificates(filepath.Join(dir, "x")); !errors.Is(err, ErrPEM) {
		t.Errorf("%v", err)
	}
}
