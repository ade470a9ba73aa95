package control

import (
	"errors"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
)

func TestOrigin(t *testing.T) {
	ctx := t.Context()
	s := memory.New()
	f, other := New(s, "etcd"), New(s, "etcd")
	if got, err := f.ReadOrigin(ctx); err != nil || got != nil {
		t.Fatalf("%v, %v", got, err)
	}
	o := &cluster.Origin{File: "/tmp/a.db", SHA256: "ab"}
	if err := f.WriteOrigin(ctx, nil, o); err != nil {
		t.Fatal(err)
	}
	if got, err := other.ReadOrigin(ctx); err != nil || !got.Equal(o) {
		t.Fatalf("%v, %v", got, err)
	}
	if err := other.WriteOrigin(ctx, nil, nil); !errors.Is(err, ErrConflict) {
		t.Errorf("over what was not seen: %v", err)
	}
	if err := other.WriteOrigin(ctx, o, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := f.ReadOrigin(ctx); err != nil || got != nil {
		t.Errorf("taken back: %v, %v", got, err)
	}
	place(t, s, keyOrigin, `{"origin":{"backup":"B","color":1},"color":2}`)
	if got, err := f.ReadOrigin(ctx); err != nil || got.Backup != "B" {
		t.Errorf("of a later release: %v, %v", got, err)
	}
	place(t, s, keyOrigin, `{"origin":`)
	if got, err := f.ReadOrigin(ctx); !errors.Is(err, ErrMalformed) || got != nil {
		t.Errorf("damaged: %v, %v", got, err)
	}
}
