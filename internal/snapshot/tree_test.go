package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"etcdadm.io/internal/release"
	"etcdadm.io/internal/testetcd"
)

// smallDatabase is one as etcd writes it, with a few levels of pages, whose values
// have one length but for a long one, which overflows.
func smallDatabase(t testing.TB, records int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, PageSize: 1024, NoSync: true})
	must(t, err)
	must(t, db.Update(func(tx *bbolt.Tx) error {
		var err error
		put := func(bucket string, k, v []byte) {
			b, e := tx.CreateBucketIfNotExists([]byte(bucket))
			if e == nil {
				e = b.Put(k, v)
			}
			err = errors.Join(err, e)
		}
		for i := range records {
			key := binary.BigEndian.AppendUint64(nil, uint64(i+2))
			key = append(append(key, '_'), make([]byte, 8)...)
			v := protowire.AppendTag(nil, 1, protowire.BytesType)
			v = protowire.AppendBytes(v, fmt.Appendf(nil, "key-%04d", i))
			v = protowire.AppendTag(v, 3, protowire.VarintType)
			v = protowire.AppendVarint(v, uint64(i+2))
			v = protowire.AppendTag(v, 5, protowire.BytesType)
			n := 40
			if i == records/2 {
				n = 3000
			}
			put(bucketKey, key, protowire.AppendBytes(v, make([]byte, n)))
			put(bucketLease, key[:8], []byte("a lease, and as long as one is in these days of ours"))
		}
		put(bucketMeta, []byte(metaConsistentIndex), make([]byte, 8))
		put(bucketMeta, []byte(metaStorageVersion), []byte("3.6.0"))
		put(bucketMembers, []byte("8e9e05c52164694d"), []byte(`{"id":10276657743932975437,"name":"a"}`))
		return err
	}))
	must(t, db.Close())
	data, err := os.ReadFile(path)
	must(t, err)
	return data
}

// sealedFile is a file with a hash that fits, whatever the database is.
func sealedFile(t testing.TB, database []byte) string {
	t.Helper()
	sum := sha256.Sum256(database)
	path := filepath.Join(t.TempDir(), "snapshot")
	must(t, os.WriteFile(path, append(database[:len(database):len(database)], sum[:]...), 0o600))
	return path
}

// readEverything is each way in which a database is read here, and each way in which
// one is opened for writing.
func readEverything(t testing.TB, database []byte) map[string]error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	path := sealedFile(t, database)
	out := map[string]error{}
	_, out["verify"] = Verify(ctx, path)
	out["dump"] = Dump(ctx, path, func(KeyValue) error { return nil })
	_, out["header"] = peek(ctx, path)
	Wrote(path)
	_, out["removals"] = falselyRemoved(ctx, path)
	out["excerpt"] = makeExcerpt(ctx, path, path+".excerpt")
	for name, change := range map[string]func(string) error{
		"change": func(p string) error { return changeDatabase(ctx, p, func(*bbolt.Tx) error { return nil }) },
		"mend":   func(p string) error { return unremove(ctx, p, ids(1)) },
		"unmark": func(p string) error { return unmark(ctx, p) },
		"raise":  func(p string) error { return raise(ctx, p, 1<<40) },
	} {
		written := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(written, database, 0o600))
		out[name] = change(written)
	}
	return out
}

// pagesOf are the pages of a kind, by number.
func pagesOf(database []byte, kind uint16) (found []uint64) {
	for at := 2 * 1024; at < len(database); at += 1024 {
		page := database[at:]
		number := binary.NativeEndian.Uint64(page)
		if number == uint64(at/1024) && binary.NativeEndian.Uint16(page[pageFlagsAt:]) == kind && binary.NativeEndian.Uint16(page[pageCountAt:]) > 0 {
			found = append(found, number)
		}
	}
	return found
}

