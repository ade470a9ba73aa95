package control_test

import (
	"errors"
	"testing"

	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
)

// The mark is put where there is none, taken over by who saw whose it is, and taken away by its owner.
func TestOwner(t *testing.T) {
	ctx, store := t.Context(), memory.New()
	mine, other := &control.Owner{Name: "a", UID: "1", Options: []string{"x"}}, &control.Owner{Name: "a", UID: "2"}
	f, second := control.New(store, "etcd"), control.New(store, "")
	write := func(f *control.Folder, was, now *control.Owner, want error) {
		t.Helper()
		if err := f.WriteOwner(ctx, was, now); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	write(f, nil, mine, nil)
	write(second, nil, other, control.ErrConflict)
	write(second, other, other, control.ErrConflict)
	if is, err := second.ReadOwner(ctx); err != nil || !is.Equal(*mine) {
		t.Errorf("%v, %v", is, err)
	}
	write(second, mine, other, nil)
	write(f, mine, nil, control.ErrConflict)
	write(second, other, nil, nil)
	if is, err := f.ReadOwner(ctx); err != nil || is != nil {
		t.Errorf("%v, %v", is, err)
	}
	write(f, nil, mine, nil)
	later := *mine
	later.Generation = 2
	write(f, mine, &later, nil)
	write(second, mine, mine, control.ErrConflict) // by an older state
}
