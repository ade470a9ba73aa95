package snapshot

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// raftFile is how etcd names the file of a raft snapshot.
func raftFile(p Position) string { return fmt.Sprintf("%016x-%016x.snap", p.Term, p.Index) }

// Fields of the two messages in such a file, each with its wire type: a checksum and
// what it is of, in which there are the store and what raft needs to know. Source:
// snap/snappb/snap.proto and raft/raftpb/raft.proto of 2.3.8.
const (
	fieldCrc    = 1 << 3
	fieldRaft   = 2<<3 | 2
	fieldStore  = 1<<3 | 2
	fieldOfRaft = 2<<3 | 2

	mostOfRaft = 1 << 20 // bytes; it is as long as the list of members
)

// verifyRaft reads the file of a raft snapshot to its end: it is whole, agrees with its
// checksum, and is of the entry of its name. Errors wrap [ErrDamaged], or are the disk's.
func verifyRaft(file string, want Position) error {
	at, err := readRaft(file, nil)
	if err == nil && at != want {
		err = fmt.Errorf("%w: %s is of entry %d", ErrDamaged, filepath.Base(file), at.Index)
	}
	return err
}

// readRaft reads the file of a raft snapshot, and gives what is in it to store, if
// that is there: with etcd 2 it is all keys, so it is never held as a whole. What store
// saw counts only if there is no error.
func readRaft(file string, store func(io.Reader) error) (Position, error) {
	f, err := os.Open(file)
	if err != nil {
		return Position{}, err
	}
	defer f.Close()
	at, err := decodeRaft(bufio.NewReader(f), store)
	if disk := new(fs.PathError); err != nil && !errors.As(err, &disk) {
		err = fmt.Errorf("%w: read %s: %w", ErrDamaged, filepath.Base(file), err)
	}
	return at, err
}

func decodeRaft(r *bufio.Reader, store func(io.Reader) error) (at Position, err error) {
	var want uint64
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	for summed := false; ; {
		field, err := binary.ReadUvarint(r)
		switch {
		case errors.Is(err, io.EOF) && (!summed || want == 0): // etcd takes none for damage, too
			return at, io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF) && uint64(sum.Sum32()) != want:
			return at, errors.New("it does not agree with its checksum")
		case errors.Is(err, io.EOF):
			return at, nil
		case err != nil:
			return at, err
		case field == fieldCrc:
			want, err = binary.ReadUvarint(r)
		case field == fieldRaft && !summed:
			summed = true
			err = part(r, func(raft io.Reader) error {
				at, err = decodeEntry(bufio.NewReader(io.TeeReader(raft, sum)), store)
				return err
			})
		default:
			err = fmt.Errorf("what is %#x", field)
		}
		if err != nil {
			return at, unexpected(err)
		}
	}
}

func decodeEntry(r *bufio.Reader, store func(io.Reader) error) (at Position, err error) {
	for {
		field, err := binary.ReadUvarint(r)
		switch {
		case errors.Is(err, io.EOF):
			return at, nil
		case err != nil:
			return at, err
		case field == fieldStore:
			err = part(r, store)
		case field == fieldOfRaft:
			err = part(r, func(r io.Reader) error {
				var m raftpb.SnapshotMetadata
				b, err := io.ReadAll(io.LimitReader(r, mostOfRaft))
				if err == nil {
					err = proto.Unmarshal(b, &m)
				}
				at = Position{Term: m.GetTerm(), Index: m.GetIndex()}
				return err
			})
		default:
			err = fmt.Errorf("what is %#x", field)
		}
		if err != nil {
			return at, unexpected(err)
		}
	}
}

// part reads a length, and has what is so long read; what is left of it is passed over.
func part(r *bufio.Reader, read func(io.Reader) error) error {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return err
	}
	if n > 1<<62 {
		return io.ErrUnexpectedEOF
	}
	left := &io.LimitedReader{R: r, N: int64(n)}
	if read != nil {
		if err := read(left); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, left); err != nil {
		return err
	}
	if left.N > 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// unexpected: it ends where something was to follow.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
