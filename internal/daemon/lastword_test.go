package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/console"
)

func TestLastWordsLastUntilTheHostIsHeard(t *testing.T) {
	var log strings.Builder
	d := &daemon{id: "a", log: slog.New(slog.NewTextHandler(&log, nil))}
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	say := func(of cluster.HostID, why string, at time.Time) {
		d.lastWord(console.Question{Kind: console.AskLastWord, Host: of, Refusal: &console.Refusal{At: at, Why: why, Hint: "mend it"}})
	}
	say("b", "no such file", at)
	say("b", "no such file", at.Add(time.Minute)) // started again and again
	if got, want := d.words.of("b"), "its daemon said at 2026-11-23T12:00:00Z that it does not run: no such file (mend it)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if n := strings.Count(log.String(), "does not run"); n != 1 {
		t.Errorf("told %d times, want once", n)
	}
	say("b", strings.Repeat("x", 1<<20), at)
	if n := len(d.words.of("b")); n > 2*lastWordMost {
		t.Errorf("%d bytes are kept", n)
	}
	d.words.heard("b")
	if got := d.words.of("b"); got != "" {
		t.Errorf("a host that is heard: %q", got)
	}
	say("a", "of itself", at)
	d.lastWord(console.Question{Kind: console.AskLastWord, Host: "c"})
	if got := d.words.of("a") + d.words.of("c"); got != "" {
		t.Errorf("kept %q", got)
	}
	for i := range 10 * lastWordsMost {
		say(cluster.HostID(fmt.Sprint(i)), "no", at)
	}
	if n := len(d.words.said); n != lastWordsMost {
		t.Errorf("words of %d hosts are kept", n)
	}
}

// Of a data directory that has another host's ID than the daemon was started with, nobody
// speaks.
func TestWhoHasALastWord(t *testing.T) {
	dir := t.TempDir()
	is := func(started, want cluster.HostID) {
		t.Helper()
		if id, known := speaksOf(Config{DataDir: dir, HostID: started}); id != want || known != (want != "") {
			t.Errorf("started as %q: %q, %t, want %q", started, id, known, want)
		}
	}
	is("", "")
	is("b", "b")
	if err := os.WriteFile(filepath.Join(dir, "myid"), []byte("c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	is("", "c")
	is("c", "c")
	is("b", "")
}
