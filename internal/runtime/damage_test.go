package runtime

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What etcd 3.2 to 3.6 say of damaged data at their end, and what only looks like it.
func TestDamageLine(t *testing.T) {
	for _, c := range []struct{ log, want string }{
		{`{"level":"error","msg":"bootstrap failed","error":"walpb: crc mismatch"}
{"level":"fatal","msg":"discovery failed","error":"walpb: crc mismatch: expected: 9fffff88 computed: 92a7d508: in file '0000000000000000-0000000000000000.wal' at position: 408"}
`, "discovery failed: walpb: crc mismatch: expected: 9fffff88 computed: 92a7d508: in file '0000000000000000-0000000000000000.wal' at position: 408"},
		{"2026-01-02 15:04:05.123456 C | etcdserver: read wal error (walpb: crc mismatch) and cannot be repaired\n", "etcdserver: read wal error (walpb: crc mismatch) and cannot be repaired"},
		{`{"level":"panic","msg":"failed to open database","error":"invalid database"}` + "\npanic: failed to open database\n", "failed to open database: invalid database"},
		{`{"level":"panic","msg":"failed to open database","error":"file size too small 6000"}`, "failed to open database: file size too small 6000"},
		{"2026-01-02 15:04:05.123456 C | mvcc/backend: cannot open database at /d/member/snap/db (invalid database)\n", "mvcc/backend: cannot open database at /d/member/snap/db (invalid database)"},
		{"panic: assertion failed: Page expected to be: 4, but self identifies as 12871013924411826323\n\ngoroutine 1 [running]:\n", "panic: assertion failed: Page expected to be: 4, but self identifies as 12871013924411826323"},
		{"panic: freepages: failed to get all reachable pages (page 12: multiple references)\n", "panic: freepages: failed to get all reachable pages (page 12: multiple references)"},
		{`{"level":"panic","msg":"tocommit(12) is out of range [lastIndex(5)]. Was the raft log corrupted, truncated, or lost?"}`, "tocommit(12) is out of range [lastIndex(5)]. Was the raft log corrupted, truncated, or lost?"},
		// etcd mends it, and goes on.
		{`{"level":"error","msg":"failed to read","error":"walpb: crc mismatch"}` + "\n" + `{"level":"fatal","msg":"listen","error":"address already in use"}`, ""},
		{`{"level":"fatal","msg":"discovery failed","error":"open /d/member/snap/db: permission denied"}`, ""},
		{`{"level":"fatal","msg":"discovery failed","error":"write /d/member/wal: no space left on device"}`, ""},
		{`{"level":"panic","msg":"failed to open database","error":"version mismatch"}`, ""},
		{"panic: runtime error: invalid memory address\n", ""},
		{"", ""},
	} {
		if got := damageLine(c.log); got != c.want {
			t.Errorf("%q\n\tof %s\n\twant %q", got, c.log, c.want)
		}
	}
}

// The end of a process that cannot read its data says so, until it is asked for anew: other
// data may lie there then.
func TestDamagedEnd(t *testing.T) {
	dir := t.TempDir()
	sick := filepath.Join(dir, "sick")
	if err := os.WriteFile(sick, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	spec := Spec{
		Path: "/bin/sh", Args: []string{"-c", `[ -e "$0" ] || exec sleep 60; echo '{"level":"fatal","msg":"discovery failed","error":"walpb: crc mismatch"}' >&2; exit 1`, sick, "--data-dir=" + dir},
		Env: []string{"PATH=" + os.Getenv("PATH")}, DataDir: dir, LogFile: filepath.Join(dir, "log"),
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := NewChild(Options{Record: func(ProcessRecord) error { return nil }})
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	defer func() { _ = c.Stop(context.Background(), 0); cancel(); <-ran }()
	damaged := func(want string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			s, err := c.Status(ctx)
			if err == nil && s.LastExit != nil && s.LastExit.Damaged == want && (want == "" || strings.Contains(s.LastExit.Reason, "crc mismatch")) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the status is %+v, %v: want the damage %q", s, err, want)
			}
		}
	}
	if err := c.Ensure(ctx, spec); err != nil {
		t.Fatal(err)
	}
	damaged("discovery failed: walpb: crc mismatch")
	if err := c.Stop(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(sick); err != nil {
		t.Fatal(err)
	}
	if err := c.Ensure(ctx, spec); err != nil {
		t.Fatal(err)
	}
	damaged("")
}
