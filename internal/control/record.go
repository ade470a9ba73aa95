package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
)

// Record is the highest progress that was ever written down: a lower bound of
// what the cluster had acknowledged (SAFETY.md, rules 15 and 16).
type Record struct {
	// Revision is over all generations: a restore starts above it.
	Revision int64 `json:"revision"`
	// Clusters holds the highest (term, index) of each cluster ID; they
	// compare only within one. Sorted by cluster.
	Clusters []ClusterRecord `json:"clusters,omitempty"`
}

// ClusterRecord is the progress of one cluster ID.
type ClusterRecord struct {
	Cluster cluster.ClusterID `json:"cluster"`
	Term    uint64            `json:"term"`
	Index   uint64            `json:"index"`
}

// Progress is the highest (term, index) of each cluster ID.
func (r Record) Progress() map[cluster.ClusterID]cluster.Progress {
	of := map[cluster.ClusterID]cluster.Progress{}
	for _, c := range r.Clusters {
		of[c.Cluster] = cluster.Progress{Term: c.Term, Index: c.Index}
	}
	return of
}

// With is the record raised to this progress; it never goes down.
func (r Record) With(id cluster.ClusterID, p cluster.Progress) Record {
	out := Record{Revision: max(r.Revision, p.Revision), Clusters: slices.Clone(r.Clusters)}
	if id == 0 {
		return out
	}
	now := ClusterRecord{Cluster: id, Term: p.Term, Index: p.Index}
	i, ok := slices.BinarySearchFunc(out.Clusters, id, func(c ClusterRecord, id cluster.ClusterID) int { return cmp.Compare(c.Cluster, id) })
	switch {
	case !ok:
		out.Clusters = slices.Insert(out.Clusters, i, now)
	case cmp.Or(cmp.Compare(now.Term, out.Clusters[i].Term), cmp.Compare(now.Index, out.Clusters[i].Index)) > 0:
		out.Clusters[i] = now
	}
	return out
}

// Equal reports whether both say the same.
func (r Record) Equal(o Record) bool {
	return r.Revision == o.Revision && slices.Equal(r.Clusters, o.Clusters)
}

// ReadRecord reads the record; none is a zero one.
func (f *Folder) ReadRecord(ctx context.Context) (Record, error) {
	r, _, err := f.readRecord(ctx)
	return r, err
}

func (f *Folder) readRecord(ctx context.Context) (Record, blob.Condition, error) {
	data, tag, err := blob.ReadAll(ctx, f.store, keyRecord, maxObject)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return Record{}, blob.IfAbsent, nil
	case err != nil:
		return Record{}, "", fmt.Errorf("read the record: %w", err)
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, "", malformed(keyRecord, "move it away; the hosts remember the same, and a new one is written", err)
	}
	r.Clusters = slices.DeleteFunc(r.Clusters, func(c ClusterRecord) bool { return c.Cluster == 0 })
	slices.SortFunc(r.Clusters, func(a, b ClusterRecord) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return r, blob.IfMatch(tag), nil
}

// RaiseRecord merges progress into the record and writes it if that changed
// anything. It returns what the record then holds. A writer that got in
// between is merged with, once; ErrConflict says that there was another.
func (f *Folder) RaiseRecord(ctx context.Context, id cluster.ClusterID, p cluster.Progress) (Record, error) {
	var last error
	for range 2 {
		before, on, err := f.readRecord(ctx)
		if err != nil {
			return Record{}, err
		}
		after := before.With(id, p)
		if after.Equal(before) {
			return before, nil
		}
		data, err := json.Marshal(after)
		if err != nil {
			return Record{}, fmt.Errorf("write the record: %w", err)
		}
		_, err = f.putOnCondition(ctx, keyRecord, data, on)
		if err == nil {
			return after, nil
		}
		if !errors.Is(err, blob.ErrPreconditionFailed) {
			return Record{}, fmt.Errorf("write the record: %w", err)
		}
		last = err
	}
	return Record{}, fmt.Errorf("write the record: %w: %w", ErrConflict, last)
}
