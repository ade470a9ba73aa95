// Package support puts together what somebody needs who is to help with a host: status,
// observation, settings, versions, logs.
//
// What must always hold: it changes nothing, it holds no secret, it ends within a bound for
// each part, and what could not be had is named in it, with why.
package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"etcdadm.io/internal/bounded"
	"etcdadm.io/internal/console"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/regular"
	"etcdadm.io/internal/setup"
	"etcdadm.io/internal/version"
)

const (
	// partWithin bounds a part.
	partWithin = 10 * time.Second
	// mostLog is how many bytes of a log are taken, from its end.
	mostLog = 8 << 20
	// mostJournal is how many lines of the agent's journal are taken.
	mostJournal = 20000
	// mostFile bounds, in bytes, what else is read.
	mostFile = 4 << 20
)

// Part is a file of the bundle.
type Part struct {
	Name string // with slashes
	// Log: anybody may have written its lines. Rare: that it does not exist means nothing.
	Log, Rare bool
	Get       func(context.Context) ([]byte, error)
}

// Source is what a bundle is made from.
type Source struct {
	Look setup.Look
	// Console asks the daemons; nil: none is asked, for Unasked.
	Console *console.Console
	Unasked error
	// Journal gives the last lines of the agent's journal; nil: there is none.
	Journal func(ctx context.Context, lines int) ([]byte, error)
	Build   version.Info
	// More are parts of the caller.
	More []Part
}

// Made is what a bundle holds.
type Made struct {
	Files []File `json:"files"`
	// Missing are parts that could not be had, and why.
	Missing []Missing `json:"missing,omitempty"`
}

// File is a file in a bundle.
type File struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// Missing is a part that is not there.
type Missing struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Write writes the bundle as a tar.gz, with all files below folder. An error is that it
// could not be written, or that ctx has ended.
func (s Source) Write(ctx context.Context, w io.Writer, folder string, at time.Time) (Made, error) {
	settings, unread := setup.ReadSettings(s.Look.Paths)
	if errors.Is(unread, setup.ErrNotSetUp) {
		unread = nil // a daemon that somebody starts
	}
	hide := NewRedactor(settings)
	info, infoErr := s.Look.Info(ctx)
	parts := slices.Concat(s.asked(), s.host(info, infoErr, settings), s.More)

	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	var made Made
	put := func(name string, data []byte) error {
		if err := archive.WriteHeader(&tar.Header{Name: folder + "/" + name, Mode: 0o600, Size: int64(len(data)), ModTime: at}); err != nil {
			return err
		}
		_, err := archive.Write(data)
		made.Files = append(made.Files, File{name, len(data)})
		return err
	}
	if unread != nil { // then what is secret on this host is not known, and no log is taken
		made.Missing = append(made.Missing, Missing{"logs", unread.Error()})
	}
	for _, p := range parts {
		if p.Log && unread != nil {
			continue
		}
		data, err := bounded.Do(ctx, "support:"+p.Name, partWithin, func() ([]byte, error) {
			within, cancel := context.WithTimeout(ctx, partWithin)
			defer cancel()
			return p.Get(within)
		})
		switch {
		case ctx.Err() != nil:
			return made, ctx.Err()
		case errors.Is(err, fs.ErrNotExist) && p.Rare:
			continue
		case err != nil:
			made.Missing = append(made.Missing, Missing{p.Name, string(hide.Log([]byte(err.Error())))})
			continue
		case p.Log:
			data = hide.Log(data)
		default:
			data = hide.Document(data)
		}
		if err := put(p.Name, data); err != nil {
			return made, fmt.Errorf("write the bundle: %w", err)
		}
	}
	if err := put("README.txt", readme(s.Build, made, at)); err != nil {
		return made, fmt.Errorf("write the bundle: %w", err)
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return made, fmt.Errorf("write the bundle: %w", err)
	}
	return made, nil
}

