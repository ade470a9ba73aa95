package backupstore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"etcdadm.io/backup"
)

// IncompleteError says that the folder of a backup has files and no meta, which is
// written last and removed first. It is an [ErrNoBackup].
type IncompleteError struct {
	Unfinished
	Snapshot string // the file in it that would hold the snapshot; empty: none
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("%s: it is incomplete: its folder holds %s, last written at %s, and no %s, which is written last", ErrNoBackup, strings.Join(e.Files, ", "), e.Modified.UTC().Format(time.RFC3339), backup.FileMeta)
}

// Unwrap gives the sentinel.
func (e *IncompleteError) Unwrap() error { return ErrNoBackup }

// Hint says what a person can do.
func (e *IncompleteError) Hint() string {
	hint := "if it is being uploaded, ask again when that has ended; else the upload never ended, or the file was lost, and it cannot be restored by its name: etcdadm backup list prints those that can"
	if e.Snapshot == "" {
		return hint
	}
	return hint + ". Where it is the only one, fetch " + e.Snapshot + " by the store's own means and unpack it (age, gzip, as the end of its name says): etcdadm snapshot status FILE tells whether that is whole, and etcdadm snapshot restore makes a data directory of it"
}

// noBackup is why the folder is none of a backup.
func (f folder) noBackup(name backup.Name) error {
	if len(f.files) == 0 {
		return ErrNoBackup
	}
	snapshot, _ := backup.PreferredFile(f.names())
	u := f.unfinished(name)
	slices.Sort(u.Files)
	return &IncompleteError{Unfinished: u, Snapshot: snapshot}
}
