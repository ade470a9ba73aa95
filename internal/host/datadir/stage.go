package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/journal"
)

// MarkData puts the mark of this disk into a data directory that was built
// aside and is to be installed under a token.
func (d *Dir) MarkData(dir, token string, disk cluster.DiskID) error {
	content, err := json.Marshal(mark{Disk: disk, Token: token})
	if err != nil {
		return fmt.Errorf("mark what was built: %w", err)
	}
	if err := d.files.Replace(filepath.Join(dir, "member", fileMark), content, 0o600); err != nil {
		return fmt.Errorf("mark what was built: %w", err)
	}
	return nil
}

// Install moves a marked data directory from below this disk's root into the
// place of the token's. It is done already when that place has this disk's mark
// and a log.
func (d *Dir) Install(from, token string, disk cluster.DiskID) error {
	return d.changeData("install data", token, disk, func(marked, wal bool) error {
		if marked && wal {
			return nil
		}
		if _, err := os.Lstat(d.DataDir(token)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists already", d.DataDir(token))
		}
		rel, err := filepath.Rel(d.root, from)
		if err != nil {
			return err
		}
		return d.journal.Run([]journal.Step{
			{Kind: journal.Mkdir, Path: dirData},
			{Kind: journal.Rename, Path: filepath.Join(dirData, token), From: rel},
		})
	})
}

// AsideDir is the path of a directory that was set aside, by its name.
func (d *Dir) AsideDir(name string) (string, error) {
	if err := plainName(name); err != nil {
		return "", fmt.Errorf("find what was set aside: %w", err)
	}
	path := filepath.Join(d.root, dirAside, name)
	if info, err := os.Lstat(path); err != nil {
		return "", fmt.Errorf("find what was set aside: %w", err)
	} else if !info.IsDir() {
		return "", fmt.Errorf("find what was set aside: %s is no directory", path)
	}
	return path, nil
}
