package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/runtime"
)

// FuzzProcessRecord: whatever lies where the record of etcd's process is, it is an error
// that says where and what to do, or a record that reads the same after it was written;
// and nothing that runs is taken for the member that was not started as it.
func FuzzProcessRecord(f *testing.F) {
	boot, err := runtime.BootID()
	if err != nil {
		f.Fatal(err)
	}
	data := f.TempDir()
	f.Add([]byte(fmt.Sprintf(`{"launch":{"token":"t","version":"3.6.16"},"spec":{"Path":"/bin/etcd","Args":["--data-dir=%[2]s"],"DataDir":%[2]q,"LogFile":"/l"},"process":{"bootID":%[1]q,"nonce":"n","pid":%[3]d,"startTime":1,"dataDir":%[2]q,"dataDirInode":1,"argv":["etcd"],"specHash":"x","logFile":"/l"}}`, boot, data, os.Getpid())))
	f.Add([]byte(fmt.Sprintf(`{"process":{"bootID":%q,"nonce":"","pid":0,"dataDir":%q}}`, boot, data)))
	f.Add([]byte(fmt.Sprintf(`{"process":{"bootID":%q,"pid":-1,"dataDir":"/"}}`, boot)))
	f.Add([]byte(fmt.Sprintf(`{"process":{"bootID":%q,"nonce":"x","pid":1,"dataDir":%q,"argv":null}}`, boot, data)))
	f.Add([]byte("null"))
	f.Add([]byte(`{"process":`))
	state := f.TempDir()
	path := filepath.Join(state, "process.json")
	spec := func(record.Launch) (runtime.Spec, error) { return runtime.Spec{}, errors.New("none") }
	read := func(content []byte) (*Process, error) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, err
		}
		return NewProcess(state, slog.New(slog.DiscardHandler), spec, genuine, func(record.Launch) {})
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		p, err := read(content)
		if err != nil {
			if told, ok := errors.AsType[*Error](err); !ok || told.Advice == "" || !strings.Contains(err.Error(), path) {
				t.Fatalf("%s: %v", content, err)
			}
			return
		}
		written, err := p.keep(p.record.Process)
		if err != nil {
			t.Fatal(err)
		}
		if adopted, _ := p.Adopt(t.Context(), p.record.Launch); adopted {
			t.Fatalf("%s: it was taken for ours", content)
		}
		again, err := read(written)
		if err != nil {
			t.Fatalf("%s became %s: %v", content, written, err)
		}
		if twice, _ := json.MarshalIndent(again.record, "", "  "); string(twice) != string(written) {
			t.Fatalf("%s became %s", written, twice)
		}
	})
}

// FuzzShownURL: of a store's URL nothing is shown that stands where credentials do.
func FuzzShownURL(f *testing.F) {
	f.Add("s3://", "bucket/x?region=eu", "key")
	f.Add("gs://user:", "@bucket", "access_token")
	f.Add("https://a.example/c?sv=1&", "&x=y", "sig")
	f.Add("file:///var/backups", ";", "%73ecret")
	f.Fuzz(func(t *testing.T, before, after, name string) {
		const secret = "hunter2hunter2"
		if strings.Contains(before+after+name, "hunter") || strings.ContainsAny(before, "#") || !strings.Contains(before, "://") {
			return
		}
		known := false
		for _, word := range []string{"key", "secret", "token", "pass", "sig", "cred", "auth"} {
			known = known || strings.Contains(strings.ToLower(name), word)
		}
		scheme, _, _ := strings.Cut(before, "://")
		if strings.EqualFold(scheme, "file") { // a path of this machine may have an @ in it
			return
		}
		urls := []string{scheme + "://me:" + secret + "@bucket/x", scheme + "://" + secret + "@bucket", scheme + ":/me:" + secret + "@bucket", scheme + "://bucket/x#" + secret}
		if known && !strings.ContainsAny(name, "&;=+%#") {
			urls = append(urls, scheme+"://bucket/x?"+name+"="+secret+"&region=eu", scheme+"://bucket/x?region=eu&"+name+"="+secret)
		}
		for _, url := range urls {
			if shown := ShownURL(url); strings.Contains(shown, secret) {
				t.Fatalf("%q is shown as %q", url, shown)
			}
		}
		if shown := ShownURL(before + after); ShownURL(shown) != shown {
			t.Fatalf("%q is shown as %q, and that as %q", before+after, shown, ShownURL(shown))
		}
	})
}
