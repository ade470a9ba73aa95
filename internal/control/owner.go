package control

import (
	"context"
	"fmt"
	"slices"
)

// Owner is who looks after a store from outside: an EtcdCluster, which writes the count, the version and some options into
// the spec. Daemons pass it over.
type Owner struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Generation is the metadata.generation by which it writes: an older state of it, as of a Kubernetes that was restored,
	// writes nothing.
	Generation int64 `json:"generation,omitempty"`
	// Kubernetes is the UID of the namespace kube-system, by which people tell one from another.
	Kubernetes string `json:"kubernetes"`
	// Options are those that it has written, or is about to, so that it takes none away that is somebody else's. Sorted.
	Options []string `json:"options,omitempty"`
}

func (o Owner) String() string {
	return fmt.Sprintf("EtcdCluster %s/%s with UID %s, of the Kubernetes whose namespace kube-system has UID %s", o.Namespace, o.Name, o.UID, o.Kubernetes)
}

// Equal reports whether both say the same.
func (o Owner) Equal(p Owner) bool {
	return o.Namespace == p.Namespace && o.Name == p.Name && o.UID == p.UID && o.Generation == p.Generation && o.Kubernetes == p.Kubernetes && slices.Equal(o.Options, p.Options)
}

// ownerFile is the object that says it.
type ownerFile struct {
	Owner *Owner `json:"owner"` // null: nobody does any more
}

var ownerObject = object[ownerFile]{
	key: keyOwner, what: "who looks after the store", cache: func(f *Folder) *cached { return &f.owner },
	advice: "move control/etcdadm-owner.json away in the store: the EtcdCluster that looks after it writes another one",
	same: func(a, b ownerFile) bool {
		return a.Owner == b.Owner || a.Owner != nil && b.Owner != nil && a.Owner.Equal(*b.Owner)
	},
}

// ReadOwner reads who looks after the store; nil: nobody does.
//
// Errors: ErrMalformed; what the store says.
func (f *Folder) ReadOwner(ctx context.Context) (*Owner, error) {
	o, _, err := ownerObject.read(ctx, f)
	return o.Owner, err
}

// WriteOwner writes who looks after the store, nil for nobody, if it is who was seen.
//
// Errors: ErrConflict when it is not; ErrMalformed; what the store says.
func (f *Folder) WriteOwner(ctx context.Context, was, now *Owner) error {
	return ownerObject.write(ctx, f, ownerFile{was}, ownerFile{now})
}
