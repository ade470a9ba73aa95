package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"etcdadm.io/cluster"
)

// Position is a place in raft's log. Of two members of one cluster the one with
// the higher last position has every entry that was committed on the other
// (SAFETY.md, rule 15): the term counts first.
type Position struct {
	Term  uint64 `json:"term"`
	Index uint64 `json:"index"`
}

// Compare orders positions.
func (p Position) Compare(o Position) int {
	return slices.Compare([]uint64{p.Term, p.Index}, []uint64{o.Term, o.Index})
}

// raftLog is what a write-ahead log says. etcd's format of it has not changed from 3.0 to
// 3.7.
type raftLog struct {
	member  cluster.MemberID
	cluster cluster.ClusterID
	last    Position
	state   *raftpb.HardState // the last recorded
	torn    int64             // bytes at the end that are no whole record
	first   uint64            // the index of the first entry that is in it
	start   position          // the newest raft snapshot that the log records as valid
	fresh   int               // records before this one hold no entry of the present log
	changes []change          // of the configuration, above the index that was asked for
}

// position is a snapshot record of the log.
type position struct {
	Position
	record *walpb.Snapshot
}

// change is a change of raft's configuration in the log.
type change struct {
	index uint64
	conf  *raftpb.ConfChange
}

// logReader reads records and keeps the shape of the log: which terms its
// entries have, in runs, so that memory does not grow with it.
type logReader struct {
	raftLog
	metadata []byte
	runs     []run
	before   *logReader // as it was before a snapshot that may turn out not to count
	sent     uint64     // the index of that snapshot
	floor    uint64     // the entries up to here are in files that are no longer there
	above    uint64
	count    int
	snaps    []position
}

// run is a row of entries of one term; first is the index of its first.
type run struct{ first, term uint64 }

// readLog reads the log in a directory without changing anything. A torn last
// record is taken for the end, as etcd does. Changes of the configuration are
// told above an index.
func readLog(dir string, above uint64) (*raftLog, error) {
	names, first, err := logFiles(dir)
	if err != nil {
		return nil, fmt.Errorf("read the log in %s: %w", dir, err)
	}
	r := newLogReader(first, above)
	torn, err := eachRecord(dir, names, r.record)
	if err != nil {
		return nil, fmt.Errorf("read the log in %s: %w", dir, err)
	}
	log, err := r.end(torn)
	if err != nil {
		return nil, fmt.Errorf("read the log in %s: %w", dir, err)
	}
	return log, nil
}

// newLogReader reads a log whose first file begins with an index.
func newLogReader(first, above uint64) *logReader {
	return &logReader{above: above, floor: max(first, 1) - 1, raftLog: raftLog{state: &raftpb.HardState{}}}
}

// clone can be read on, and leaves what it was made of as it is.
func (r *logReader) clone() *logReader {
	c := *r
	c.runs, c.snaps, c.changes = slices.Clone(r.runs), slices.Clone(r.snaps), slices.Clone(r.changes)
	return &c
}

// end judges what all the records said.
func (r *logReader) end(torn int64) (*raftLog, error) {
	if r.metadata == nil {
		return nil, fmt.Errorf("%w: it names no member", ErrDamaged)
	}
	if r.before != nil && r.state.GetCommit() < r.sent {
		// The snapshot was announced, and never taken over: etcd passes it over.
		// Source: wal.ValidSnapshotEntries.
		state := r.state
		*r = *r.before
		r.state = state
	}
	r.torn = torn
	for _, s := range r.snaps {
		if s.Index <= r.state.GetCommit() {
			r.start = s
		}
	}
	if r.last.Index < r.start.Index {
		r.last = r.start.Position
	}
	r.first = r.start.Index + 1
	switch {
	case r.sent > 0: // what was before that snapshot is not of this log
		r.first = r.sent + 1
	case len(r.runs) > 0:
		r.first = r.runs[0].first
	}
	var owner etcdserverpb.Metadata
	if err := proto.Unmarshal(r.metadata, &owner); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	r.member, r.cluster = cluster.MemberID(owner.GetNodeID()), cluster.ClusterID(owner.GetClusterID())
	return &r.raftLog, nil
}

// eachRecord calls visit for every record; torn is how much stands behind the
// last whole one. etcd cuts that off at its next start, and does the same after
// damage in the length of an earlier record of the last file.
func eachRecord(dir string, names []string, visit func(*walpb.Record) error) (torn int64, err error) {
	torn, _, err = eachRecordFrom(dir, names, 0, true, visit)
	return torn, err
}

// eachRecordFrom begins after files whose records have a checksum, and gives the
// one after these. Only the last file of a log may end within a record.
func eachRecordFrom(dir string, names []string, before uint32, last bool, visit func(*walpb.Record) error) (torn int64, crc uint32, err error) {
	files := make([]*logFile, len(names))
	readers := make([]fileutil.FileReader, len(names))
	for i, name := range names {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return 0, 0, err
		}
		defer f.Close()
		files[i] = &logFile{File: f}
		readers[i] = files[i]
	}
	decoder := wal.NewDecoder(readers...)
	decoder.UpdateCRC(before)
	for rec := new(walpb.Record); ; {
		err := decoder.Decode(rec)
		switch newest := files[len(files)-1]; {
		case errors.Is(err, io.ErrUnexpectedEOF) && newest.read && last:
			torn, err = newest.used(decoder.LastOffset())
			return torn, decoder.LastCRC(), err
		case errors.Is(err, io.EOF):
			return 0, decoder.LastCRC(), nil
		case err != nil:
			return 0, 0, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if rec.GetType() == wal.CrcType {
			if crc := decoder.LastCRC(); crc != 0 && rec.Validate(crc) != nil {
				return 0, 0, fmt.Errorf("%w: its files do not follow one another", ErrDamaged)
			}
			decoder.UpdateCRC(rec.GetCrc())
			continue
		}
		if err := visit(rec); err != nil {
			return 0, 0, err
		}
	}
}

