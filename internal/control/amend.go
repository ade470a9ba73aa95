package control

import (
	"context"
	"errors"
	"fmt"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

// Amend is what of the spec is to be another; what is zero stays as it is.
type Amend struct {
	MemberCount int
	EtcdVersion cluster.Version
}

// AmendSpec changes the member count, the version or both, as
// `etcd-manager-ctl configure-cluster` does, and gives the spec as it was
// written. A spec that cannot be right, or cannot be read, may be mended by
// it. Our settings beside it are left alone.
//
// The warnings name the keys that the spec had and that were not written
// again: the predecessor's daemon reads no spec with a key that it does not
// know, so nothing is kept for it that it would stumble over.
//
// Errors: cluster.ErrSpec, with the spec that it is about, when the result
// cannot be right, and then nothing is written; ErrMalformed when a part is to stay that cannot be read; what the
// store says.
func (f *Folder) AmendSpec(ctx context.Context, a Amend) (cluster.Spec, []string, error) {
	c, err := f.read(ctx, keySpec, &f.spec)
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return cluster.Spec{}, nil, fmt.Errorf("read the spec: %w", err)
	}
	var now cluster.Spec
	var warnings []string
	if err == nil {
		read, err := parseSpec(c.data)
		switch {
		case err == nil:
			now = *read.Spec
			for _, w := range read.Warnings {
				warnings = append(warnings, w+"; it is not written again")
			}
		case a.MemberCount == 0 || a.EtcdVersion.IsZero():
			return cluster.Spec{}, nil, err
		}
	}
	if a.MemberCount != 0 {
		now.MemberCount = a.MemberCount
	}
	if !a.EtcdVersion.IsZero() {
		now.EtcdVersion = a.EtcdVersion
	}
	if err := f.ConfigureCluster(ctx, now.MemberCount, now.EtcdVersion); err != nil {
		return now, nil, err
	}
	return now, warnings, nil
}