// TestPagesThatLeadBack: where pages lead to themselves, to one above or twice to the
// same, the way ends with an error, and not the process.
func TestPagesThatLeadBack(t *testing.T) {
	whole := smallDatabase(t, 400)
	for name, err := range readEverything(t, whole) {
		if err != nil {
			t.Fatalf("a database that is whole: %s: %v", name, err)
		}
	}
	branches := pagesOf(whole, pageBranch)
	if len(branches) < 4 {
		t.Fatalf("only %d pages lead to others", len(branches))
	}
	for _, page := range append(branches[:2:2], branches[len(branches)-1]) {
		count := int(binary.NativeEndian.Uint16(whole[page*1024+pageCountAt:]))
		for _, at := range []int{0, count - 1} {
			for _, to := range []uint64{page, branches[0], branches[len(branches)-1], 0, ^uint64(0)} {
				data := append([]byte(nil), whole...)
				child := data[int(page)*1024+pageHead+at*elementAt+8:]
				if binary.NativeEndian.Uint64(child) == to {
					continue
				}
				binary.NativeEndian.PutUint64(child, to)
				found := readEverything(t, data)
				for name, err := range found {
					all := slices.Contains([]string{"verify", "dump", "change", "mend"}, name) // the others read less
					if (err != nil || all) && !errors.Is(err, ErrDamaged) {
						t.Fatalf("page %d leads to %d: %s: %v", page, to, name, err)
					}
				}
			}
		}
	}
}

// TestOverflow: a page has as much memory as what it holds, and not as it says.
func TestOverflow(t *testing.T) { // alone, since it measures memory
	whole := smallDatabase(t, 400)
	const pages = 1 << 21
	for _, kind := range []uint16{pageBranch, pageLeaf} {
		for _, page := range pagesOf(whole, kind) {
			data := append([]byte(nil), whole...)
			over := data[page*1024+pageOverAt:]
			binary.NativeEndian.PutUint32(over, binary.NativeEndian.Uint32(over)^1<<20)
			for _, meta := range metasOf(data) {
				binary.NativeEndian.PutUint64(meta[metaNextAt:], pages)
				binary.NativeEndian.PutUint64(meta[metaSumAt:], metaSum(meta))
			}
			path := filepath.Join(t.TempDir(), "db")
			must(t, os.WriteFile(path, data, 0o600))
			must(t, os.Truncate(path, pages*1024)) // all but the beginning takes no room
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for name, err := range map[string]error{
				"change": checkFile(within(t), path),
				"dump":   Dump(within(t), path, func(KeyValue) error { return nil }),
			} {
				if !errors.Is(err, ErrDamaged) {
					t.Fatalf("page %d: %s: %v", page, name, err)
				}
			}
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
				t.Fatalf("page %d: it took %d MiB", page, took>>20)
			}
			must(t, os.Remove(path))
		}
	}
}

// metasOf are the two places of the facts about a database.
func metasOf(database []byte) [][]byte {
	return [][]byte{database[pageHead : pageHead+metaSize], database[1024+pageHead : 1024+pageHead+metaSize]}
}

// TestPagesOfOldAndNew: bbolt up to 1.3.0 takes one more page where what a page holds
// ends with it.
func TestPagesOfOldAndNew(t *testing.T) {
	t.Parallel()
	leaf := func(content int, more uint32) error {
		file := make([]byte, 8*1024)
		page := file[2*1024:]
		binary.NativeEndian.PutUint64(page, 2)
		binary.NativeEndian.PutUint16(page[pageFlagsAt:], pageLeaf)
		binary.NativeEndian.PutUint16(page[pageCountAt:], 1)
		binary.NativeEndian.PutUint32(page[pageOverAt:], more)
		binary.NativeEndian.PutUint32(page[elementAt+4:], elementAt)
		binary.NativeEndian.PutUint32(page[elementAt+8:], 1)
		binary.NativeEndian.PutUint32(page[elementAt+12:], uint32(content-2*elementAt-1))
		_, err := newPageTree(t.Context(), bytes.NewReader(file), 1024, 8).read(2)
		return err
	}
	for content, fits := range map[int][]uint32{100: {0}, 1023: {0}, 1024: {0, 1}, 1025: {1}, 3071: {2}, 3072: {2, 3}, 3073: {3}} {
		for more := range uint32(6) {
			if err := leaf(content, more); slices.Contains(fits, more) != (err == nil) || err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("%d bytes with %d more pages: %v", content, more, err)
			}
		}
	}
}

// TestPagesOfEveryRelease: what is honest is not refused, whichever bbolt wrote it: with
// values that take several pages, free pages, and the list of them where it is written.
func TestPagesOfEveryRelease(t *testing.T) {
	for _, version := range append(testetcd.Versions(), testetcd.V34, testetcd.V33, testetcd.V32) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := testetcd.Start(t, testetcd.Config{Version: version})
			client := c.Client(t)
			var last int64
			for i := range 400 {
				last = put(t, client, fmt.Sprintf("k/%d", i%150), strings.Repeat("v", i*53%20_000))
			}
			_, err := client.Delete(within(t), "k/1", clientv3.WithPrefix())
			must(t, err)
			_, err = client.Compact(within(t), last, clientv3.WithCompactPhysical())
			must(t, err)
			put(t, client, "after", "v")
			file := filepath.Join(t.TempDir(), "snapshot")
			save(t, client, file)
			must(t, checkFile(within(t), file))
			must(t, c.Kill(within(t), 0, syscall.SIGKILL))
			must(t, checkFile(within(t), databaseOf(c.Members[0].DataDir)))
		})
	}
}

