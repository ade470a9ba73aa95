package control

import (
	"bytes"
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
	// Shown is the spec that a person was shown before; nil: none was. Over another one
	// nothing is written.
	Shown *SpecRead
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
// cannot be right, and then nothing is written; ErrMalformed when a part is to stay that cannot be read; ErrConflict
// when somebody else wrote a spec meanwhile, and then that one stays; what the store says.
func (f *Folder) AmendSpec(ctx context.Context, a Amend) (cluster.Spec, []string, error) {
	c, err := f.read(ctx, keySpec, &f.spec)
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return cluster.Spec{}, nil, fmt.Errorf("read the spec: %w", err)
	}
	if a.Shown != nil && a.Shown.tag != c.tag {
		return cluster.Spec{}, nil, fmt.Errorf("write the spec: %w", ErrConflict)
	}
	cond := blob.IfAbsent
	if err == nil {
		cond = blob.IfMatch(c.tag)
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
	now = cluster.Spec{MemberCount: now.MemberCount, EtcdVersion: now.EtcdVersion}
	if err := now.Validate(); err != nil {
		return now, nil, fmt.Errorf("write the spec: %w", err)
	}
	if err := f.swapSpec(ctx, now, cond); err != nil {
		return now, nil, err
	}
	return now, warnings, nil
}

// swapSpec writes the spec over the one that was read. A store that keeps no conditions is
// looked at again right before.
//
// Errors: ErrConflict; what the store says.
func (f *Folder) swapSpec(ctx context.Context, spec cluster.Spec, cond blob.Condition) error {
	data := formatSpec(spec)
	_, err := f.putOnCondition(ctx, keySpec, data, cond)
	if errors.Is(err, blob.ErrUnsupported) {
		_, err = f.lookAndPut(ctx, keySpec, data, cond)
	}
	if errors.Is(err, blob.ErrPreconditionFailed) {
		// An answer that was lost has the write made again, over itself.
		if is, rerr := f.read(ctx, keySpec, &f.spec); rerr == nil && bytes.Equal(is.data, data) {
			return confirmed(ctx, f, keySpec)
		}
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	if err != nil {
		return fmt.Errorf("write the spec: %w", err)
	}
	return nil
}
