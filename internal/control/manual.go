package control

import (
	"context"
	"errors"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

// ErrNoManual is returned where the object is missing that tells whether self-management is
// off: nobody ever turned it off, or it is lost. Who knew tells.
var ErrNoManual = errors.New("control/etcdadm-manual.json is not in the store")

// manualFile is that object. Daemons that do not know it pass it over.
type manualFile struct {
	Manual *cluster.Manual `json:"manual"` // null: self-management is on
}

var manualObject = object[manualFile]{
	key: keyManual, what: "whether self-management is off", cache: func(f *Folder) *cached { return &f.manual }, lost: true,
	advice: "move control/etcdadm-manual.json away in the store; then say again what is wanted: etcdadm auto-manage on, or off",
	same:   func(a, b manualFile) bool { return a.Manual.Equal(b.Manual) },
}

// ReadManual reads whether a person has turned self-management off; nil: it is on.
//
// Errors: ErrNoManual; ErrMalformed; what the store says.
func (f *Folder) ReadManual(ctx context.Context) (*cluster.Manual, error) {
	m, on, err := manualObject.read(ctx, f)
	if err == nil && on == blob.IfAbsent {
		err = ErrNoManual
	}
	return m.Manual, err
}

// WriteManual turns self-management off, or on with nil, if it is as it was seen, or if the
// object is lost.
//
// Errors: ErrConflict when it is not; ErrMalformed; what a gate of ctx says (see
// blob.While); what the store says.
func (f *Folder) WriteManual(ctx context.Context, was, now *cluster.Manual) error {
	return manualObject.write(ctx, f, manualFile{was}, manualFile{now})
}
