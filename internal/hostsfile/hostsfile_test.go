package hostsfile

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func entry(addr string, names ...string) Entry {
	return Entry{Addr: netip.MustParseAddr(addr), Names: names}
}

const (
	blockA = "# Begin host entries managed by etcd-manager[a] - do not edit\n10.0.0.1\tx.internal\n# End host entries managed by etcd-manager[a]\n"
	blockB = "# Begin host entries managed by etcd-manager[ab] - do not edit\n10.0.0.9\ty\n# End host entries managed by etcd-manager[ab]\n"
)

func TestEdit(t *testing.T) {
	one := []Entry{entry("10.0.0.1", "x.internal")}
	tests := []struct {
		name, before string
		entries      []Entry
		want         string
	}{
		{"empty file", "", one, blockA},
		{"at the end", "127.0.0.1 localhost\n", one, "127.0.0.1 localhost\n" + blockA},
		{"after a line without its end", "127.0.0.1 localhost", one, "127.0.0.1 localhost\n" + blockA},
		{"in its place", "# top\n" + strings.Replace(blockA, "x.internal", "old", 1) + "# bottom", one, "# top\n" + blockA + "# bottom"},
		{"beside another cluster's", blockB + "#\n", one, blockB + "#\n" + blockA},
		{"before another cluster's", strings.Replace(blockA, "10.0.0.1", "10.0.0.7", 1) + blockB, one, blockA + blockB},
		{"the other is broken", strings.Replace(blockB, "# End", "# end", 1), one, strings.Replace(blockB, "# End", "# end", 1) + blockA},
		{"already there", "#\n" + blockA, one, "#\n" + blockA},
		{"removed", "# top\n" + blockA + blockB, nil, "# top\n" + blockB},
		{"nothing to remove", "# top", nil, "# top"},
		{"lines of another system", "# top\r\n" + strings.ReplaceAll(blockA, "\n", "\r\n"), one, "# top\r\n" + blockA},
	}
	for _, test := range tests {
		got, err := Edit([]byte(test.before), "a", test.entries)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", test.name, err, got, test.want)
		}
	}
}

func TestEditSortsAndMerges(t *testing.T) {
	want := begin("a") + "\n10.0.0.2\tb c\n10.0.0.10\ta\nfd00::1\td\n" + end("a") + "\n"
	for _, entries := range [][]Entry{
		{entry("fd00::1", "d"), entry("10.0.0.10", "a"), entry("10.0.0.2", "c"), entry("10.0.0.2", "b", "c")},
		{entry("10.0.0.2", "c", "b"), entry("::ffff:10.0.0.10", "a"), entry("fd00::1", "d")},
	} {
		got, err := Edit(nil, "a", entries)
		if err != nil || string(got) != want {
			t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
		}
	}
}

func TestEditRefusesABrokenBlock(t *testing.T) {
	b, e := begin("a")+"\n", end("a")+"\n"
	tests := []struct {
		content string
		line    int
		words   string
	}{
		{"#\n" + b + "10.0.0.1 x\n", 2, "never ends"},
		{"#\n#\n" + e, 3, "without having begun"},
		{b + b + e, 2, "has begun in line 1"},
		{b + e + b + e, 3, "a second time"},
		{b + e + e, 3, "without having begun"},
		{b + begin("other") + "\n" + e, 1, "another begins"},
	}
	for _, test := range tests {
		for _, entries := range [][]Entry{nil, {entry("10.0.0.1", "x")}} {
			_, err := Edit([]byte(test.content), "a", entries)
			malformed, ok := errors.AsType[*MalformedError](err)
			if !ok || malformed.Line != test.line || !strings.Contains(err.Error(), test.words) || !strings.Contains(malformed.Hint(), end("a")) {
				t.Errorf("%q: got %v, want line %d and %q", test.content, err, test.line, test.words)
			}
		}
	}
}

