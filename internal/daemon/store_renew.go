package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/bounded"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/host/datadir"
	"etcdadm.io/internal/host/record"
)

// answers tries a store out that was opened with other credentials. They replace ones that
// may still be good, so that more is asked of them than at a start: the record of this
// cluster has to be there, where this host knows of one, and whatever could be done before
// can be done with them.
func (d *daemon) answers(ctx context.Context, s blob.Store) error {
	kept, err := d.keptIntent(ctx)
	if err != nil {
		return err
	}
	folder := control.New(s, d.cfg.ClusterName)
	in, _, _, err := folder.ReadIntent(ctx)
	if err != nil {
		return err
	}
	if err := sameRecord(in, kept); err != nil {
		return err
	}
	caps, err := folder.Probe(ctx)
	if err != nil || !d.folder.Probed() {
		return err
	}
	before, err := d.folder.Probe(ctx) // was told already: nothing is asked
	if err == nil && (before.Conditional && !caps.Conditional || before.List && !caps.List || before.Delete && !caps.Delete) {
		err = fmt.Errorf("they may do less than those from before: %s", strings.Join(caps.Problems, "; "))
	}
	return err
}

// keptIntent is the record that this host keeps; nil: it was never part of a cluster.
func (d *daemon) keptIntent(ctx context.Context) (*cluster.Intent, error) {
	state, err := bounded.Do(ctx, d.cfg.DataDir, envAnswers, func() (record.State, error) { return datadir.KnownState(d.cfg.DataDir) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read which record of the cluster this host keeps: %w", err)
	}
	return state.Intent, nil
}

// errNotOurs: what the credentials reach is not where this cluster's record is.
var errNotOurs = errors.New("the credentials may be of another account or bucket")

// sameRecord is an error where a store's record is not of the history that this host's is of.
func sameRecord(in, kept *cluster.Intent) error {
	switch {
	case kept == nil:
		return nil
	case in == nil:
		return fmt.Errorf("the store has no record of this cluster there: %w", errNotOurs)
	case in.Adopted() && !kept.Adopted(), kept.Adopted() && in.Adopted() && kept.Timestamp != in.Timestamp,
		!in.Follows(kept), !kept.Follows(in):
		return fmt.Errorf("the store has the record of another cluster there, which is called %q too: %w", kept.Name, errNotOurs)
	}
	return nil
}
