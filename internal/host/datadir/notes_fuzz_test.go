package datadir_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/host/datadir"
	"google.golang.org/protobuf/encoding/protowire"
)

// FuzzNotes: whatever lies in the marks and notes of a data directory, what was set
// aside is listed where it is, and no data is this host's that another mark lies in.
func FuzzNotes(f *testing.F) {
	f.Add([]byte(`{"disk":"d","token":"t"}`), []byte(`{"reason":"superseded","at":"2026-11-20T23:08:18Z","bytes":12,"version":"3.6.16","dir":"/etc","token":"t"}`))
	f.Add([]byte(`{"disk":"d","token":"t"`), []byte(`{"reason":`))
	f.Add([]byte("null"), []byte("null"))
	f.Add([]byte{}, []byte(`{"dir":7,"member":"zz"}`))
	dir := f.TempDir()
	d, err := noonDisk(durable.OS(), dir)
	if err != nil {
		f.Fatal(err)
	}
	old := filepath.Join(dir, "data-trashcan", "t-20261120T230818Z-superseded")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "data", "t", "member"), 0o700), os.MkdirAll(old, 0o700)); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, mark, note []byte) {
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "data", "t", "member", "etcdadm-disk.json"), mark, 0o600), os.WriteFile(old+".json", note, 0o600)); err != nil {
			t.Fatal(err)
		}
		marked, wal, err := d.Data("t", "d")
		if err != nil || wal {
			t.Fatal(wal, err)
		}
		if other, _, _ := d.Data("t", "e"); marked && other {
			t.Fatalf("%s is the mark of two disks", mark)
		}
		aside, foreign, err := d.Inventory("t")
		if err != nil || len(aside) != 1 || len(foreign) != 0 || aside[0].Dir != old {
			t.Fatalf("%s: %+v, %+v, %v", note, aside, foreign, err)
		}
	})
}

// FuzzLogHead: whatever a log begins with, it is said whose it is, or that nobody can
// tell; an owner has an ID.
func FuzzLogHead(f *testing.F) {
	record := func(kind uint64, data []byte) []byte {
		b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), kind)
		b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), 0)
		if data != nil {
			b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), data)
		}
		length := uint64(len(b))
		if pad := -len(b) & 7; pad > 0 {
			length |= uint64(0x80|pad) << 56
			b = append(b, make([]byte, pad)...)
		}
		return append(binary.LittleEndian.AppendUint64(nil, length), b...)
	}
	whole := append(record(4, nil), record(1, []byte("\x08\x07\x10\x09"))...)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(append(record(4, nil), record(1, []byte("\x10\x09"))...))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Add([]byte{})
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, "0000000000000000-0000000000000000.wal"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, m, err := datadir.LogOwner(dir)
		if (err == nil) != (m != 0) || err != nil && c != 0 {
			t.Fatalf("%x is the log of member %s of cluster %s: %v", data, m, c, err)
		}
	})
}