// TestManyElements: heads of elements that alone take more than a page are read whole
// before they are believed. bbolt splits such a page when it writes, but reads it.
func TestManyElements(t *testing.T) {
	t.Parallel()
	const count = 200
	file := make([]byte, 16*1024)
	page := file[2*1024:]
	binary.NativeEndian.PutUint64(page, 2)
	binary.NativeEndian.PutUint16(page[pageFlagsAt:], pageLeaf)
	binary.NativeEndian.PutUint16(page[pageCountAt:], count)
	binary.NativeEndian.PutUint32(page[pageOverAt:], 3) // (count+1)*16 + count*2 = 3616
	for i := range count {
		head := elementAt * (i + 1)
		at := elementAt*(count+1) + 2*i
		binary.NativeEndian.PutUint32(page[head+4:], uint32(at-head))
		binary.NativeEndian.PutUint32(page[head+8:], 2)
		binary.BigEndian.PutUint16(page[at:], uint16(i))
	}
	visited := 0
	visit := func([]byte, []byte, uint32) error { visited++; return nil }
	each := func() error {
		return newPageTree(t.Context(), bytes.NewReader(file), 1024, 16).each(2, 0, false, nil, nil, visit)
	}
	if err := each(); err != nil || visited != count {
		t.Errorf("visited %d: %v", visited, err)
	}
	for _, more := range []uint32{0, 2, 4} {
		if binary.NativeEndian.PutUint32(page[pageOverAt:], more); !errors.Is(each(), ErrDamaged) {
			t.Errorf("with %d more pages it is read", more)
		}
	}
}

// listedDatabase is one with its list of free pages in it.
func listedDatabase(t *testing.T, scratch int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	must(t, os.WriteFile(path, smallDatabase(t, 400), 0o600))
	name := []byte("scratch")
	for _, change := range []func(*bbolt.Tx) error{
		func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket(name)
			return errors.Join(err, b.Put(name, make([]byte, scratch)))
		},
		func(tx *bbolt.Tx) error { return tx.DeleteBucket(name) },
	} {
		must(t, changeDatabase(within(t), path, change))
	}
	must(t, changeDatabase(within(t), path, func(*bbolt.Tx) error { return nil }))
	data, err := os.ReadFile(path)
	must(t, err)
	return data
}

