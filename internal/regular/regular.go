// Package regular opens files of which a person names the path.
//
// A path that somebody typed may name anything. A plain open of a pipe waits until
// somebody writes to it, a read of a device such as /dev/zero has no end, and neither
// can be given up. So what is opened here is a regular file, by a link too, and what is
// read whole has a bound.
//
// A daemon reads regular files only: it starts unattended, reads a file again when it
// has changed, and has nobody who would notice what it waits for. A person's command
// may be handed a pipe, as a shell makes one for <(...): [ReadOrPipe].
package regular

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SmallSize bounds, in bytes, what holds a password, keys, certificates or variables:
// far more than any of these has.
const SmallSize = 1 << 20

// Errors, which come with the operation and the path, as those of package os do.
var (
	ErrNotRegular = errors.New("not a file")
	ErrTooLarge   = errors.New("too large")
	ErrEmptyPipe  = errors.New("it is a pipe, and nobody has written to it")
)

// Open opens a regular file for reading. Of anything else the error is an
// [ErrNotRegular] that says what it is.
func Open(path string) (*os.File, error) { return OpenFile(path, os.O_RDONLY, 0) }

// OpenFile is [os.OpenFile] for regular files alone; see [Open].
func OpenFile(path string, flag int, mode fs.FileMode) (*os.File, error) {
	f, info, err := open(path, flag, mode)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		f.Close()
		return nil, notRegular(path, info.Mode())
	}
	return f, nil
}

// Read reads a regular file of at most limit bytes; a larger one is an [ErrTooLarge]. The
// null device is an empty file, as which people name it.
func Read(path string, limit int64) ([]byte, error) {
	f, info, err := open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !readable(info) {
		return nil, notRegular(path, info.Mode())
	}
	return readWhole(f, path, limit)
}

// readable: what has an end, and whose reader waits for nobody.
func readable(info fs.FileInfo) bool { return info.Mode().IsRegular() || isNull(info) }

// isNull tells the null device by its number: a container, or a unit that hides a file,
// has one of its own.
func isNull(info fs.FileInfo) bool {
	null, err := os.Stat(os.DevNull)
	if err != nil || info.Mode().Type() != fs.ModeDevice|fs.ModeCharDevice || null.Mode().Type() != info.Mode().Type() {
		return false
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	as, known := null.Sys().(*syscall.Stat_t)
	return ok && known && is.Rdev == as.Rdev
}

// ReadOrPipe is [Read] for what a person hands to a command: it also reads a pipe to its
// end, which can be done once, and tells that it was one: another look at the path could
// end whoever writes to it. It waits for whoever writes, and for no longer than the
// context lasts. A pipe that nobody has open for writing and that holds nothing is an
// [ErrEmptyPipe]: a wait for a writer that may never come would not be told from a hang.
func ReadOrPipe(ctx context.Context, path string, limit int64) (data []byte, piped bool, err error) {
	f, info, err := open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	switch {
	case readable(info):
		data, err = readWhole(f, path, limit)
		return data, false, err
	case info.Mode().Type() != fs.ModeNamedPipe:
		return nil, false, notRegular(path, info.Mode())
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	data, err = readWhole(f, path, limit)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, true, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("whoever writes to the pipe has not come to an end: %w", ctx.Err())}
	case err == nil && len(data) == 0:
		return nil, true, &fs.PathError{Op: "read", Path: path, Err: ErrEmptyPipe}
	}
	return data, true, err
}

// open opens without waiting for whoever would be at the other end of a pipe. The look
// is at what was opened, not at a name that could be another thing by then.
func open(path string, flag int, mode fs.FileMode) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, flag|unix.O_NONBLOCK|unix.O_NOCTTY, mode)
	if errors.Is(err, unix.ENXIO) { // a socket, a pipe that nobody reads, a device without a driver
		if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
			return nil, nil, notRegular(path, info.Mode())
		}
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func readWhole(f *os.File, path string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, limit)}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func notRegular(path string, mode fs.FileMode) error {
	is := "something else"
	switch {
	case mode&fs.ModeNamedPipe != 0:
		is = "a pipe"
	case mode&fs.ModeSocket != 0:
		is = "a socket"
	case mode.IsDir():
		is = "a directory"
	case mode&fs.ModeDevice != 0:
		is = "a device"
	}
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it is %s, %w", is, ErrNotRegular)}
}
