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

	"etcdadm.io/cluster"
)

// LogEnds tells the end of a log again and again, and reads only what may have
// changed. etcd writes to the last file of a log alone, of 64 MB, so whatever
// the earlier ones said is kept while their names, sizes and times stay; and so
// is the whole answer while the last one stays, too. It keeps one log in mind.
// A reading that was cut short goes on after the last file that was read to its
// end. Its zero value is ready.
type LogEnds struct {
	mu      sync.Mutex
	tell    func(cluster.LogReading) // while a reading is under way
	all     int64                    // bytes of the files that it goes through
	bytes   int64                    // that it has read
	looked  int64                    // at the last look at its context
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

// There is a look at the context after so many records or so many bytes, whichever
// comes first: records may be small or have a mebibyte and more.
const (
	lookEvery      = 1024
	lookEveryBytes = 4 << 20
)

// Of is the end of the log in a member's data directory. It changes nothing and
// takes no lock, so the member may be running: then what it is writing at this
// moment may be missing. Progress, if not nil, is told now and then.
func (e *LogEnds) Of(ctx context.Context, dataDir string, progress func(cluster.LogReading)) (Position, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tell = progress
	p, err := e.of(ctx, filepath.Join(dataDir, "member", "wal"))
	if err != nil {
		if e.end = nil; ctx.Err() == nil {
			e.read = nil
		}
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
	if e.read == nil || e.dir != dir || len(e.earlier) > n || !slices.Equal(e.earlier, facts[:len(e.earlier)]) {
		e.read, e.crc, e.end = newLogReader(first, math.MaxUint64), 0, nil
		e.dir, e.earlier = dir, nil
	}
	e.begin(facts)
	for i := len(e.earlier); i < n; i++ { // what was read stays read, also when ctx ends within the next
		r := e.read.clone()
		_, crc, err := eachRecordFrom(dir, names[i:i+1], e.crc, false, e.visit(ctx, r))
		if err != nil {
			return Position{}, err
		}
		e.read, e.crc, e.end, e.earlier = r, crc, nil, facts[:i+1]
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

// begin counts from what is read already.
func (e *LogEnds) begin(facts []logFileFacts) {
	e.all, e.bytes = 0, 0
	for i, f := range facts {
		if e.all += f.size; i < len(e.earlier) {
			e.bytes += f.size
		}
	}
	e.looked = e.bytes
}

// recordFrame is what a record takes beside its data, in bytes and about.
const recordFrame = 24

func (e *LogEnds) visit(ctx context.Context, r *logReader) func(*walpb.Record) error {
	return func(rec *walpb.Record) error {
		e.bytes = min(e.bytes+int64(len(rec.Data))+recordFrame, e.all)
		if e.visited++; e.visited%lookEvery == 0 || e.bytes-e.looked >= lookEveryBytes {
			e.looked = e.bytes
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if e.tell != nil {
				e.tell(cluster.LogReading{Bytes: e.bytes, Of: e.all})
			}
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
