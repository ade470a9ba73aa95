package backup

import (
	"fmt"
	"slices"
)

// Files of a backup beside the snapshot.
const (
	FileMeta     = "_etcd_backup.meta"
	FileManifest = "_etcdadm_backup.json"
)

// Compression is how a snapshot is compressed in the store.
type Compression string

// The compressions. Gzip is what every reader of the format knows.
const (
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
	None Compression = "none"
)

// ParseCompression reads a compression; the empty string is Gzip.
func ParseCompression(s string) (Compression, error) {
	switch c := Compression(s); c {
	case "":
		return Gzip, nil
	case Gzip, Zstd, None:
		return c, nil
	}
	return "", fmt.Errorf("parse compression %q: want gzip, zstd or none", clip(s))
}

// Encoding says how the bytes of a snapshot lie in the store. Each encoding has a
// file name of its own, so that a reader which knows only etcd.backup.gz finds
// nothing where it could only misread.
type Encoding struct {
	Compression Compression `json:"compression"`
	Encrypted   bool        `json:"encrypted,omitempty"` // by age, after compression
}

// files names the snapshot's file, by encoding. The order is that in which a
// reader prefers them; a folder with more than one was not written by us.
var files = []struct {
	name     string
	encoding Encoding
}{
	{"etcd.backup.gz", Encoding{Gzip, false}},
	{"etcd.backup.zst", Encoding{Zstd, false}},
	{"etcd.backup.db", Encoding{None, false}},
	{"etcd.backup.gz.age", Encoding{Gzip, true}},
	{"etcd.backup.zst.age", Encoding{Zstd, true}},
	{"etcd.backup.db.age", Encoding{None, true}},
}

// File is the name of the snapshot's file; empty for an encoding that there is
// not.
func (e Encoding) File() string {
	for _, f := range files {
		if f.encoding == e {
			return f.name
		}
	}
	return ""
}

// EncodingOf tells the encoding from a file name, and whether it is one of a
// snapshot.
func EncodingOf(file string) (Encoding, bool) {
	for _, f := range files {
		if f.name == file {
			return f.encoding, true
		}
	}
	return Encoding{}, false
}

// PreferredFile picks the snapshot's file from the names in a backup's folder.
func PreferredFile(names []string) (string, bool) {
	for _, f := range files {
		if slices.Contains(names, f.name) {
			return f.name, true
		}
	}
	return "", false
}
