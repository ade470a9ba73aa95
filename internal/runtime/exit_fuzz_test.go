package runtime

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// FuzzLog: whatever a member writes into its log, what is told of it is a few short
// lines that a terminal can show, and of a structured line, whole or torn, only the
// message and the error.
func FuzzLog(f *testing.F) {
	for _, seed := range []string{
		`{"level":"fatal","ts":"2026-11-20T23:08:18.1Z","caller":"etcdmain/etcd.go:204","msg":"discovery failed","error":"cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs","stacktrace":"go.etcd.io/etcd\nmain.main\n"}`,
		`{"level":"warn","ts":"2026-11-20T23:08:18.1Z","caller":"etcdserver/util.go:170","msg":"apply request took too long","took":"1.2s","expected-duration":"100ms","prefix":"read-only range ","request":"key:\"a\" ","error":"context canceled"}`,
		"{\"level\":\"error\",\"msg\":\"disk full\"}\n{\"level\":\"panic\",\"msg\":\"failed to sync\",\"err",
		"2026-01-02 15:04:05.123456 C | etcdmain: listen tcp 127.0.0.1:2380: bind: address already in use\n",
		"2026-01-02 15:04:05.123456 W | pkg/flags: unrecognized environment variable ETCD_ROOT_PASSWORD=word\n",
		"goroutine 1\npanic: freepages: failed to get all reachable pages\n\ngoroutine 1 [running]:\nmain.main()\n",
		"error verifying flags, expected IP in URL for binding (http://localhost:2380). See 'etcd --help'.\n",
		"\x1b[31mred\x07\r{\"msg\":\"\\u001b[2J\\n\"}\n\xff\xfe",
		`{"level":"fatal"}` + "\n" + `{"msg":7}` + "\n" + `{} {"msg":"b"}` + "\nnull\n",
		`{"level":"error","msg":"` + strings.Repeat("long ", 200) + `"}` + "\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, log string) {
		told := causeLines(log, true)
		if len(told) > causeMost {
			t.Fatalf("%d lines", len(told))
		}
		follower := Follow("")
		lines := follower.choose(slices.Collect(strings.Lines(log)), time.Unix(0, 0))
		if len(lines) > followBurst {
			t.Fatalf("%d lines at once", len(lines))
		}
		for _, l := range lines {
			if l.Level != "warn" && l.Level != "error" && l.Level != "fatal" {
				t.Fatalf("%q has the level %q", log, l.Level)
			}
			told = append(told, l.Text)
		}
		for kind := range follower.kinds {
			if len(kind) > 2*causeLength {
				t.Fatalf("%d bytes are kept of a line", len(kind))
			}
		}
		for _, text := range told {
			if text == "" || len(text) > causeLength+len("…") || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Fatalf("%q is told as %q", log, text)
			}
		}
	})
}

// FuzzLogSecrets: what stands where secrets do is not told, whatever is around it and
// in it, and no field of a structured line is, whole or torn, but its message and its error.
func FuzzLogSecrets(f *testing.F) {
	f.Add("dial ", "me", " refused")
	f.Add("2026-01-02 15:04:05.123456 C | etcdmain: ", "p@s", "")
	f.Add("panic: ", "a/b:c", " as user@host said")
	f.Fuzz(func(t *testing.T, before, within, after string) {
		const secret = "hunter2hunter2"
		odd := func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(` "'\<>`, r) }
		if strings.Contains(before+within+after, "hunter") || strings.ContainsAny(before, "{\"'\n") || strings.ContainsFunc(within, odd) {
			return
		}
		quoted, err := json.Marshal(within)
		if err != nil {
			t.Fatal(err)
		}
		lines := []string{
			`{"level":"fatal","msg":"m","request":"` + secret + `","x":` + string(quoted) + `}`,
			`{"level":"fatal","msg":"m","request":"` + secret + `","x":"` + within,
			`{"level":"info","ts":"x","request":"` + secret,
			`{"level":"info","request":{"msg":"` + secret + `"}}`,
		}
		for _, said := range []string{
			"https://me:" + within + secret + "@host:2379/",
			"https://me:" + secret + within + "@host:2379/",
			"https://" + secret + "@host:2379/",
			"Authorization: Bearer " + secret,
			"authorization=" + secret + " " + secret,
			"https://me:a'" + secret + "@host:2379/",
			"password=" + secret,
			`password="` + within + secret + `"`,
		} {
			message, err := json.Marshal(before + " " + said + " " + after)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, before+" "+said+" "+after, `{"level":"error","msg":`+string(message)+`}`)
		}
		for _, line := range lines {
			for _, told := range causeLines(line, true) {
				if strings.Contains(told, secret) {
					t.Fatalf("%q is told as %q", line, told)
				}
			}
		}
	})
}