// logFile knows whether the decoder has come to it.
type logFile struct {
	*os.File
	read bool
}

func (f *logFile) FileInfo() (fs.FileInfo, error) { return f.Stat() }

func (f *logFile) Read(p []byte) (int, error) {
	f.read = true
	return f.File.Read(p)
}

// used is how many bytes there are from an offset to the last that is not zero:
// etcd makes its files longer in advance.
func (f *logFile) used(offset int64) (n int64, err error) {
	buffer := make([]byte, 1<<16)
	for at := offset; ; {
		got, err := f.ReadAt(buffer, at)
		if whole := bytes.TrimRight(buffer[:got], "\x00"); len(whole) > 0 {
			n = at + int64(len(whole)) - offset
		}
		at += int64(got)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// logFiles lists the files of a log in their order, which has no gap; first is
// the index that the first one begins with.
func logFiles(dir string) (names []string, first uint64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, err
	}
	var last uint64
	for _, e := range entries { // sorted by name, and the name begins with the number
		var number, index uint64
		if !strings.HasSuffix(e.Name(), ".wal") {
			continue
		}
		if _, err := fmt.Sscanf(e.Name(), "%016x-%016x.wal", &number, &index); err != nil {
			continue
		}
		if len(names) > 0 && number != last+1 {
			return nil, 0, fmt.Errorf("%w: a file between %s and %s is missing", ErrDamaged, names[len(names)-1], e.Name())
		}
		if len(names) == 0 {
			first = index
		}
		names, last = append(names, e.Name()), number
	}
	if len(names) == 0 {
		return nil, 0, fmt.Errorf("%w: there is no log", ErrDamaged)
	}
	return names, first, nil
}

func (r *logReader) record(rec *walpb.Record) error {
	r.count++
	var err error
	switch rec.GetType() {
	case wal.MetadataType:
		if r.metadata != nil && !bytes.Equal(r.metadata, rec.Data) {
			return fmt.Errorf("%w: it names two members", ErrDamaged)
		}
		r.metadata = slices.Clone(rec.Data)
	case wal.EntryType:
		var e raftpb.Entry
		if err = proto.Unmarshal(rec.Data, &e); err == nil {
			err = r.entry(&e)
		}
	case wal.StateType:
		r.state = &raftpb.HardState{}
		if err = proto.Unmarshal(rec.Data, r.state); r.state.GetCommit() >= r.sent {
			r.before = nil
		}
	case wal.SnapshotType:
		s := &walpb.Snapshot{}
		if err = proto.Unmarshal(rec.Data, s); err == nil {
			r.snapshot(s)
		}
	}
	if err != nil && !errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// entry appends an entry, which replaces what the log had from its index on.
func (r *logReader) entry(e *raftpb.Entry) error {
	at := Position{Term: e.GetTerm(), Index: e.GetIndex()}
	if len(r.runs) > 0 && at.Index > r.last.Index+1 {
		return fmt.Errorf("%w: entry %d follows entry %d", ErrDamaged, at.Index, r.last.Index)
	}
	r.cut(at.Index)
	if n := len(r.runs); n == 0 || r.runs[n-1].term != at.Term {
		r.runs = append(r.runs, run{first: at.Index, term: at.Term})
	}
	r.last = at
	if e.GetType() == raftpb.EntryConfChange && at.Index > r.above {
		conf := &raftpb.ConfChange{}
		if err := proto.Unmarshal(e.GetData(), conf); err != nil {
			return err
		}
		r.changes = append(r.changes, change{index: at.Index, conf: conf})
	}
	return nil
}

// cut forgets the entries from an index on.
func (r *logReader) cut(index uint64) {
	n := sort.Search(len(r.runs), func(i int) bool { return r.runs[i].first >= index })
	r.runs = r.runs[:n]
	r.changes = slices.DeleteFunc(r.changes, func(c change) bool { return c.index >= index })
}

// snapshot notes a snapshot record. One that a member made of its own state
// lies in its log and changes nothing. One that it was sent replaces its log,
// which raft does exactly if the log has another term there, or does not reach
// that far. Entries written before such a record are no longer part of the log,
// even those with a higher index, although etcd's reader still shows those.
// Source: raft.restore and MemoryStorage.ApplySnapshot.
func (r *logReader) snapshot(s *walpb.Snapshot) {
	at := Position{Term: s.GetTerm(), Index: s.GetIndex()}
	r.snaps = append(r.snaps, position{at, s})
	term, known := r.termOf(at.Index)
	local := at.Index <= max(r.last.Index, r.floor) && (!known || term == at.Term)
	if local {
		return
	}
	was := *r
	was.runs, was.changes, was.before = slices.Clone(r.runs), slices.Clone(r.changes), nil
	if r.before == nil {
		r.before = &was
	}
	r.last, r.fresh, r.sent = at, r.count, at.Index
	r.runs, r.changes = []run{{first: at.Index, term: at.Term}}, nil
}

// termOf is the term of an entry; not known when the log begins after it.
func (r *logReader) termOf(index uint64) (term uint64, known bool) {
	n := sort.Search(len(r.runs), func(i int) bool { return r.runs[i].first > index })
	if n == 0 {
		return 0, false
	}
	return r.runs[n-1].term, true
}