// TestListOfFreePages: a page that is in use and listed as free would be written over.
func TestListOfFreePages(t *testing.T) {
	t.Parallel()
	whole := listedDatabase(t, 20<<10)
	for name, err := range readEverything(t, whole) {
		if err != nil {
			t.Errorf("a database that is whole: %s: %v", name, err)
		}
	}
	newest := func(data []byte) []byte {
		metas := metasOf(data)
		if binary.NativeEndian.Uint64(metas[0][metaTxAt:]) > binary.NativeEndian.Uint64(metas[1][metaTxAt:]) {
			return metas[0]
		}
		return metas[1]
	}
	at := func(data []byte) uint64 { return binary.NativeEndian.Uint64(newest(data)[metaListAt:]) }
	pages := binary.NativeEndian.Uint64(newest(whole)[metaNextAt:])
	leaf := pagesOf(whole, pageLeaf)
	listed := func(data []byte, to uint64) {
		binary.NativeEndian.PutUint64(data[at(data)*1024+pageHead+listedSize:], to)
	}
	elsewhere := func(data []byte, to uint64) {
		binary.NativeEndian.PutUint64(newest(data)[metaListAt:], to)
		binary.NativeEndian.PutUint64(newest(data)[metaSumAt:], metaSum(newest(data)))
	}
	inUse := func() uint64 { // of the leaves that there ever were
		free := map[uint64]bool{}
		list := whole[at(whole)*1024:]
		for i := range int(binary.NativeEndian.Uint16(list[pageCountAt:])) {
			free[binary.NativeEndian.Uint64(list[pageHead+i*listedSize:])] = true
		}
		return leaf[slices.IndexFunc(leaf, func(page uint64) bool { return !free[page] })]
	}()
	for name, damage := range map[string]func(data []byte){
		"in use":     func(data []byte) { listed(data, inUse) },
		"the list":   func(data []byte) { listed(data, at(data)) },
		"the facts":  func(data []byte) { listed(data, 1) },
		"none":       func(data []byte) { listed(data, pages) },
		"far off":    func(data []byte) { listed(data, 1<<60) },
		"twice":      func(data []byte) { listed(data, binary.NativeEndian.Uint64(data[at(data)*1024+pageHead:])) },
		"too many":   func(data []byte) { binary.NativeEndian.PutUint16(data[at(data)*1024+pageCountAt:], 0xfffe) },
		"very many":  func(data []byte) { binary.NativeEndian.PutUint16(data[at(data)*1024+pageCountAt:], 0xffff) },
		"overflow":   func(data []byte) { binary.NativeEndian.PutUint32(data[at(data)*1024+pageOverAt:], uint32(pages)) },
		"no list":    func(data []byte) { binary.NativeEndian.PutUint16(data[at(data)*1024+pageFlagsAt:], pageLeaf) },
		"a leaf":     func(data []byte) { elsewhere(data, inUse) },
		"beyond":     func(data []byte) { elsewhere(data, pages) },
		"page 0":     func(data []byte) { elsewhere(data, 0) },
		"a high bit": func(data []byte) { elsewhere(data, at(data)|1<<40) },
	} {
		data := append([]byte(nil), whole...)
		damage(data)
		for way, err := range readEverything(t, data) {
			if writes := way == "change" || way == "mend" || way == "raise" || way == "unmark"; errors.Is(err, ErrDamaged) != writes || err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %s: %v", name, way, err)
			}
		}
	}
}

// A tool that works on the whole database writes by the list that it finds in it: it does
// not see one that lies.
func TestToolWithAListOfFreePages(t *testing.T) {
	t.Parallel()
	whole := listedDatabase(t, 20<<10)
	lies := slices.Clone(whole)
	meta := slices.MaxFunc(metasOf(lies), func(a, b []byte) int {
		return cmp.Compare(binary.NativeEndian.Uint64(a[metaTxAt:]), binary.NativeEndian.Uint64(b[metaTxAt:]))
	})
	list := binary.NativeEndian.Uint64(meta[metaListAt:])
	binary.NativeEndian.PutUint64(lies[list*1024+pageHead:], list)
	for name, c := range map[string]struct {
		database []byte
		runs     bool
	}{"whole": {whole, true}, "lies": {lies, false}} {
		dir := t.TempDir()
		ran, tool := filepath.Join(dir, "ran"), filepath.Join(dir, "etcdctl")
		must(t, os.WriteFile(tool, []byte("#!/bin/sh\n>"+ran+"; exit 7\n"), 0o700))
		o := newFounder("http://127.0.0.1:1").options(sealedFile(t, c.database), filepath.Join(dir, "data"),
			release.Release{Version: "3.2.24", Dir: dir, Etcd: "/bin/false", Etcdctl: tool})
		_, err := Restore(within(t), o)
		if _, missing := os.Stat(ran); missing == nil != c.runs || errors.Is(err, ErrDamaged) == c.runs || err == nil {
			t.Errorf("%s: the tool ran: %t, and the restore says %v", name, missing == nil, err)
		}
	}
}

// TestLongListOfFreePages: what a page cannot count is counted in the list.
func TestLongListOfFreePages(t *testing.T) {
	t.Parallel()
	data := listedDatabase(t, 70_000<<10)
	list := data[binary.NativeEndian.Uint64(metasOf(data)[1][metaListAt:])*1024:]
	if binary.NativeEndian.Uint64(metasOf(data)[0][metaTxAt:]) > binary.NativeEndian.Uint64(metasOf(data)[1][metaTxAt:]) {
		list = data[binary.NativeEndian.Uint64(metasOf(data)[0][metaListAt:])*1024:]
	}
	if count := binary.NativeEndian.Uint16(list[pageCountAt:]); count != 0xffff {
		t.Fatalf("only %d are listed", count)
	}
	path := filepath.Join(t.TempDir(), "db")
	must(t, os.WriteFile(path, data, 0o600))
	must(t, checkFile(within(t), path))
	binary.NativeEndian.PutUint64(list[pageHead:], 1<<59)
	must(t, os.WriteFile(path, data, 0o600))
	if err := checkFile(within(t), path); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a count that is beyond all: %v", err)
	}
}

