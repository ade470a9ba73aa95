package keycopy

import (
	"fmt"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"pgregory.net/rapid"
)

// readAll reads sorted keys by spans, as etcd would answer, and tells what etcd
// would have counted.
func readAll(t interface{ Fatalf(string, ...any) }, keys []string, limit int) (got []string, counted int) {
	for next, more := everything(), true; more; {
		reply := &pb.RangeResponse{}
		for _, key := range keys[lowest(keys, string(next.from)):] {
			if !next.endless() && key >= string(next.end) {
				break
			}
			reply.Count++
			if len(reply.Kvs) < limit {
				reply.Kvs = append(reply.Kvs, &mvccpb.KeyValue{Key: []byte(key)})
				got = append(got, key)
			}
		}
		reply.More = int(reply.Count) > len(reply.Kvs)
		if counted += int(reply.Count) + 1; counted > 1000*(len(keys)+10)*(len(keys)+10) {
			t.Fatalf("it does not end: %q", keys)
		}
		next, more = next.after(reply)
	}
	return got, counted
}

func lowest(keys []string, from string) int {
	i, _ := slices.BinarySearch(keys, from)
	return i
}

// Every key is read once, in order, whatever the keys and the size of pages are.
func TestSpans(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfDistinct(rapid.StringOfN(rapid.SampledFrom([]rune{0, 'a', 'b', 'c', '/', 0xff, 0x7f}), 1, 6, -1), rapid.ID[string]).Draw(t, "keys")
		for i, key := range keys {
			if rapid.IntRange(0, 3).Draw(t, "bytes") == 0 {
				keys[i] = key + "\xff\xff"
			}
		}
		slices.Sort(keys)
		keys = slices.Compact(keys)
		if got, _ := readAll(t, keys, rapid.IntRange(1, 5).Draw(t, "limit")); !slices.Equal(got, keys) {
			t.Fatalf("%q instead of %q", got, keys)
		}
	})
}

// What etcd counts stays in proportion to the keys.
func TestSpansOfMany(t *testing.T) {
	t.Parallel()
	var keys []string
	for i := range 100_000 {
		keys = append(keys, fmt.Sprintf("/registry/things/namespace-%03d/thing-%07d", i%200, i))
	}
	slices.Sort(keys)
	got, counted := readAll(t, keys, 100)
	if !slices.Equal(got, keys) || counted > 40*len(keys) {
		t.Errorf("%d keys read, %d counted", len(got), counted)
	}
	t.Logf("%d counted; with one span it were %d", counted, len(keys)*len(keys)/100/2)
}
