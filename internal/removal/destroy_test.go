package removal

import (
	"errors"
	"slices"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/setup"
)

// Every other member goes, those that are down first, and this host's is the last one.
func TestDestroy(t *testing.T) {
	w := newWorld(t)
	h, s := installed(t, w)
	w.up = []cluster.HostID{"a", "b"}
	d, err := h.LookToDestroy(t.Context())
	if err != nil || d.Hindrance != nil || len(d.Others) != 2 || d.Others[0].Host != "c" || d.Others[1].Host != "a" {
		t.Fatalf("%+v, %v", d, err)
	}
	w.expires = true
	if _, err := h.Destroy(t.Context(), d, Options{NoBackup: true}); !errors.Is(err, ErrWaiting) || s.stopped > 0 || !there(h.Paths.Reset()) {
		t.Errorf("%v", err)
	}
	w.expires = false
	if d, err = h.LookToDestroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	done, err := h.Destroy(t.Context(), d, Options{NoBackup: true})
	if err != nil || s.stopped != 1 || !slices.Equal(w.removed, []cluster.MemberID{memberOf("c"), memberOf("a")}) || len(done.Left) != 2 || len(done.Aside) != 2 || there(h.Paths.Data()) {
		t.Errorf("%+v, %v; removed %v", done, err, w.removed)
	}
	if _, err := h.LookToDestroy(t.Context()); !errors.Is(err, setup.ErrNotSetUp) {
		t.Errorf("again: %v", err)
	}
}

func TestDestroyIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		is     error
	}{
		"nobody answers":             {func(w *world) { w.away = console.ErrNoDaemon }, ErrUnreachable},
		"no quorum":                  {func(w *world) { w.blind = true }, ErrUnsafe},
		"its own voter is down":      {func(w *world) { w.up = []cluster.HostID{"a", "c"} }, ErrUnsafe},
		"no member is on this host":  {func(w *world) { w.voters = []cluster.HostID{"a", "c"} }, ErrUnsafe},
		"the leader cannot be asked": {func(w *world) { w.away = errors.New("hung") }, ErrUnreachable},
	} {
		w := newWorld(t)
		h, s := installed(t, w)
		c.change(w)
		d, err := h.LookToDestroy(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Destroy(t.Context(), d, Options{}); !errors.Is(err, c.is) || d.Hindrance.Advice == "" || s.stopped > 0 || there(h.Paths.Reset()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