func TestEditRefusesInput(t *testing.T) {
	tests := []struct {
		cluster string
		entry   Entry
	}{
		{"", entry("10.0.0.1", "x")},
		{"a\nb", entry("10.0.0.1", "x")},
		{"a] - do not edit", entry("10.0.0.1", "x")},
		{"a", Entry{Names: []string{"x"}}},
		{"a", entry("fe80::1%eth0", "x")},
		{"a", entry("10.0.0.1")},
		{"a", entry("10.0.0.1", "")},
		{"a", entry("10.0.0.1", "x\n10.0.0.2 y")},
		{"a", entry("10.0.0.1", "x y")},
		{"a", entry("10.0.0.1", "x#")},
		{"a", entry("10.0.0.1", strings.Repeat("x", 254))},
	}
	for _, test := range tests {
		if _, err := Edit(nil, test.cluster, []Entry{test.entry}); err == nil {
			t.Errorf("cluster %q, %v: accepted", test.cluster, test.entry)
		} else if _, ok := errors.AsType[*InputError](err); !ok || strings.Contains(err.Error(), "\n") {
			t.Errorf("cluster %q, %v: %v", test.cluster, test.entry, err)
		}
	}
}

// Whatever the file was: editing is idempotent, keeps every line outside of the
// block, and a removal gives back what was there before.
func FuzzEdit(f *testing.F) {
	f.Add([]byte("127.0.0.1 localhost\n"+blockB), "x.internal")
	f.Add([]byte(blockA+"tail"), "y")
	f.Add([]byte(blockA+blockA), "y")
	f.Fuzz(func(t *testing.T, before []byte, name string) {
		entries := []Entry{entry("10.0.0.1", name)}
		after, err := Edit(before, "a", entries)
		if err != nil {
			return
		}
		again, err := Edit(after, "a", entries)
		if err != nil || !bytes.Equal(after, again) {
			t.Fatalf("not idempotent: %v\n%q\n%q", err, after, again)
		}
		removed, err := Edit(after, "a", nil)
		if err != nil {
			t.Fatalf("cannot be removed: %v", err)
		}
		without, err := Edit(before, "a", nil)
		if err != nil {
			t.Fatalf("the old one cannot be removed: %v", err)
		}
		if !bytes.Equal(bytes.TrimSuffix(removed, []byte("\n")), bytes.TrimSuffix(without, []byte("\n"))) {
			t.Fatalf("outside of the block something changed:\n%q\n%q", without, removed)
		}
	})
}

// A block that somebody else filled loses the lines of those only of whom something
// better is known: an address that was heard, or that they are gone.
func TestMerge(t *testing.T) {
	theirs := begin("a") + "\n10.0.0.1\tx.internal\n10.0.0.2\ty.internal\n10.0.0.3\tz.internal # spare\nnot an entry\n10.0.0.4\n" + end("a") + "\n"
	heard := []Entry{entry("10.0.0.1", "x.internal"), entry("10.0.0.9", "y.internal")}
	tests := []struct {
		name, before, want string
		stays              func(string) bool
		kept               string
	}{
		{"nothing is known of the others", "# top\n" + theirs + blockB, "# top\n" + begin("a") + "\n10.0.0.1\tx.internal\n10.0.0.3\tz.internal\n10.0.0.9\ty.internal\n" + end("a") + "\n" + blockB, nil, "z.internal"},
		{"one is gone", theirs, begin("a") + "\n10.0.0.1\tx.internal\n10.0.0.9\ty.internal\n" + end("a") + "\n", func(string) bool { return false }, ""},
		{"no block", "# top\n", "# top\n" + begin("a") + "\n10.0.0.1\tx.internal\n10.0.0.9\ty.internal\n" + end("a") + "\n", nil, ""},
	}
	for _, test := range tests {
		got, kept, err := Merge([]byte(test.before), "a", heard, test.stays)
		if err != nil || string(got) != test.want || strings.Join(kept, " ") != test.kept {
			t.Errorf("%s: %v, kept %q, got\n%s\nwant\n%s", test.name, err, kept, got, test.want)
		}
		if again, _, err := Merge(got, "a", heard, test.stays); err != nil || string(again) != string(got) {
			t.Errorf("%s: the second time %v, got\n%s", test.name, err, again)
		}
	}
	if _, _, err := Merge([]byte(begin("a")+"\n"), "a", heard, nil); err == nil {
		t.Error("a block that never ends was merged into")
	}
}