// document is a part that is a value as JSON.
func document(name string, get func(context.Context) (any, error)) Part {
	return Part{Name: name, Get: func(ctx context.Context) ([]byte, error) {
		v, err := get(ctx)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		err = duration.WriteJSON(&b, v)
		return b.Bytes(), err
	}}
}

// asked are the answers of the daemons.
func (s Source) asked() []Part {
	ask := func(name string, put func(context.Context, *console.Console) (any, error)) Part {
		return document(name, func(ctx context.Context) (any, error) {
			if s.Console == nil {
				return nil, s.Unasked
			}
			return put(ctx, s.Console)
		})
	}
	return []Part{
		ask("status.json", func(ctx context.Context, c *console.Console) (any, error) { return c.Status(ctx) }),
		ask("own-status.json", func(ctx context.Context, c *console.Console) (any, error) { return c.First(ctx) }),
		ask("releases.json", func(ctx context.Context, c *console.Console) (any, error) { return c.Releases(ctx) }),
	}
}

// host are the files of this host, and what it is.
func (s Source) host(info setup.Info, infoErr error, settings setup.Settings) []Part {
	parts := []Part{
		document("info.json", func(context.Context) (any, error) { return info, infoErr }),
		document("version.json", func(context.Context) (any, error) { return s.Build, nil }),
	}
	for _, f := range []struct{ name, path string }{
		{"system/os-release", "/etc/os-release"}, {"system/kernel", "/proc/version"}, {"system/memory", "/proc/meminfo"},
		{"system/load", "/proc/loadavg"}, {"system/pressure-io", "/proc/pressure/io"}, {"system/uptime", "/proc/uptime"},
		{"unit", s.Look.Paths.Unit()},
	} {
		parts = append(parts, Part{Name: f.name, Log: true, Rare: true, Get: func(context.Context) ([]byte, error) { return regular.Read(f.path, mostFile) }})
	}
	dir := info.Data.Dir
	if infoErr != nil {
		dir = s.Look.DataDir
	}
	if dir != "" {
		for _, name := range []string{"etcd.log", "etcd.log.1", "etcd.log.2", "etcd.log.3"} {
			parts = append(parts, Part{Name: "logs/" + name, Log: true, Rare: name != "etcd.log", Get: func(context.Context) ([]byte, error) { return tail(filepath.Join(dir, "logs", name), mostLog) }})
		}
	}
	if s.Journal != nil && len(settings) > 0 { // the agent's unit is of init and join
		parts = append(parts, Part{Name: "logs/agent.log", Log: true, Get: func(ctx context.Context) ([]byte, error) { return s.Journal(ctx, mostJournal) }})
	}
	return parts
}

// tail is the end of a file, from a line's beginning on.
func tail(path string, most int64) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	from := max(0, size-most)
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most))
	if i := bytes.IndexByte(data, '\n'); from > 0 && i >= 0 {
		data = data[i+1:]
	}
	return data, err
}

// readme says what a bundle is.
func readme(b version.Info, m Made, at time.Time) []byte {
	var out strings.Builder
	from := ""
	if b.Commit != "" {
		from = " (commit " + b.Commit + ")"
	}
	fmt.Fprintf(&out, "Made by etcdadm %s%s at %s.\nIt holds no keys, passwords or tokens; it holds names, addresses and log lines of this cluster.\n\n", b.Release, from, at.UTC().Format(time.RFC3339))
	for _, f := range m.Files {
		fmt.Fprintf(&out, "%s  %d bytes\n", f.Name, f.Bytes)
	}
	for _, x := range m.Missing {
		fmt.Fprintf(&out, "missing: %s: %s\n", x.Name, x.Why)
	}
	out.WriteString("\netcdadm plan --from status.json replays the last decision.\n")
	return []byte(out.String())
}

// Create makes a bundle in a new file, which only its owner reads. What is half done is
// removed.
func (s Source) Create(ctx context.Context, path string, at time.Time) (made Made, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return made, err
	}
	folder := strings.TrimSuffix(filepath.Base(path), ".tar.gz")
	made, err = s.Write(ctx, f, folder, at)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return made, err
}
