package runtime

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"time"
)

const (
	// followMost is how much of a log is read at once; what is older is passed over.
	followMost = 256 << 10
	// sameKindAfter is when a line of a kind that was told is told again.
	sameKindAfter = time.Hour
	// kindsMost bounds how many kinds are remembered.
	kindsMost = 256
	// followBurst lines are told within followPeriod at most.
	followBurst  = 5
	followPeriod = 10 * time.Second
)

// LogLine is a line of a member's log that people should see.
type LogLine struct {
	Level string // warn, error or fatal
	Text  string // message and error, without what looks like a secret
}

// Follower tells what is new in a member's log and of level warn or above: each
// kind of line once an hour, and a few lines at a time. What it leaves out is
// counted. Looking at a log that has not grown costs one look at its size.
type Follower struct {
	path     string
	offset   int64
	kinds    map[string]time.Time
	told     []time.Time // when lines were told lately
	rejected map[string]Rejected
	// Left is how many lines of new kinds were not told because there were too many.
	Left int
}

// Follow begins at the end of the log as it is now.
func Follow(path string) *Follower {
	f := &Follower{path: path, kinds: map[string]time.Time{}, rejected: map[string]Rejected{}}
	if info, err := os.Stat(path); err == nil {
		f.offset = info.Size()
	}
	return f
}

// Next is what is to be told now. A log that is not there, or that cannot be
// read, says nothing.
func (f *Follower) Next(now time.Time) []LogLine { return f.choose(f.grown(), now) }

func (f *Follower) choose(lines []string, now time.Time) []LogLine {
	var out []LogLine
	for _, line := range lines {
		f.noteRejected(strings.TrimSpace(line), now)
		text, level := readLine(strings.TrimSpace(line))
		if text = tell(text); text == "" || level == "" {
			continue
		}
		kind := level + variable.ReplaceAllString(text, "")
		if at, known := f.kinds[kind]; known && now.Sub(at) < sameKindAfter {
			continue
		}
		if len(f.kinds) >= kindsMost {
			clear(f.kinds)
		}
		if !f.mayTell(now) {
			f.Left++
			continue // it is told when it comes again
		}
		f.kinds[kind] = now
		out = append(out, LogLine{Level: level, Text: text})
	}
	return out
}

// mayTell bounds the rate.
func (f *Follower) mayTell(now time.Time) bool {
	for len(f.told) > 0 && now.Sub(f.told[0]) >= followPeriod {
		f.told = f.told[1:]
	}
	if len(f.told) >= followBurst {
		return false
	}
	f.told = append(f.told, now)
	return true
}

// variable is what differs between lines of one kind.
var variable = regexp.MustCompile(`"[^"]*"|[0-9a-f]{12,16}|[0-9]+(\.[0-9]+)?(ns|µs|ms|s|m|h)?`)

// grown reads the whole lines that were appended since the last time.
func (f *Follower) grown() []string {
	info, err := os.Stat(f.path)
	if err != nil || info.Size() == f.offset {
		return nil
	}
	if info.Size() < f.offset {
		f.offset = 0 // it was rotated; what is read again is of known kinds
	}
	file, err := os.Open(f.path)
	if err != nil {
		return nil
	}
	defer file.Close()
	from := max(f.offset, info.Size()-followMost)
	data, err := io.ReadAll(io.NewSectionReader(file, from, info.Size()-from))
	if err != nil {
		return nil
	}
	end := bytes.LastIndexByte(data, '\n') + 1
	f.offset = from + int64(end)
	if end == 0 && len(data) >= followMost {
		f.offset = info.Size() // one endless line
	}
	var out []string
	for line := range strings.Lines(string(data[:end])) {
		out = append(out, line)
	}
	return out
}
