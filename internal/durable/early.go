package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// writeBack is how much is written before the disk is told to begin with it, so
// that the sync at the end finds little to wait for.
const writeBack = 32 << 20 // bytes

// Early writes a large new file from its beginning, and has the disk begin long
// before the sync that makes it durable, which remains the caller's. It waits for
// nothing more than a write does. Where the file system cannot begin early, the
// sync does it all.
type Early struct {
	File *os.File

	size, begun int64
}

// Write implements io.Writer.
func (e *Early) Write(p []byte) (int, error) {
	n, err := e.File.Write(p)
	e.size += int64(n)
	if more := e.size - e.begun; more >= writeBack {
		_ = unix.SyncFileRange(int(e.File.Fd()), e.begun, more, unix.SYNC_FILE_RANGE_WRITE)
		e.begun = e.size
	}
	return n, err
}