// looks is a context that ends when it was looked at so many times.
type looks struct {
	context.Context
	left int
}

func (l *looks) Err() error {
	if l.left--; l.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestPagesUntilTheEnd: who wants them no longer does not have all pages read.
func TestPagesUntilTheEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	must(t, os.WriteFile(path, smallDatabase(t, 30_000), 0o600))
	for name, read := range map[string]func(context.Context) error{
		"change":  func(ctx context.Context) error { return checkFile(ctx, path) },
		"examine": func(ctx context.Context) error { _, err := examine(ctx, path); return err },
		"dump":    func(ctx context.Context) error { return Dump(ctx, path, func(KeyValue) error { return nil }) },
		"raise":   func(ctx context.Context) error { return raise(ctx, path, 10) },
		"header":  func(ctx context.Context) error { _, err := peek(ctx, path); return err },
	} {
		ended := 0
		for ; ended < 1000; ended++ {
			err := read(&looks{t.Context(), ended})
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) || errors.Is(err, ErrDamaged) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if ended < 3 || ended == 1000 {
			t.Errorf("%s: it was looked at %d times", name, ended)
		}
	}
}

// TestMembersBesideDamagedLeases: what is damaged elsewhere hides nothing that is read.
func TestMembersBesideDamagedLeases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := writeMembership(t, dir, ids(1, 2), ids(2), ids(1, 2), nil)
	must(t, changeDatabase(within(t), path, func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte(bucketKey))
		must(t, err)
		must(t, tx.Bucket([]byte(bucketMeta)).Put([]byte(metaStorageVersion), []byte("3.6.0")))
		b, err := tx.CreateBucket([]byte(bucketLease))
		must(t, err)
		for i := range 1000 {
			must(t, b.Put(fmt.Appendf(nil, "lease-%04d", i), make([]byte, 50)))
		}
		return nil
	}))
	_, err := peek(within(t), path)
	must(t, err)
	data, err := os.ReadFile(path)
	must(t, err)
	pageSize := os.Getpagesize()
	lease := bytes.Index(data, []byte("lease-0500")) / pageSize * pageSize
	binary.NativeEndian.PutUint16(data[lease+pageFlagsAt:], pageFreeList)
	must(t, os.WriteFile(path, data, 0o600))
	if _, err := peek(within(t), path); !errors.Is(err, ErrDamaged) {
		t.Errorf("the leases can be read: %v", err)
	}
	if wrong, err := falselyRemoved(within(t), path); err != nil || !slices.Equal(wrong, ids(2)) {
		t.Errorf("removed falsely: %v, %v", wrong, err)
	}
	if wrong, err := MendRemovals(dir); !errors.Is(err, ErrDamaged) || !slices.Equal(wrong, ids(2)) {
		t.Errorf("mended %v: %v", wrong, err)
	}
	if v := Wrote(path); v.Minor != 6 {
		t.Errorf("%s wrote it", v)
	}
}

// FuzzDatabase: of a database with a few bytes changed, and a hash that fits again,
// everything is read, or refused as damaged.
func FuzzDatabase(f *testing.F) {
	whole := smallDatabase(f, 60)
	branches, leaves := pagesOf(whole, pageBranch), pagesOf(whole, pageLeaf)
	for _, p := range []uint64{branches[0], branches[len(branches)-1], leaves[0], leaves[len(leaves)-1]} {
		f.Add(uint32(p*1024+pageHead+8), uint64(p), uint32(p*1024+pageCountAt), uint64(0xffff))
		f.Add(uint32(p*1024+pageFlagsAt), uint64(1), uint32(p*1024+pageOverAt), uint64(1))
	}
	f.Add(uint32(pageHead+metaRootAt), uint64(3), uint32(0), uint64(0))
	f.Fuzz(func(t *testing.T, at uint32, what uint64, at2 uint32, what2 uint64) {
		data := append([]byte(nil), whole...)
		for _, c := range []struct {
			at   uint32
			what uint64
		}{{at, what}, {at2, what2}} {
			binary.NativeEndian.PutUint64(data[int(c.at)%(len(data)-8):], c.what)
		}
		for _, meta := range [][]byte{data[pageHead:], data[1024+pageHead:]} { // what they say counts, whatever it is
			binary.NativeEndian.PutUint64(meta[metaSumAt:], metaSum(meta[:metaSize]))
		}
		for name, err := range readEverything(t, data) {
			if err != nil && !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
