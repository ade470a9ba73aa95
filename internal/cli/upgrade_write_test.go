package cli

import (
	"io"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

// A spec that somebody else wrote after the way was looked for stays, and so do the settings
// beside it.
func TestUpgradeLeavesAnothersSpec(t *testing.T) {
	to := cluster.MustVersion("3.7.3")
	store := memory.New()
	f := control.New(store, "")
	seed := func(count int) {
		t.Helper()
		if _, _, err := f.AmendSpec(t.Context(), control.Amend{MemberCount: count, EtcdVersion: cluster.MustVersion("3.6.16")}); err != nil {
			t.Fatal(err)
		}
	}
	seed(3)
	u := &upgrade{pause: true, outage: true}
	if u.spec, u.unread = readSpecOnce(t.Context(), f); u.unread != nil {
		t.Fatal(u.unread)
	}
	seed(5)
	if err := u.write(t.Context(), f, to, io.Discard); err == nil || !strings.Contains(err.Error(), "somebody else changed the spec") {
		t.Errorf("it was written over: %v", err)
	}
	read, err := f.ReadSpec(t.Context())
	if err != nil || read.Spec.MemberCount != 5 || read.Spec.EtcdVersion == to || read.Spec.PauseBeforeLast || read.Spec.AcceptOutage != "" {
		t.Errorf("%+v, %v", read.Spec, err)
	}
	u.spec, u.unread = readSpecOnce(t.Context(), f)
	if err := u.write(t.Context(), f, to, io.Discard); err != nil {
		t.Error(err)
	}
	if read, err = f.ReadSpec(t.Context()); err != nil || read.Spec.EtcdVersion != to || !read.Spec.PauseBeforeLast {
		t.Errorf("%+v, %v", read.Spec, err)
	}
}
