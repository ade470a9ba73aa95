package cli

import (
	"context"
	"errors"
	"os"

	"etcdadm.io/backup"
	"etcdadm.io/internal/backupstore"
	"etcdadm.io/internal/daemon"
	"etcdadm.io/internal/release"
)

// findBackup looks for a backup that a person named, before anything is asked
// for in its name.
func findBackup(ctx context.Context, c *backupstore.Catalogue, words string) (backupstore.Backup, error) {
	name, err := backup.ParseName(words)
	if err != nil {
		return backupstore.Backup{}, usage("list the backups: their names are printed", "%w", err)
	}
	b, err := c.Get(ctx, name)
	return b, noBackup(err)
}

// finderOf finds releases on this machine.
func finderOf(program daemon.Program, dirs []string) *release.Finder {
	return &release.Finder{Dirs: release.Dirs(os.Getenv(release.Env), dirs), Roots: []string{release.SystemRoot}, Builtin: program.Builtin}
}

// noBackup adds the way out where the store has no such backup, or its key is
// missing.
func noBackup(err error) error {
	switch incomplete := (*backupstore.IncompleteError)(nil); {
	case errors.As(err, &incomplete): // it says so itself
	case errors.Is(err, backupstore.ErrNoBackup):
		return &Failure{Code: ExitError, Err: err, Advice: "run etcdadm backup list (or list-backups) to see the backups"}
	case errors.Is(err, backupstore.ErrEncrypted):
		return &Failure{Code: ExitError, Err: err, Advice: "--identity names the file with the secret key"}
	}
	return err
}
