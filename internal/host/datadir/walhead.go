package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"etcdadm.io/cluster"
	"google.golang.org/protobuf/encoding/protowire"
)

// Record types of a write-ahead log, and the bound of what is read of its
// head. Source: server/storage/wal of 3.5 to 3.7, server/wal of 3.4: a log file
// begins with a checksum record and the metadata record, each in a frame of
// eight bytes of length, and the directory appears under its name only once
// they are on the disk.
const (
	walMetadata  = 1
	walHeadBytes = 4096
)

// errNoHead says that a file does not begin as a write-ahead log.
var errNoHead = errors.New("the log has no head that could be read")

// Owner is as Disk says.
func (d *Dir) Owner(token string) (cluster.ClusterID, cluster.MemberID, error) {
	if err := plainName(token); err != nil {
		return 0, 0, fmt.Errorf("look at log: token %w", err)
	}
	return LogOwner(filepath.Join(d.root, memberDir(token), "wal"))
}

// LogOwner tells whose write-ahead log lies in a directory, by its newest file:
// every file of a log repeats the head.
func LogOwner(dir string) (cluster.ClusterID, cluster.MemberID, error) {
	logs, err := names(dir)
	if err != nil {
		return 0, 0, fmt.Errorf("look at log: %w", err)
	}
	logs = slices.DeleteFunc(logs, func(n string) bool { return filepath.Ext(n) != ".wal" })
	if len(logs) == 0 {
		return 0, 0, fmt.Errorf("look at log: %w: %s holds none", errNoHead, dir)
	}
	newest := slices.Max(logs) // the oldest may be purged at any moment
	head, err := readHead(filepath.Join(dir, newest))
	if err != nil {
		return 0, 0, fmt.Errorf("look at log: %w", err)
	}
	c, m, err := walOwner(head)
	if err != nil {
		return 0, 0, fmt.Errorf("look at log %s: %w", newest, err)
	}
	return c, m, nil
}

func readHead(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, walHeadBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return head[:n], nil
}

// walOwner finds the IDs in the head of a log file.
func walOwner(head []byte) (cluster.ClusterID, cluster.MemberID, error) {
	const frame, maxRecord = 8, walHeadBytes
	for len(head) >= frame {
		length := binary.LittleEndian.Uint64(head)
		size := length & (1<<56 - 1)
		padding := uint64(0)
		if length>>63 != 0 { // the length is negative where there is padding
			padding = length >> 56 & 0x7
		}
		head = head[frame:]
		if size == 0 || size > maxRecord || size+padding > uint64(len(head)) {
			break
		}
		kind, err := varintField(head[:size], 1)
		if err != nil {
			return 0, 0, err
		}
		if kind == walMetadata {
			return metadataIDs(head[:size])
		}
		head = head[size+padding:]
	}
	return 0, 0, errNoHead
}

// metadataIDs reads etcd's Metadata out of the data of a record.
func metadataIDs(record []byte) (cluster.ClusterID, cluster.MemberID, error) {
	data, err := bytesField(record, 3)
	if err != nil {
		return 0, 0, err
	}
	node, err := varintField(data, 1)
	if err != nil {
		return 0, 0, err
	}
	id, err := varintField(data, 2)
	if err != nil {
		return 0, 0, err
	}
	if node == 0 {
		return 0, 0, errNoHead
	}
	return cluster.ClusterID(id), cluster.MemberID(node), nil
}

// varintField is the last value of a field; 0: it is not there.
func varintField(message []byte, want protowire.Number) (value uint64, err error) {
	err = fields(message, func(n protowire.Number, t protowire.Type, v []byte) {
		if n == want && t == protowire.VarintType {
			value, _ = protowire.ConsumeVarint(v)
		}
	})
	return value, err
}

func bytesField(message []byte, want protowire.Number) (value []byte, err error) {
	err = fields(message, func(n protowire.Number, t protowire.Type, v []byte) {
		if n == want && t == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(v)
		}
	})
	return value, err
}

func fields(message []byte, see func(protowire.Number, protowire.Type, []byte)) error {
	for len(message) > 0 {
		n, t, used := protowire.ConsumeTag(message)
		if used < 0 {
			return fmt.Errorf("%w: %w", errNoHead, protowire.ParseError(used))
		}
		message = message[used:]
		size := protowire.ConsumeFieldValue(n, t, message)
		if size < 0 {
			return fmt.Errorf("%w: %w", errNoHead, protowire.ParseError(size))
		}
		see(n, t, message[:size])
		message = message[size:]
	}
	return nil
}
