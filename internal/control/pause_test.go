package control

import (
	"errors"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
)

func TestPauses(t *testing.T) {
	ctx := t.Context()
	s := memory.New()
	f, other := New(s, "etcd"), New(s, "etcd")
	if got, err := f.ReadPauses(ctx); !errors.Is(err, ErrNoPauses) || got != nil {
		t.Fatalf("%v, %v", got, err)
	}
	from := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := cluster.Pause{Host: "b", From: from, Until: from.Add(time.Hour), Reason: "kernel", By: "root@shell"}
	c := cluster.Pause{Host: "c", From: from, Until: from.Add(time.Minute), Reason: "disk"}
	if err := f.WritePauses(ctx, nil, []cluster.Pause{b}); err != nil {
		t.Fatal(err)
	}
	if got, err := other.ReadPauses(ctx); err != nil || !cluster.SamePauses(got, []cluster.Pause{b}) {
		t.Fatalf("%v, %v", got, err)
	}
	// Who decided by another list writes nothing.
	if err := other.WritePauses(ctx, nil, []cluster.Pause{c}); !errors.Is(err, ErrConflict) {
		t.Errorf("over what was not seen: %v", err)
	}
	if err := other.WritePauses(ctx, []cluster.Pause{b}, []cluster.Pause{b, c}); err != nil {
		t.Fatal(err)
	}
	if err := f.WritePauses(ctx, []cluster.Pause{b, c}, nil); err != nil {
		t.Fatal(err)
	}
	if got := content(t, s, keyPaused); got != "{\n  \"paused\": []\n}" {
		t.Errorf("nobody is paused: %s", got)
	}
	// Where it is lost, who knew of pauses writes them anew.
	if err := s.Delete(ctx, keyPaused); err != nil {
		t.Fatal(err)
	}
	if err := f.WritePauses(ctx, []cluster.Pause{b}, nil); err != nil {
		t.Errorf("over what is lost: %v", err)
	}
	// What a later release added is passed over; what cannot be read is neither taken for
	// none nor written over.
	place(t, s, keyPaused, `{"paused":[{"host":"b","from":"2026-11-21T12:00:00Z","until":"2026-11-21T13:00:00Z","reason":"r","color":1}],"color":2}`)
	if got, err := f.ReadPauses(ctx); err != nil || len(got) != 1 || got[0].Host != "b" {
		t.Errorf("of a later release: %v, %v", got, err)
	}
	place(t, s, keyPaused, `{"paused":[`)
	if got, err := f.ReadPauses(ctx); !errors.Is(err, ErrMalformed) || got != nil {
		t.Errorf("damaged: %v, %v", got, err)
	}
	if err := f.WritePauses(ctx, nil, nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("over what is damaged: %v", err)
	}
}
