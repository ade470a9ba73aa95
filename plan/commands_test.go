package plan

import (
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/plan/internal/decision"
)

// A command is pasted into a shell: the URL of a store with parameters is one word of it.
func TestCommandsNameTheStoreAsOneWord(t *testing.T) {
	o := formedSight(t)
	o.Spec, o.Store.URL = nil, "s3://bucket/folder?endpoint=https%3A%2F%2Fs3.example.com&region=eu-1"
	var told []string
	for _, b := range Next(decision.Goal{Kind: decision.Converge}, o).Blockers {
		told = append(told, b.Command)
	}
	if want := "etcdadm seed '" + o.Store.URL + "' --version "; !strings.Contains(strings.Join(told, "\n"), want) {
		t.Errorf("none of %q has %q", told, want)
	}
	for text, want := range map[string]string{
		"file:///var/lib/store": "file:///var/lib/store", "": "''", "it's": `'it'\''s'`, "a b": "'a b'", "--flag=s3://b?x": "'--flag=s3://b?x'",
	} {
		if got := cluster.ShellWord(text); got != want {
			t.Errorf("%q is the word %s, want %s", text, got, want)
		}
	}
}
