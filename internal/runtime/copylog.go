package runtime

import (
	"bytes"
	"io"
	"os"
)

const (
	// copyMost is how much of a log is copied at once, in bytes; more waits for the next look.
	copyMost = 4 << 20
	// copyKnown is how much of what was copied last is looked for in a log that became shorter, in bytes.
	copyKnown = 4 << 10
)

// LogCopy copies a member's log, whole lines, as it grows: the member itself writes to a file, since what it writes to
// must not end with a daemon.
type LogCopy struct {
	path   string
	to     io.Writer
	offset int64
	last   []byte // of what was copied
}

// CopyLog begins at the end of the log as it is now.
func CopyLog(path string, to io.Writer) *LogCopy {
	c := &LogCopy{path: path, to: to}
	if info, err := os.Stat(path); err == nil {
		c.offset = info.Size()
	}
	return c
}

// Next copies what is new, each line by a write of its own. A log that is not there, or cannot be read, has nothing new. Errors are those of the writer.
func (c *LogCopy) Next() error {
	info, err := os.Stat(c.path)
	if err != nil || info.Size() == c.offset {
		return nil
	}
	file, err := os.Open(c.path)
	if err != nil {
		return nil
	}
	defer file.Close()
	cut := info.Size() < c.offset // its head was cut off, or it is another file
	if cut {
		c.offset = 0
	}
	data, err := io.ReadAll(io.NewSectionReader(file, c.offset, copyMost))
	if err != nil {
		return nil
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	if end == 0 && len(data) == copyMost { // one endless line
		end = len(data)
	}
	data = data[:end]
	c.offset += int64(end)
	if at := bytes.LastIndex(data, c.last); cut && at >= 0 {
		data = data[at+len(c.last):]
	}
	if len(data) == 0 {
		return nil
	}
	c.last = bytes.Clone(data[max(0, len(data)-copyKnown):])
	for line := range bytes.Lines(data) {
		if _, err := c.to.Write(line); err != nil {
			return err
		}
	}
	return nil
}
