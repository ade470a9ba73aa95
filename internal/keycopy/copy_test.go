package keycopy_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"etcdadm.io/internal/keycopy"
	"etcdadm.io/internal/testetcd"
)

// Downwards within version 3, everything arrives but history.
func TestCopyWithinVersion3(t *testing.T) {
	t.Parallel()
	for _, way := range [][2]string{{testetcd.V36, testetcd.V34}, {testetcd.V37, testetcd.V32}, {testetcd.V32, testetcd.V37}} {
		t.Run(way[0]+" to "+way[1], func(t *testing.T) {
			from, to := start(t, way[0]), start(t, way[1])
			long, short := from.grant(3600), from.grant(600)
			for i := range 300 {
				from.put(fmt.Sprintf("/registry/%03d", i), strings.Repeat("v", i), 0)
			}
			from.put("\x00\xff", "\x80binary", long)
			from.put("a", "1", long)
			from.put("a", "2", short)
			from.put("empty", "", 0)
			from.put("big", strings.Repeat("x", 1_400_000), 0)
			r := survey(t, from, way[1])
			if r.Loses() || r.Keys != 304 || r.Carried != 304 || r.Expiring != 2 || r.Leases != 2 {
				t.Errorf("survey: %+v", r)
			}
			done, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(from.read(), to.read()); diff != "" {
				t.Error(diff)
			}
			if done.Keys != 304 || done.Leases != 2 || done.Bytes != r.Bytes || done.At != r.At {
				t.Errorf("result: %+v", done)
			}
			for lease, want := range map[clientv3.LeaseID]int64{long: 3600, short: 600} {
				if granted, left := to.ttl(int64(lease)); granted != want || left < want-30 {
					t.Errorf("lease %x: %d s granted, %d s left", lease, granted, left)
				}
			}
			if _, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{}); !errors.Is(err, keycopy.ErrNotEmpty) {
				t.Errorf("a target with keys: %v", err)
			}
			again, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{Resume: true})
			if err != nil || again.Digest != done.Digest {
				t.Errorf("once more: %+v, %v", again, err)
			}
			to.put("stranger", "", 0)
			if _, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{Resume: true}); !errors.Is(err, keycopy.ErrDiffers) {
				t.Errorf("a target with a key of its own: %v", err)
			}
		})
	}
}

// Keys of version 2 have the same names in version 3, and their TTLs.
func TestCopyFromVersion2(t *testing.T) {
	t.Parallel()
	for _, version := range []string{testetcd.V32, testetcd.V37} {
		t.Run(version, func(t *testing.T) {
			from, to := start(t, testetcd.V23), start(t, version)
			from.set("/a", "1")
			from.set("/dir/sub/key", "ünï\n\"<>&\u2028")
			from.set("/dir/é%2F ?#+;", "odd")
			from.set("/none", "")
			from.set("/soon", "x", "ttl", "900")
			from.set("/lock", "", "dir", "true", "ttl", "300")
			from.set("/lock/mine", "x", "ttl", "1200")
			from.set("/lock/yours", "x", "ttl", "100")
			from.set("/void/sub", "", "dir", "true")
			from.set("/_hidden/x", "1")
			from.set("/dir/_hid", "1")
			r := survey(t, from, version)
			want := map[keycopy.Kind]int64{keycopy.EmptyDirectory: 2}
			if diff := cmp.Diff(want, kinds(r)); diff != "" || r.Keys != 7 || r.Expiring != 3 || len(r.Notes) != 1 {
				t.Errorf("survey: %+v\n%s", r, diff)
			}
			if _, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{}); !errors.Is(err, keycopy.ErrNotPortable) {
				t.Errorf("without leave: %v", err)
			}
			done, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{LeaveOut: true, Resume: true})
			if err != nil {
				t.Fatal(err)
			}
			there := to.read()
			for key, ttl := range map[string]int64{"/soon": 900, "/lock/mine": 300, "/lock/yours": 100} {
				if granted, left := to.ttl(there[key].Lease); granted > ttl+1 || left < ttl-30 {
					t.Errorf("%s: %d s granted, %d s left", key, granted, left)
				}
				there[key] = held{there[key].Value, 0}
			}
			if diff := cmp.Diff(map[string]held{
				"/a": {Value: "1"}, "/dir/sub/key": {Value: "ünï\n\"<>&\u2028"}, "/dir/é%2F ?#+;": {Value: "odd"},
				"/none": {}, "/soon": {Value: "x"}, "/lock/mine": {Value: "x"}, "/lock/yours": {Value: "x"},
			}, there); diff != "" || done.Leases != 3 || done.LeftOut != 2 {
				t.Errorf("result: %+v\n%s", done, diff)
			}
		})
	}
}

