package snapshot

import (
	"context"

	"etcdadm.io/cluster"
)

// From 3.6 on a database says of which release line its format is, and every
// release writes into it which version the members had agreed on. An older one
// does not start on what says that it is newer, or leaves the mark in it, which the
// next upgrade then meets. Nothing else in it is newer: 3.6 added the first mark
// alone, and 3.7 nothing (schemaChanges in server/storage/schema of 3.7.3). So what
// takes a database to an older line is to take the marks out, as etcd's own
// downgrade from 3.6 to 3.5 does with the first one; a release that knows them sets
// its own when its first member leads. Held by TestSnapshotsOfOtherLines.

// below says whether the tool is of an older line than what the database says of
// itself.
func (t Tool) below(h *header) bool {
	for _, mark := range []string{h.storageVersion, h.clusterVersion} {
		if v, err := cluster.ParseVersion(mark); err == nil && v.Base().Compare(t.Version.Base()) > 0 {
			return true
		}
	}
	return false
}

// unmark takes the marks out of a database that nobody else uses. It syncs
// nothing: what is built is synced as a whole before it gets its name.
func unmark(ctx context.Context, path string) error {
	return applyChanges(ctx, path, []bucketChange{
		{bucket: bucketMeta, deletes: [][]byte{[]byte(metaStorageVersion)}},
		{bucket: bucketCluster, deletes: [][]byte{[]byte(clusterVersionKey), []byte(downgradeKey)}},
	})
}
