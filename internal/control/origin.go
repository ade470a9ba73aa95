package control

import (
	"context"

	"etcdadm.io/cluster"
)

// originFile is the object that says what the first generation is made from. Daemons that do
// not know it pass it over.
type originFile struct {
	Origin *cluster.Origin `json:"origin"` // null: nothing
}

var originObject = object[originFile]{
	key: keyOrigin, what: "what the cluster begins with", cache: func(f *Folder) *cached { return &f.origin },
	advice: "move control/etcdadm-origin.json away in the store, then say on the host that begins the cluster what it is to begin with: etcdadm init --from-backup NAME, or etcdadm init --empty",
	same:   func(a, b originFile) bool { return a.Origin.Equal(b.Origin) },
}

// ReadOrigin reads what the first generation is to be made from, or was; nil: nothing.
//
// Errors: ErrMalformed; what the store says.
func (f *Folder) ReadOrigin(ctx context.Context) (*cluster.Origin, error) {
	o, _, err := originObject.read(ctx, f)
	return o.Origin, err
}

// WriteOrigin writes what the first generation is to be made from, nil for nothing, if it is
// what was seen.
//
// Errors: ErrConflict when it is not; ErrMalformed; what the store says.
func (f *Folder) WriteOrigin(ctx context.Context, was, now *cluster.Origin) error {
	return originObject.write(ctx, f, originFile{was}, originFile{now})
}