// What is lost of a directory that soon runs out is nothing that a person has to be asked
// about, but no copy without losses either.
func TestCopyOfWhatRunsOut(t *testing.T) {
	t.Parallel()
	from, to := start(t, testetcd.V23), start(t, testetcd.V34)
	from.set("/lock", "", "dir", "true", "ttl", "600")
	from.set("/lock/mine", "x")
	if _, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{}); !errors.Is(err, keycopy.ErrNotPortable) {
		t.Errorf("without leave: %v", err)
	}
	if done, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{LeaveOut: true, Resume: true}); err != nil || done.Keys != 1 || done.LeftOut != 0 {
		t.Errorf("with leave: %+v, %v", done, err)
	}
}

// And back: what the tree of version 2 has no place for is listed.
func TestCopyToVersion2(t *testing.T) {
	t.Parallel()
	for _, version := range []string{testetcd.V34, testetcd.V32} {
		t.Run(version, func(t *testing.T) {
			from, to := start(t, version), start(t, testetcd.V23)
			lease, shared := from.grant(500), from.grant(700)
			carried := map[string]string{
				"/a-b": "1", "/a/b": "2", "/a/b-": "3", "/é%2F ?#+;": "\x00\n", "/x/y/z": "", "/_hid/k": "5", "/l": "6",
				"/s1": "7", "/s2": "8", "/big": strings.Repeat("x", 1<<20), "/big-": strings.Repeat("y", 1<<20),
			}
			for key, value := range carried {
				from.put(key, value, map[string]clientv3.LeaseID{"/l": lease, "/s1": shared, "/s2": shared}[key])
			}
			lost := []string{"/a", "a", "/a//b", "/x/", "/", "/x/../y", "/\xff", "/x/y", "/bin"}
			for _, key := range lost {
				from.put(key, map[string]string{"/bin": "\xfe"}[key], 0)
			}
			r := survey(t, from, testetcd.V23)
			want := map[keycopy.Kind]int64{
				keycopy.NotAPath: 6, keycopy.NotText: 1, keycopy.LeafAndDirectory: 2,
				keycopy.Hidden: 1, keycopy.SharedLease: 2, keycopy.Leases: 2,
			}
			if diff := cmp.Diff(want, kinds(r)); diff != "" || r.Keys != int64(len(carried)+len(lost)) || r.Carried != int64(len(carried)) {
				t.Errorf("survey: %+v\n%s", r, diff)
			}
			done, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{LeaveOut: true})
			if err != nil {
				t.Fatal(err)
			}
			if done.LeftOut != int64(len(lost)) {
				t.Errorf("result: %+v", done)
			}
			for key, value := range carried {
				least := map[string]int{"/l": 470, "/s1": 670, "/s2": 670}[key]
				if got, ttl, there := to.get(key); !there || got != value || ttl < least || ttl > least+32 && least > 0 || least == 0 && ttl != 0 {
					t.Errorf("%s: %d bytes, %d s, %v", key, len(got), ttl, there)
				}
			}
		})
	}
}

// A source that somebody writes to is no source.
func TestCopyOfChangingSource(t *testing.T) {
	t.Parallel()
	from, to := start(t, testetcd.V36), start(t, testetcd.V34)
	for i := range 1000 {
		from.put(fmt.Sprint(i), "v", 0)
	}
	var once sync.Once
	_, err := keycopy.Copy(t.Context(), from.endpoint(), to.endpoint(), keycopy.Options{Progress: func(keys, _ int64) {
		if keys > 0 {
			once.Do(func() { from.put("more", "", 0) })
		}
	}})
	if !errors.Is(err, keycopy.ErrSourceChanged) {
		t.Error(err)
	}
	old, into := start(t, testetcd.V23), start(t, testetcd.V34)
	old.set("/a", "1")
	_, err = keycopy.Copy(t.Context(), old.endpoint(), into.endpoint(), keycopy.Options{Progress: func(int64, int64) { old.set("/b", "2") }})
	if !errors.Is(err, keycopy.ErrSourceChanged) {
		t.Error(err)
	}
}

