package daemon

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/keeping"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/manager"
	"etcdadm.io/internal/moving"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/register"
	"etcdadm.io/plan"
)

// A host that has followed answers for the record before by how that ended, or not at all; it says where it is and what it keeps there.
func TestWhatIsLeft(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, moving.FileName), []byte(`{"format":1,"place":{"name":"n","from":"r","url":"s3://bucket/folder"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := moving.OpenFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	k, err := keeper.Open(dir, durable.OS())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := k.Found(t.Context(), "a", rand.Text, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := moves{
		follower: &moving.Follower{File: file, Intent: func(context.Context) (*cluster.Intent, error) { return &cluster.Intent{Generation: 2}, nil }},
		left: keeping.New(keeping.Options{
			Self: func() cluster.HostID { return "a" }, Cluster: "c", Contacts: func() []cluster.Contact { return nil }, Keeper: k, Own: memory.New(), Mint: rand.Text,
			WentBack: func() bool { return false }, Asked: func() bool { return true }, Sure: func() bool { return true }, Runs: func() bool { return true }, Log: slog.New(slog.DiscardHandler),
		}),
	}
	caller := peer.Caller{Identity: pki.Identity{Cluster: "c", Role: pki.RoleHost, ID: "b"}}
	state, err := k.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := peer.KeepRequest{Message: &register.Message{Kind: register.Ask, Record: doc.Record, To: state.Seat}}
	if _, err := m.whatIsLeft(t.Context(), caller, ask); !errors.Is(err, register.ErrMoved) {
		t.Errorf("it answers by what was before: %v", err)
	}
	reply, err := m.whatIsLeft(t.Context(), caller, peer.KeepRequest{Where: true})
	if err != nil || reply.Place != "n" || reply.Newest != nil || reply.Intent == nil {
		t.Errorf("%+v %v", reply, err)
	}
	last := state.Newest()
	if last.Doc, err = last.Doc.Sealed(register.Moved{To: "n", Store: "s3://bucket/folder"}); err != nil {
		t.Fatal(err)
	}
	last.Ballot.Number++
	if err := m.left.Last(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if reply, err := m.whatIsLeft(t.Context(), caller, ask); err != nil || reply.Reply.Accepted.Doc.Moved == nil {
		t.Errorf("%+v %v", reply, err)
	}
	if reply, err := m.whatIsLeft(t.Context(), caller, peer.KeepRequest{Where: true}); err != nil || reply.Chosen == nil || reply.Chosen.Doc.Moved == nil {
		t.Errorf("%+v %v", reply, err)
	}
}

// A host that joined after the move is of the place where the record is, as those that followed.
func TestJoinedThere(t *testing.T) {
	dir := t.TempDir()
	begin := func(url string) moves {
		file, err := moving.OpenFile(dir)
		if err != nil {
			t.Fatal(err)
		}
		f := &moving.Follower{File: file, Home: &moving.Homing{URL: url}}
		f.RecallName()
		return moves{follower: f}
	}
	m, store := begin("s3://bucket/folder"), memory.New()
	joined := func() {
		if err := m.follower.ReadName(t.Context(), store); err != nil {
			t.Fatal(err)
		}
	}
	joined()
	name, called := m.record(nil), m.called(nil)
	if name() != "" || called() != peer.InStore {
		t.Errorf("it names %q, %q", name(), called())
	}
	if _, err := blob.PutBytes(t.Context(), store, "control/etcdadm-place.json", []byte(`{"cluster":"c","place":"n","from":"r"}`), blob.Any); err != nil {
		t.Fatal(err)
	}
	if joined(); name() != "n" || called() != "n" {
		t.Errorf("it names %q, %q", name(), called())
	}
	for url, want := range map[string]string{"s3://bucket/folder": "n", "s3://bucket/other": peer.InStore} { // the store is silent at the next start
		again := begin(url)
		if got := again.called(nil)(); got != want {
			t.Errorf("%s: it names %q", url, got)
		}
	}
}

// A host that followed to the hosts' record finds the others by the addresses of its offer: nobody is announced in a store any more, and its
// disk may know no address yet.
func TestSeedsOfAMove(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, moving.FileName), []byte(`{"format":1,"place":{"name":"N","from":"f","url":"hosts:","inForce":true,"seeds":["a=192.0.2.1:8000","b=192.0.2.2:8000"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := moving.OpenFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{cfg: Config{BackupStore: kept.URL(dir), GRPCPort: 8000}, store: memory.New(), moves: moves{follower: &moving.Follower{File: file}}, log: slog.New(slog.DiscardHandler)}
	seeds, err := d.seeds(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if found, err := seeds.Seeds(t.Context()); err != nil || len(found) != 2 || found[1].ID != "b" || found[1].Endpoint != "192.0.2.2:8000" {
		t.Errorf("%+v %v", found, err)
	}
	d.moves.seeds = seeds
	if at := d.moves.given(t.Context()); len(at) != 2 {
		t.Errorf("%v", at)
	}
}

// A host names the place that it followed to, and that it was left there.
func TestNamesItsPlace(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, moving.FileName), []byte(`{"format":1,"place":{"name":"S","from":"r","url":"s3://bucket/folder","inForce":true}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := moving.OpenFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New()
	if _, err := blob.PutBytes(t.Context(), store, control.KeyIntent, []byte(`{"nonce":"f","generation":2,"name":"c","moving":"N","moved":true,"intent":{}}`), blob.Any); err != nil {
		t.Fatal(err)
	}
	m := moves{follower: &moving.Follower{File: file, Log: slog.New(slog.DiscardHandler), Home: &moving.Homing{Store: func() blob.Store { return store }}}}
	m.follower.RecallName()
	name := m.record(nil)
	if name() != "S" {
		t.Errorf("it names %q", name())
	}
	if err := m.follower.Look(t.Context(), true); err != nil || name() != "left:N" {
		t.Errorf("it names %q (%v)", name(), err)
	}

	// One that comes with the settings of before is left from its start on.
	if file, err = moving.OpenFile(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	m = moves{follower: &moving.Follower{File: file, Home: &moving.Homing{}}}
	if m.follower.IsLeft(t.Context(), store); m.record(nil)() != "left:N" {
		t.Errorf("it names %q", m.record(nil)())
	}
}

// At a boot beside a store that was left, the host asks the others what generation they keep, though it never kept a record itself.
func TestMayStartBesideAStoreThatWasLeft(t *testing.T) {
	file, err := moving.OpenFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store, asked := memory.New(), 0
	m := moves{follower: &moving.Follower{File: file, Home: &moving.Homing{Store: func() blob.Store { return store }}}, asks: func(context.Context) *keeping.Part {
		asked++
		return nil
	}}
	for n, marker := range []string{`{"nonce":"f","generation":2,"name":"c","moving":"N","intent":{}}`, `{"nonce":"f","generation":2,"name":"c","moving":"N","moved":true,"intent":{}}`} {
		if _, err := blob.PutBytes(t.Context(), store, control.KeyIntent, []byte(marker), blob.Any); err != nil {
			t.Fatal(err)
		}
		if _, err := m.mayStart(t.Context(), nil); err != nil || asked != n {
			t.Errorf("%s: asked %d times (%v)", marker, asked, err)
		}
	}
}

// Nothing is written without the store while the record may count at the hosts already.
func TestNoStoreBesideAMove(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, moving.FileName), []byte(`{"format":1,"offer":{"name":"N","from":"f","url":"hosts:"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := moving.OpenFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	wish, err := json.Marshal(manager.GoalRequest{Goal: plan.Goal{NoStore: true}})
	if err != nil {
		t.Fatal(err)
	}
	h := handler{&daemon{moves: moves{follower: &moving.Follower{File: file}}}}
	if _, err := h.Goal(t.Context(), peer.Caller{}, wish); err == nil || !strings.Contains(err.Error(), "is not known") {
		t.Errorf("%v", err)
	}
}
