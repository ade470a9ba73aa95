package control

import (
	"context"
	"errors"

	"etcdadm.io/backup"
	"etcdadm.io/cluster"
)

// RestoredSpec is what a command says of the cluster that it makes: what the
// store asks for, as the predecessor's ctl writes it, since its daemon puts
// that in force and does nothing any more with a command that has none. Where
// the store asks for nothing that can be followed, it is what the backup was of.
// Our daemons go by the store.
//
// Errors: what the store says.
func RestoredSpec(ctx context.Context, f *Folder, m backup.Meta) (cluster.Spec, error) {
	read, err := f.ReadSpec(ctx)
	switch {
	case err == nil && read.Spec != nil:
		return cluster.Spec{MemberCount: read.Spec.MemberCount, EtcdVersion: read.Spec.EtcdVersion}, nil
	case err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, cluster.ErrSpec):
		return cluster.Spec{}, err
	}
	spec := cluster.Spec{MemberCount: m.MemberCount, EtcdVersion: m.SpecVersion}
	if spec.EtcdVersion.IsZero() {
		spec.EtcdVersion = m.EtcdVersion
	}
	return spec, nil
}