// A report says it to people, and shows no values.
func TestReportForPeople(t *testing.T) {
	t.Parallel()
	from := start(t, testetcd.V34)
	for i := range 25 {
		from.put(fmt.Sprintf("key %02d", i), "secret", 0)
	}
	from.put("\x1b[31m", "secret", 0)
	r := survey(t, from, testetcd.V23)
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"0 of 26 keys", "not-a-path: 26 keys", `"\x1b[31m"`, `"key 08"`, "and 16 more"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q is missing in\n%s", part, &b)
		}
	}
	if strings.Contains(b.String(), "secret") || strings.Contains(b.String(), "key 09") {
		t.Errorf("too much is shown:\n%s", &b)
	}
	again := survey(t, from, testetcd.V23)
	from.put("key 25", "", 0)
	if other := survey(t, from, testetcd.V23); again.Digest() != r.Digest() || other.Digest() == r.Digest() {
		t.Error("the digest does not stand for the list")
	}
}

// Keys that the same etcd holds for clients of version 2 are told: a copy of version 3 is
// without them.
func TestSurveyOfOtherKeys(t *testing.T) {
	t.Parallel()
	from := start(t, testetcd.V32)
	from.put("/k", "v", 0)
	from.set("/old/a", "1")
	from.set("/old/b", "2")
	r := survey(t, from, testetcd.V36)
	if diff := cmp.Diff(map[keycopy.Kind]int64{keycopy.OtherKeys: 2}, kinds(r)); diff != "" || !r.Loses() || r.Keys != 1 {
		t.Errorf("%+v\n%s", r, diff)
	}
}

// Users and roles are listed, and asked for with root's credential.
func TestSurveyOfAccounts(t *testing.T) {
	t.Parallel()
	for _, version := range []string{testetcd.V36, testetcd.V32} {
		from := start(t, version)
		client := from.client()
		ctx := t.Context()
		_, err1 := client.UserAdd(ctx, "root", "pw")
		_, err2 := client.RoleAdd(ctx, "root")
		_, err3 := client.UserGrantRole(ctx, "root", "root")
		_, err4 := client.UserAdd(ctx, "alice", "pw")
		_, err5 := client.RoleAdd(ctx, "reader")
		from.put("k", "v", 0)
		_, err6 := client.AuthEnable(ctx)
		if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
			t.Fatal(err)
		}
		if _, err := keycopy.Survey(ctx, from.endpoint(), from.version); !errors.Is(err, keycopy.ErrAuth) {
			t.Errorf("%s without a credential: %v", version, err)
		}
		e := from.endpoint()
		e.Credential = credential
		r, err := keycopy.Survey(ctx, e, from.version)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[keycopy.Kind]int64{keycopy.Users: 2, keycopy.Roles: 2, keycopy.AuthOn: 1}, kinds(r)); diff != "" || r.Keys != 1 {
			t.Errorf("%s: %+v\n%s", version, r, diff)
		}
		to := start(t, testetcd.V34)
		if _, err := keycopy.Copy(ctx, e, to.endpoint(), keycopy.Options{}); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// The same in version 2.
func TestSurveyOfAccountsOfVersion2(t *testing.T) {
	t.Parallel()
	from, to := start(t, testetcd.V23), start(t, testetcd.V37)
	from.set("/k", "v")
	from.api(http.MethodPut, "/v2/auth/users/root", `{"user":"root","password":"pw"}`)
	from.api(http.MethodPut, "/v2/auth/users/alice", `{"user":"alice","password":"pw"}`)
	from.api(http.MethodPut, "/v2/auth/roles/reader", `{"role":"reader","permissions":{"kv":{"read":["/*"],"write":[]}}}`)
	from.api(http.MethodPut, "/v2/auth/enable", ``)
	e := from.endpoint()
	if r, err := keycopy.Survey(t.Context(), e, to.version); !errors.Is(err, keycopy.ErrAuth) {
		t.Errorf("without a credential: %+v, %v", r, err)
	}
	e.Credential = credential
	r, err := keycopy.Survey(t.Context(), e, to.version)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[keycopy.Kind]int64{keycopy.Users: 2, keycopy.Roles: 1, keycopy.AuthOn: 1}, kinds(r)); diff != "" {
		t.Errorf("%+v\n%s", r, diff)
	}
	if i := slices.IndexFunc(r.Losses, func(l keycopy.Loss) bool { return l.Kind == keycopy.Users }); i < 0 || !slices.Contains(r.Losses[i].Examples, "alice") {
		t.Errorf("%+v", r.Losses)
	}
	if _, err := keycopy.Copy(t.Context(), e, to.endpoint(), keycopy.Options{}); err != nil {
		t.Error(err)
	}
}
