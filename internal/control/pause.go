package control

import (
	"context"
	"errors"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

// ErrNoPauses is returned where the object that holds the pauses is missing: nobody was
// ever paused, or it is lost. Who knew of a pause tells.
var ErrNoPauses = errors.New("control/etcdadm-paused.json is not in the store")

// pausesFile is the object that holds the pauses. Daemons that know of none pass it over.
type pausesFile struct {
	Paused []cluster.Pause `json:"paused"`
}

var pausesObject = object[pausesFile]{
	key: keyPaused, what: "which hosts are paused", cache: func(f *Folder) *cached { return &f.paused }, lost: true,
	advice: "move control/etcdadm-paused.json away in the store; then pause the hosts again that should be paused",
	same:   func(a, b pausesFile) bool { return cluster.SamePauses(a.Paused, b.Paused) },
}

// ReadPauses reads which hosts are paused, and were.
//
// Errors: ErrNoPauses; ErrMalformed; what the store says.
func (f *Folder) ReadPauses(ctx context.Context) ([]cluster.Pause, error) {
	p, on, err := pausesObject.read(ctx, f)
	if err == nil && on == blob.IfAbsent {
		err = ErrNoPauses
	}
	return p.Paused, err
}

// WritePauses writes which hosts are paused, if they are those that were seen, or if the
// object is lost.
//
// Errors: ErrConflict when they are not; ErrMalformed; what a gate of ctx says (see
// blob.While); what the store says.
func (f *Folder) WritePauses(ctx context.Context, was, now []cluster.Pause) error {
	return pausesObject.write(ctx, f, pausesFile{was}, pausesFile{Paused: append([]cluster.Pause{}, now...)})
}
