package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/regular"
)

// Directory is a directory in which every host has a file named by its ID, with the content
//
//	{"id":"host-a","endpoints":[{"ip":"10.0.0.1","port":8000}]}
//
// It serves daemons of one machine, or of several that share a file system, and is the predecessor's format. Other files in it are
// passed over and named in the error. Hidden files, and what is no regular file, are passed over in silence.
type Directory struct {
	Path        string
	DefaultPort int           // for endpoints without a port; 0 leaves them out
	Poll        time.Duration // see Watch; 0 means DefaultPoll
}

// Seeds implements Seeds. A directory that is not there is an error: it may be a disk that is not mounted.
func (d Directory) Seeds(ctx context.Context) ([]Seed, error) {
	var seeds []Seed
	err := eachFile(ctx, d.Path, func(file fs.DirEntry) error {
		if !file.Type().IsRegular() {
			return nil
		}
		data, err := readEntry(filepath.Join(d.Path, file.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone since the directory was read
		} else if err != nil {
			return err
		}
		found, _, err := parseEntry(file.Name(), data, d.DefaultPort)
		seeds = append(seeds, found...)
		return err
	})
	return tidy(seeds), err
}

// Announce implements Announcer. It makes the directory if need be, and writes only what is not there yet, so that watchers are not
// woken for nothing. The file is replaced whole.
func (d Directory) Announce(ctx context.Context, self Seed) error {
	if err := d.announce(ctx, self); err != nil {
		return fmt.Errorf("announce in directory %s: %w", d.Path, err)
	}
	return nil
}

func (d Directory) announce(ctx context.Context, self Seed) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := formatEntry(self, time.Time{})
	if err != nil {
		return err
	}
	path := filepath.Join(d.Path, nameOf(self.ID))
	if old, err := readEntry(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	// Others, under other users, are to find it; there is nothing secret in it.
	if err := os.MkdirAll(d.Path, 0o755); err != nil {
		return err
	}
	return durable.Replace(path, data, 0o644)
}

// Watch implements Watcher, by events where the system gives them, and by a look every Poll.
func (d Directory) Watch(ctx context.Context) <-chan struct{} {
	return watchDirectory(ctx, d.Path, d.Poll)
}

// Addresses is a directory of files that are named by IP addresses, whatever is in them: the seeds of the predecessor's provider
// "external", kept by whoever runs the machines.
type Addresses struct {
	Path string
	Port int           // of the daemons, on all hosts
	Poll time.Duration // see Watch; 0 means DefaultPoll
}

// Seeds implements Seeds.
func (a Addresses) Seeds(ctx context.Context) ([]Seed, error) {
	var seeds []Seed
	err := eachFile(ctx, a.Path, func(file fs.DirEntry) error {
		if _, err := parseIP(file.Name()); err != nil {
			return errors.New("its name is not an IP address")
		}
		joined, err := endpoint(file.Name(), a.Port)
		if err != nil {
			return err
		}
		seeds = append(seeds, Seed{Endpoint: joined})
		return nil
	})
	return tidy(seeds), err
}

// Watch implements Watcher, by events where the system gives them, and by a look every Poll.
func (a Addresses) Watch(ctx context.Context) <-chan struct{} {
	return watchDirectory(ctx, a.Path, a.Poll)
}

// maxFiles is how many files of a directory are looked at.
const maxFiles = 1000

// eachFile calls the function for each file of a directory that is not hidden, and joins the errors under the files' names.
func eachFile(ctx context.Context, dir string, look func(fs.DirEntry) error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read directory %s: it does not exist: %w", dir, fs.ErrNotExist)
	} else if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	var errs []error
	seen := 0
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if strings.HasPrefix(entry.Name(), ".") || entry.IsDir() {
			continue
		}
		if seen++; seen > maxFiles {
			errs = append(errs, fmt.Errorf("directory %s has more than %d files; the rest is passed over", dir, maxFiles))
			break
		}
		if err := look(entry); err != nil {
			errs = append(errs, fmt.Errorf("file %q in %s is passed over: %w", entry.Name(), dir, err))
		}
	}
	return errors.Join(errs...)
}

// readEntry reads a regular file of at most maxEntry bytes. The directory may be one where everybody can write, so it follows no link
// and does not wait at a pipe.
func readEntry(path string) ([]byte, error) {
	f, err := regular.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err
		}
		return nil, fmt.Errorf("open: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEntry+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxEntry {
		return nil, fmt.Errorf("it is larger than %d bytes", maxEntry)
	}
	return data, nil
}
