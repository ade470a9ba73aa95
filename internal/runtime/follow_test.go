package runtime

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Of a growing log each kind of line that people should see is told once, a few
// at a time, whole lines only, and on through a rotation.
func TestFollower(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etcd.log")
	write := func(flag int, lines ...string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flag, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(strings.Join(lines, "")); err != nil {
			t.Fatal(err)
		}
	}
	warn := func(msg, err string) string {
		return fmt.Sprintf(`{"level":"warn","ts":"x","msg":%q,"error":%q}`+"\n", msg, err)
	}
	now := time.Unix(1e9, 0)
	write(os.O_APPEND, warn("before the daemon", ""))
	f := Follow(path)
	want := func(what string, lines ...LogLine) {
		t.Helper()
		if diff := cmp.Diff(lines, f.Next(now)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	want("nothing new")
	write(os.O_APPEND, `{"level":"info","msg":"serving"}`+"\n", warn("slow fdatasync", "took 1.2s"), warn("slow fdatasync", "took 1.9s"), warn("half of", "")[:20])
	want("one kind", LogLine{"warn", "slow fdatasync: took 1.2s"})
	write(os.O_APPEND, warn("half of", "")[20:])
	want("the other half", LogLine{"warn", "half of"})
	write(os.O_APPEND, `{"level":"error","msg":"no peer","error":"token=abc"}`+"\n", "panic: index out of range\n")
	want("errors", LogLine{"error", "no peer: token=…"}, LogLine{"fatal", "panic: index out of range"})
	write(os.O_APPEND, warn("x one", ""), warn("y two", ""), warn("z three", ""))
	want("no more than five in ten seconds", LogLine{"warn", "x one"})
	if f.Left != 2 {
		t.Errorf("left %d", f.Left)
	}
	now = now.Add(followPeriod)
	write(os.O_TRUNC, warn("y two", ""), warn("slow fdatasync", "took 3s"))
	want("after a rotation", LogLine{"warn", "y two"})
	now = now.Add(sameKindAfter)
	write(os.O_APPEND, warn("slow fdatasync", "took 4s"))
	want("an hour later", LogLine{"warn", "slow fdatasync: took 4s"})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want("no log")
}
