package control

import (
	"context"
	"errors"
	"io"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
)

// A look after each write hides nothing that the store can do besides.
func TestLookingHidesNothing(t *testing.T) {
	f := New(sure{memory.New()}, "c")
	if can, err := f.Probe(t.Context()); err != nil || !can.Conditional || !f.Notifies() {
		t.Errorf("%+v %v", can, err)
	}
	if New(memory.New(), "c").Notifies() {
		t.Error("a store that cannot tell of changes is taken for one that can")
	}
}

// sure says what it can do, and tells of changes; nobody may write into it to find out.
type sure struct{ blob.Store }

func (sure) Capabilities() blob.Capabilities { return blob.Capabilities{Conditional: true} }
func (sure) Notify(context.Context, string) (<-chan struct{}, error) {
	return make(chan struct{}), nil
}
func (sure) Put(context.Context, string, io.Reader, blob.Condition) (blob.ETag, error) {
	return "", errors.New("nobody may write")
}

// What is written while the record leaves the store, or afterwards, is not told as written.
func TestWritesBesideAMove(t *testing.T) {
	spec := cluster.Spec{MemberCount: 3, EtcdVersion: cluster.MustVersion("3.7.3")}
	for marker, moves := range map[string]bool{
		`{"nonce":"f","generation":2,"name":"c","moving":"N","intent":{}}`:              true,
		`{"nonce":"f","generation":2,"name":"c","moving":"N","moved":true,"intent":{}}`: true,
		`{"nonce":"f","generation":2,"name":"c","incoming":"N","from":"r"}`:             true,
		`{"timestamp":"1"}`: false,
	} {
		store := memory.New()
		if _, err := blob.PutBytes(t.Context(), store, KeyIntent, []byte(marker), blob.Any); err != nil {
			t.Fatal(err)
		}
		err := New(store, "c").WriteSpec(t.Context(), spec)
		if moves != errors.Is(err, ErrElsewhere) || moves != errors.Is(err, ErrUnknownOutcome) || !moves && err != nil {
			t.Errorf("%s: %v", marker, err)
		}
	}
}
