package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/journal"
	"etcdadm.io/internal/snapshot"
)

// note lies beside what was set aside and says what it was.
type note struct {
	cluster.SetAside
	Token string `json:"token"`
}

// SetAside is as Disk says.
func (d *Dir) SetAside(token string, aside cluster.SetAside) (cluster.SetAside, error) {
	if err := plainName(token); err != nil {
		return cluster.SetAside{}, fmt.Errorf("set data aside: token %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.openJournal()
	if err == nil {
		err = d.journal.Finish() // it may be on its way there
	}
	if err != nil {
		return cluster.SetAside{}, fmt.Errorf("set data aside: %w", err)
	}
	from := d.DataDir(token)
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return cluster.SetAside{}, nil
	} else if err != nil {
		return cluster.SetAside{}, fmt.Errorf("set data aside: %w", err)
	}
	if d.held != nil {
		if err := d.held(from); err != nil {
			return cluster.SetAside{}, fmt.Errorf("set data aside: %w", err)
		}
	}
	aside.At = d.now().UTC().Truncate(time.Second)
	name, err := d.freeName(token + "-" + aside.At.Format("20060102T150405Z") + "-" + slug(aside.Reason))
	if err != nil {
		return cluster.SetAside{}, fmt.Errorf("set data aside: %w", err)
	}
	to := filepath.Join(dirAside, name)
	aside.Dir, aside.Bytes = filepath.Join(d.root, to), bytesIn(from)
	content, err := json.MarshalIndent(note{SetAside: aside, Token: token}, "", "  ")
	if err != nil {
		return cluster.SetAside{}, fmt.Errorf("set data aside: %w", err)
	}
	err = d.journal.Run([]journal.Step{
		{Kind: journal.Mkdir, Path: dirAside},
		{Kind: journal.Write, Path: to + fileNote, Data: append(content, '\n')},
		{Kind: journal.Rename, Path: to, From: filepath.Join(dirData, token)},
	})
	if err != nil {
		return cluster.SetAside{}, fmt.Errorf("set data aside: %w", err)
	}
	return aside, nil
}

// freeName finds a name that nothing has yet: within one second, the same
// token can be set aside twice.
func (d *Dir) freeName(base string) (string, error) {
	for i := 1; i < 1000; i++ {
		name := base
		if i > 1 {
			name = fmt.Sprintf("%s-%d", base, i)
		}
		free := true
		for _, n := range []string{name, name + fileNote} {
			if _, err := os.Lstat(filepath.Join(d.root, dirAside, n)); !errors.Is(err, fs.ErrNotExist) {
				free = false
			}
		}
		if free {
			return name, nil
		}
	}
	return "", fmt.Errorf("every name like %s is taken", base)
}

// slug makes a reason fit for a file name.
func slug(reason string) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, reason)
	s = strings.Trim(s[:min(len(s), 40)], "-")
	if s == "" {
		return "set-aside"
	}
	return s
}

// bytesIn is the size of the files of a directory, as far as they can be seen.
func bytesIn(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // a size is only told
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}

// Inventory is as Disk says. What etcd-manager set aside has no note.
func (d *Dir) Inventory(token string) (aside, foreign []cluster.SetAside, err error) {
	moved, err := names(filepath.Join(d.root, dirAside))
	if err != nil {
		return nil, nil, fmt.Errorf("list what was set aside: %w", err)
	}
	for _, name := range moved {
		path := filepath.Join(d.root, dirAside, name)
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			continue
		}
		n := note{SetAside: cluster.SetAside{Reason: cluster.AsideUnknown}}
		if b, err := os.ReadFile(path + fileNote); err == nil && json.Unmarshal(b, &n) != nil {
			n.SetAside = cluster.SetAside{Reason: cluster.AsideUnknown}
		}
		n.Dir = path
		if n.Version.IsZero() { // an earlier release, or another program, set it aside
			n.Version = snapshot.Wrote(filepath.Join(path, "member", "snap", "db"))
		}
		aside = append(aside, n.SetAside)
	}
	reason := record.ForeignData
	if _, err := os.Lstat(filepath.Join(d.root, filePredecessor)); err == nil {
		reason = record.ForeignPredecessor // the file alone, without any data, tells of nothing that is there
	}
	tokens, err := names(filepath.Join(d.root, dirData))
	if err != nil {
		return nil, nil, fmt.Errorf("list data directories: %w", err)
	}
	for _, name := range tokens {
		if name == token || strings.HasPrefix(name, "lost+found") {
			continue
		}
		if plainName(name) == nil {
			if empty, err := d.isEmpty(name); err != nil {
				return nil, nil, fmt.Errorf("list data directories: %w", err)
			} else if empty {
				continue
			}
		}
		foreign = append(foreign, cluster.SetAside{Dir: d.DataDir(name), Reason: reason})
	}
	return aside, foreign, nil
}
