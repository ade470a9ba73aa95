package snapshot

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
)

// LogEnd is the end of the log in a member's data directory. It changes nothing
// and takes no lock, so the member may be running: then what it is writing at
// this moment may be missing.
func LogEnd(dataDir string) (Position, error) {
	return new(LogEnds).Of(context.Background(), dataDir)
}

// LogEnds tells the end of a log again and again, and reads only what may have
// changed. etcd writes to the last file of a log alone, of 64 MB, so whatever
// the earlier ones said is kept while their names, sizes and times stay; and so
// is the whole answer while the last one stays, too. It keeps one log in mind.
// Its zero value is ready.
type LogEnds struct {
	mu      sync.Mutex
	dir     string
	earlier []logFileFacts // that were read
	read    *logReader     // what they said; nil: nothing is kept
	crc     uint32         // of their records
	last    logFileFacts
	end     *Position // nil: the last file is to be read
	visited int       // records in all, for tests
}

// logFileFacts change when a file is written to.
type logFileFacts struct {
	name string
	size int64
	at   time.Time
}

// unsettled is how long after a write the time of a file may stay the same
// although it is written to once more: clocks of file systems are coarse.
const unsettled = 2 * time.Second

// lookEvery is how many records are read between two looks at a context.
const lookEvery = 1024

// Of is LogEnd.
func (e *LogEnds) Of(ctx context.Context, dataDir string) (Position, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, err := e.of(ctx, filepath.Join(dataDir, "member", "wal"))
	if err != nil {
		e.read, e.end = nil, nil
		return Position{}, fmt.Errorf("find the end of the log: read the log in %s: %w", dataDir, err)
	}
	return p, nil
}

func (e *LogEnds) of(ctx context.Context, dir string) (Position, error) {
	names, first, err := logFiles(dir)
	if err != nil {
		return Position{}, err
	}
	began := time.Now()
	facts, err := factsOf(dir, names)
	if err != nil {
		return Position{}, err
	}
	n := len(facts) - 1
	if e.read == nil || e.dir != dir || !slices.Equal(e.earlier, facts[:n]) {
		e.read, e.end = newLogReader(first, math.MaxUint64), nil
		if e.crc = 0; n > 0 {
			if _, e.crc, err = eachRecordFrom(dir, names[:n], 0, false, e.visit(ctx, e.read)); err != nil {
				return Position{}, err
			}
		}
		e.dir, e.earlier = dir, facts[:n]
	}
	if e.end != nil && e.last == facts[n] {
		return *e.end, nil
	}
	r := e.read.clone()
	torn, _, err := eachRecordFrom(dir, names[n:], e.crc, true, e.visit(ctx, r))
	if err != nil {
		return Position{}, err
	}
	log, err := r.end(torn)
	if err != nil {
		return Position{}, err
	}
	e.last, e.end = facts[n], nil
	if began.Sub(facts[n].at) > unsettled {
		e.end = &log.last
	}
	return log.last, nil
}

func (e *LogEnds) visit(ctx context.Context, r *logReader) func(*walpb.Record) error {
	return func(rec *walpb.Record) error {
		if e.visited++; e.visited%lookEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		return r.record(rec)
	}
}

// factsOf looks at files before they are read, so that what is written meanwhile
// shows the next time.
func factsOf(dir string, names []string) (facts []logFileFacts, err error) {
	for _, name := range names {
		info, serr := os.Stat(filepath.Join(dir, name))
		if serr != nil {
			err = errors.Join(err, serr)
			continue
		}
		facts = append(facts, logFileFacts{name, info.Size(), info.ModTime()})
	}
	return facts, err
}
