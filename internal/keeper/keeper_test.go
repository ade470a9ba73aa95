package keeper

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/register"
)

func open(t *testing.T, dir string) *Keeper {
	t.Helper()
	k, err := Open(dir, durable.OS())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// What was answered is there after a restart, and a file that was lost is another keeper.
func TestWhatWasAnsweredIsDurable(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	if _, err := k.Handle(t.Context(), register.Message{}); !errors.Is(err, ErrNone) {
		t.Errorf("before there is a record: %v", err)
	}
	doc, err := k.Found(t.Context(), "a", rand.Text, map[string]register.Object{"x": {Tag: "1", Data: []byte("one")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Found(t.Context(), "a", rand.Text, nil); !errors.Is(err, ErrOther) {
		t.Errorf("founded twice: %v", err)
	}
	seat, b := doc.Keepers[0], register.Ballot{Number: 9, Nonce: "n"}
	prepare := register.Message{Kind: register.Prepare, Record: doc.Record, To: seat, Entry: register.Entry{Ballot: b}}
	if r, err := k.Handle(t.Context(), prepare); err != nil || r.Refused != "" || !r.Accepted.Doc.Same(doc) {
		t.Fatalf("%+v, %v", r, err)
	}
	k = open(t, dir)
	lower := prepare
	lower.Entry.Ballot.Number = 8
	if r, err := k.Handle(t.Context(), lower); err != nil || r.Refused != register.HigherBallot || r.Promised != b {
		t.Errorf("a promise was forgotten: %+v, %v", r, err)
	}
	next, err := doc.With("x", &register.Object{Tag: "2", Data: []byte("two")})
	if err != nil {
		t.Fatal(err)
	}
	e := register.Entry{Ballot: b, Part: register.Next, Doc: next}
	if r, err := k.Handle(t.Context(), register.Message{Kind: register.Accept, Record: doc.Record, To: seat, Entry: e}); err != nil || r.Refused != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	k = open(t, dir)
	r, err := k.Handle(t.Context(), register.Message{Kind: register.Ask, Record: doc.Record, To: seat})
	if err != nil || !r.Accepted.Doc.Same(next) || string(r.Accepted.Doc.Objects["x"].Data) != "two" {
		t.Errorf("%+v, %v", r, err)
	}
	if err := os.Remove(filepath.Join(dir, FileName)); err != nil {
		t.Fatal(err)
	}
	k = open(t, dir)
	anew, err := k.Enrol(t.Context(), "a", doc.Record, rand.Text)
	if err != nil || anew == seat {
		t.Fatalf("%+v, %v", anew, err)
	}
	if again, err := k.Enrol(t.Context(), "a", doc.Record, rand.Text); err != nil || again != anew {
		t.Errorf("enrolled twice: %+v, %v", again, err)
	}
	if _, err := k.Enrol(t.Context(), "a", "another", rand.Text); !errors.Is(err, ErrOther) {
		t.Errorf("another record: %v", err)
	}
	if r, err := k.Handle(t.Context(), prepare); err != nil || r.Refused != register.OtherKeeper {
		t.Errorf("a keeper whose file was lost answers for the one before: %+v, %v", r, err)
	}
}

// A keeper whose disk went back is another one, which knows what was chosen and promised nothing.
func TestRenewed(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	if err := k.Renew(t.Context(), rand.Text); !errors.Is(err, ErrNone) {
		t.Errorf("without a record: %v", err)
	}
	doc, err := k.Found(t.Context(), "a", rand.Text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Renew(t.Context(), rand.Text); err != nil {
		t.Fatal(err)
	}
	state, err := open(t, dir).State(t.Context())
	if err != nil || state.Record != doc.Record || state.Seat.Host != "a" || state.Seat == doc.Keepers[0] {
		t.Fatalf("%+v, %v", state, err)
	}
	if state.Promised != (register.Ballot{}) || state.Accepted.Doc != nil || !state.Chosen.Doc.Same(doc) {
		t.Errorf("it has %+v", state)
	}
	if _, err := os.Stat(filepath.Join(dir, FileName+"."+doc.Record)); err != nil {
		t.Errorf("what it kept: %v", err)
	}
}

// A file that cannot be read is no missing one.
func TestDamagedFile(t *testing.T) {
	for name, content := range map[string]string{
		"cut short":          `{"format":1,"keeper":{"seat":`,
		"nothing":            `{"format":1,"keeper":{}}`,
		"a later format":     `{"format":2,"keeper":{}}`,
		"an impossible file": `{"format":1,"keeper":{"seat":{"host":"a","keeper":"k"},"record":"r","accepted":{"doc":{"record":"r","keepers":[]}}}}`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, FileName), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if k, err := Open(dir, durable.OS()); err == nil || errors.Is(err, ErrNone) || k != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// failing fails to sync a directory after the rename: the new content is there.
type failing struct {
	durable.Files
	fail *bool
}

func (f failing) SyncDir(dir string) error {
	if *f.fail {
		return errors.New("I/O error")
	}
	return f.Files.SyncDir(dir)
}

// After a write that failed the file says what is so, and not what was meant.
func TestFailedWriteIsReadBack(t *testing.T) {
	dir := t.TempDir()
	fail := false
	k, err := Open(dir, durable.On(failing{durable.OS().Files, &fail}))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := k.Found(t.Context(), "a", rand.Text, nil)
	if err != nil {
		t.Fatal(err)
	}
	fail = true
	b := register.Ballot{Number: 9, Nonce: "n"}
	m := register.Message{Kind: register.Prepare, Record: doc.Record, To: doc.Keepers[0], Entry: register.Entry{Ballot: b}}
	if _, err := k.Handle(t.Context(), m); err == nil {
		t.Fatal("a promise was given that may not be durable")
	}
	m.Entry.Ballot.Number = 8
	if r, err := k.Handle(t.Context(), m); err == nil {
		t.Errorf("it answers by what is not durable: %+v", r)
	}
	fail = false
	if r, err := k.Handle(t.Context(), m); err != nil || r.Refused != register.HigherBallot {
		t.Errorf("the file has the promise, and the answer is %+v, %v", r, err)
	}
}

// A digit that a disk changed is no promise.
func TestChangedDigit(t *testing.T) {
	dir := t.TempDir()
	k := open(t, dir)
	if _, err := k.Found(t.Context(), "a", rand.Text, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, FileName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(data, []byte(`"number":1`), []byte(`"number":9`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, durable.OS()); err == nil {
		t.Error("it is read")
	}
}
