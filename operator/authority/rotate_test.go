package authority

import (
	"bytes"
	"crypto/x509"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"etcdadm.io/internal/pki"
)

// takes says whether a host that has the one files takes what a host shows that has the others, by each authority.
func takes(t *testing.T, has, other Files, now time.Time) bool {
	t.Helper()
	for _, name := range names {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(has[name+".crt"])
		for _, l := range leaves {
			request := map[string]string{"daemon": pki.ManagerCA, "operator": pki.ManagerCA, "peer": pki.PeersCA}[l.name]
			if request == "" {
				request = pki.ClientsCA
			}
			if request != name {
				continue
			}
			if _, err := leafOf(t, other, l.name+".crt").Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
				return false
			}
		}
	}
	return true
}

// Hosts of neighbouring steps take each other's certificates, and those of two steps apart do not; leaves keep their keys.
func TestRotation(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	step := func(files Files, err error) Files {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	first := step(Create(now))
	trust := step(Next(first, nil, now))
	sign := Sign(trust)
	drop := step(Drop(sign, false))
	done := Forget(drop)
	var shown []Files
	var had Files
	for i, files := range []Files{first, trust, sign, drop, done} {
		got, _, err := Issue(files, had, host, now)
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if had != nil && !bytes.Equal(had["peer.key"], got["peer.key"]) {
			t.Errorf("step %d: another key", i)
		}
		if len(got) != 13 {
			t.Errorf("step %d: with the leaves are %v", i, slices.Sorted(maps.Keys(got)))
		}
		is, err := Describe(files)
		if err != nil {
			t.Fatal(err)
		}
		if want := []int{3, 6, 6, 3, 3}[i]; len(is.Trusts) != want || len(is.Signs) != 3 || len(is.Member) != want*2/3 {
			t.Errorf("step %d: %+v", i, is)
		}
		shown, had = append(shown, got), got
	}
	for i, want := range []string{"yy---", "yyyyy", "yyyyy", "--yyy", "--yyy"} {
		is := ""
		for j := range shown {
			if takes(t, shown[i], shown[j], now) {
				is += "y"
			} else {
				is += "-"
			}
		}
		if is != want {
			t.Errorf("a host of step %d takes what those of each step show: %s, want %s", i, is, want)
		}
	}
	if trusts, signs := Rotating(trust); !trusts || signs {
		t.Error("trust is not seen")
	}
	if trusts, signs := Rotating(sign); trusts || !signs {
		t.Error("sign is not seen")
	}
	if len(done) != 6 {
		t.Errorf("left are %v", slices.Sorted(maps.Keys(done)))
	}
	// Authorities of before the last steps trust nothing that is shown, and are refused.
	if _, _, err := Issue(first, shown[3], host, now); !errors.Is(err, ErrForeign) {
		t.Errorf("issued by authorities of before: %v", err)
	}
	if anew, _, err := Issue(first, Keys(shown[3]), host, now); err != nil || !bytes.Equal(anew["peer.key"], shown[3]["peer.key"]) || !takes(t, shown[0], anew, now) {
		t.Errorf("leaves of a host that does not run are not issued anew with their keys: %v", err)
	}
	if err := Vouch(first, shown[4], now); !errors.Is(err, ErrForeign) {
		t.Errorf("%v", err)
	}
	if err := Vouch(sign, shown[1], now); err != nil {
		t.Error(err)
	}
}

// Of lost keys the certificates are regained from what hosts have: leaves stay as they are, also those that are due, and no host
// gets its first ones before the next authorities sign.
func TestLostKeys(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	first, err := Create(now)
	if err != nil {
		t.Fatal(err)
	}
	had, due, err := Issue(first, nil, host, now)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := Create(now)
	if err != nil {
		t.Fatal(err)
	}
	base, err := Regain(foreign, had, Files{"etcd-peers-ca.crt": had["etcd-peers-ca.crt"]})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(base["etcd-peers-ca.aside.key"], foreign["etcd-peers-ca.key"]) || base["etcd-peers-ca.key"] != nil {
		t.Error("what lay there is not set aside")
	}
	now = due.Add(time.Hour)
	trust, err := Next(base, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	if is, err := Describe(trust); err != nil || len(is.Trusts) != 6 || len(is.Signs) != 0 || !is.Due.IsZero() {
		t.Errorf("%+v, %v", is, err)
	}
	kept, next, err := Issue(trust, had, host, now)
	if err != nil || !bytes.Equal(kept["peer.crt"], had["peer.crt"]) || !next.After(now) {
		t.Fatalf("leaves that are due: again at %s, %v", next, err)
	}
	if _, _, err := Issue(trust, nil, host, now); !errors.Is(err, pki.ErrNoKey) {
		t.Errorf("the first leaves of a host: %v", err)
	}
	signed, _, err := Issue(Sign(trust), kept, host, now)
	if err != nil || !takes(t, kept, signed, now) || !takes(t, signed, kept, now) {
		t.Errorf("%v", err)
	}
	if _, err := Regain(nil); err == nil {
		t.Error("nothing is known, and something was regained")
	}
	end := now.Add(pki.AuthorityLifetime)
	anew, err := Anew(first, nil, end)
	if err != nil || !bytes.Equal(anew["etcd-peers-ca.aside.crt"], first["etcd-peers-ca.crt"]) {
		t.Fatal(err)
	}
	if _, _, err := Issue(anew, signed, host, end); err != nil {
		t.Errorf("leaves that have ended are in the way: %v", err)
	}
}
