package runtime

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// The member's log is a plain file that it appends to by itself, since a pipe
// would tie its life to its reader's. Nobody can make the process open another
// file, so a log that grows too large while it runs is shortened in place:
//
//   - where the file system can (ext4, xfs), the head is copied to FILE.1 and
//     then cut out of FILE with FALLOC_FL_COLLAPSE_RANGE, which loses nothing;
//   - elsewhere the whole is copied and FILE truncated. Lines that are written
//     between the last read and the truncation are lost; that is a few
//     microseconds, once in every LogLimit bytes.
//
// Before a start nobody has the file open, and it is simply renamed.
// FILE.1 is the newest of logGenerations older parts.

// DefaultLogLimit is the size in bytes past which a log is rotated.
const DefaultLogLimit = 64 << 20

const (
	logGenerations = 3
	logMode        = 0o640
)

// logPosition is where the running process's part of the log begins.
type logPosition struct {
	file  string
	start int64
}

// openLog opens the log for a child, and tells its size.
func openLog(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, logMode)
	if err != nil {
		return nil, 0, fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("open log: %w", err)
	}
	return f, info.Size(), nil
}

// rotateClosed rotates a log that no process has open.
func rotateClosed(path string, limit int64) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Size() <= limit {
		return err
	}
	if err := shiftGenerations(path); err != nil {
		return err
	}
	return os.Rename(path, generation(path, 1))
}

// rotateOpen rotates a log that a process appends to. It tells how many bytes
// were taken from its head.
func rotateOpen(path string, limit int64) (int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() <= limit || !info.Mode().IsRegular() {
		return 0, err
	}
	next := path + ".next"
	dst, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, logMode)
	if err != nil {
		return 0, err
	}
	defer dst.Close()
	// Whole blocks can be cut out, but not the last one of the file.
	const block = 1 << 20
	head := (info.Size() - 1) / block * block
	copied, err := io.CopyN(dst, f, head)
	if err != nil {
		return 0, err
	}
	if err := shiftGenerations(path); err != nil {
		return 0, err
	}
	if head == 0 || unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_COLLAPSE_RANGE, 0, head) != nil {
		rest, err := io.Copy(dst, f)
		if err != nil {
			return 0, err
		}
		if err := f.Truncate(0); err != nil {
			return 0, err
		}
		copied += rest
	}
	return copied, os.Rename(next, generation(path, 1))
}

func generation(path string, n int) string { return fmt.Sprintf("%s.%d", path, n) }

// shiftGenerations frees FILE.1; the oldest part is replaced.
func shiftGenerations(path string) error {
	for n := logGenerations - 1; n >= 1; n-- {
		err := os.Rename(generation(path, n), generation(path, n+1))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// rotateLog looks after the running process's log.
func (c *Child) rotateLog() {
	c.mu.Lock()
	proc, log := c.proc, c.log
	c.mu.Unlock()
	if proc == nil || log.file == "" {
		return
	}
	cut, err := rotateOpen(log.file, c.opts.LogLimit)
	if err != nil {
		c.opts.Logger.Warn("cannot rotate the member's log", "file", log.file, "err", err)
	}
	if cut == 0 {
		return
	}
	c.mu.Lock()
	if c.proc == proc {
		c.log.start = max(0, c.log.start-cut)
	}
	c.mu.Unlock()
}
