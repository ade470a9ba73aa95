package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What an etcd said last is found in either form of its log.
func TestLastWords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ log, want string }{
		"none":     {"", "it said nothing"},
		"json":     {`{"level":"info"}` + "\n" + `{"level":"fatal","msg":"x"}` + "\n" + `{"level":"info"}` + "\n", `{"level":"fatal","msg":"x"}`},
		"critical": {"2026-01-02 03:04:05.6 I | etcdmain: a\n2026-01-02 03:04:05.7 C | etcdmain: b\n2026-01-02 03:04:05.8 I | c\n", "2026-01-02 03:04:05.7 C | etcdmain: b"},
		"error":    {"2026-01-02 03:04:05.6 E | etcdserver: a\n2026-01-02 03:04:05.7 I | b\n", "2026-01-02 03:04:05.6 E | etcdserver: a"},
		"panic":    {"panic: a\n\ngoroutine 1 [running]:\nmain.main()\n", "panic: a"},
		"flag":     {"usage\nflag provided but not defined: -x\n\n", "flag provided but not defined: -x"},
	} {
		s := &server{logged: filepath.Join(t.TempDir(), "etcd.log")}
		if err := os.WriteFile(s.logged, []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := s.lastWords(); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Nothing is begun on data of version 2 that would fill the disk.
func TestRoomV2(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	grow := func(name string, bytes int64) {
		t.Helper()
		file := filepath.Join(data, "member", name)
		err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600), os.Truncate(file, bytes))
		if err != nil {
			t.Fatal(err)
		}
	}
	grow("wal/0000000000000000-0000000000000000.wal", 1<<10)
	grow("snap/0000000000000001-0000000000000010.snap", 1<<10)
	if err := RoomV2(data, t.TempDir()); err != nil {
		t.Error(err)
	}
	grow("snap/0000000000000001-0000000000000020.snap", 1<<43) // sparse
	var no *SpaceError
	if err := RoomV2(data, t.TempDir()); !errors.As(err, &no) || no.NeedsRoom() != 4*(1<<43+1<<10)+1<<10 {
		t.Errorf("there is room for 32 TiB: %v", err)
	}
}
