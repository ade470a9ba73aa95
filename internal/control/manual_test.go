package control

import (
	"errors"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
)

func TestManual(t *testing.T) {
	ctx := t.Context()
	s := memory.New()
	f, other := New(s, "etcd"), New(s, "etcd")
	if got, err := f.ReadManual(ctx); !errors.Is(err, ErrNoManual) || got != nil {
		t.Fatalf("%v, %v", got, err)
	}
	off := &cluster.Manual{Since: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), By: "root@shell"}
	if err := f.WriteManual(ctx, nil, off); err != nil {
		t.Fatal(err)
	}
	if got, err := other.ReadManual(ctx); err != nil || !got.Equal(off) {
		t.Fatalf("%v, %v", got, err)
	}
	// Who decided by something else writes nothing.
	if err := other.WriteManual(ctx, nil, nil); !errors.Is(err, ErrConflict) {
		t.Errorf("over what was not seen: %v", err)
	}
	if err := other.WriteManual(ctx, off, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := f.ReadManual(ctx); err != nil || got != nil {
		t.Errorf("it is on: %v, %v", got, err)
	}
	// Where it is lost, who knew of it writes it anew.
	if err := s.Delete(ctx, keyManual); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteManual(ctx, off, off); err != nil {
		t.Errorf("over what is lost: %v", err)
	}
	// What a later release added is passed over; what cannot be read is neither taken for on
	// nor written over.
	place(t, s, keyManual, `{"manual":{"since":"2026-11-21T12:00:00Z","color":1},"color":2}`)
	if got, err := f.ReadManual(ctx); err != nil || got == nil {
		t.Errorf("of a later release: %v, %v", got, err)
	}
	place(t, s, keyManual, `{"manual":`)
	if got, err := f.ReadManual(ctx); !errors.Is(err, ErrMalformed) || got != nil {
		t.Errorf("damaged: %v, %v", got, err)
	}
	if err := f.WriteManual(ctx, nil, off); !errors.Is(err, ErrMalformed) {
		t.Errorf("over what is damaged: %v", err)
	}
}
