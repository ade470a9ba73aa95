package keeping

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/register"
)

// keepers are the hosts of a cluster without a store, in one process.
type keepers struct {
	t *testing.T

	mu                               sync.Mutex // guards what follows: what is late asks beside the test
	of                               map[cluster.HostID]*Part
	away, back, serves, runs, unsure map[cluster.HostID]bool
	says                             func(from, to cluster.HostID) // is called with each answer; nil: nothing is
	fails                            map[cluster.HostID]error
	followed                         map[cluster.HostID]*cluster.Intent // what hosts keep that followed the record
	tokens                           map[cluster.HostID]string          // of the members that serve; not changed any more
	dirs                             map[cluster.HostID]string          // of the test alone
}

func (s *keepers) at(h cluster.HostID) *Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[h]
}

func (s *keepers) is(marks map[cluster.HostID]bool, h cluster.HostID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return marks[h]
}

func (s *keepers) mark(marks map[cluster.HostID]bool, h cluster.HostID, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	marks[h] = is
}

// caller asks a host as another host does.
type caller struct {
	s        *keepers
	from, at cluster.HostID
}

func (c caller) Keep(ctx context.Context, r peer.KeepRequest) (peer.KeepReply, error) {
	c.s.mu.Lock()
	away, err := c.s.away[c.at] || c.s.away[c.from], c.s.fails[c.at]
	at, from := c.s.of[c.at], c.s.of[c.from]
	there, says := c.s.followed[c.at], c.s.says
	c.s.mu.Unlock()
	switch {
	case away || at == nil || from == nil:
		return peer.KeepReply{}, errors.New("unreachable")
	case err != nil:
		return peer.KeepReply{}, err
	}
	if says != nil {
		defer says(c.from, c.at)
	}
	reply, err := at.Answer(ctx, peer.Caller{Identity: pki.Identity{Cluster: "c", Role: pki.RoleHost, ID: string(c.from)}, Record: from.opt.Keeper.Record()}, r)
	if there != nil && r.Where {
		reply = asFollowed(there, reply)
	}
	return reply, err
}

// threeKeepers have a record that all three keep.
func threeKeepers(t *testing.T) *keepers {
	s := &keepers{
		t: t, dirs: map[cluster.HostID]string{}, of: map[cluster.HostID]*Part{}, away: map[cluster.HostID]bool{}, back: map[cluster.HostID]bool{},
		serves: map[cluster.HostID]bool{}, runs: map[cluster.HostID]bool{}, unsure: map[cluster.HostID]bool{}, fails: map[cluster.HostID]error{},
	}
	for _, h := range []cluster.HostID{"a", "b", "c"} {
		s.host(h)
	}
	if _, err := s.at("a").opt.Keeper.Found(t.Context(), "a", rand.Text, nil); err != nil {
		t.Fatal(err)
	}
	s.join("b", "c")
	return s
}

// host is one more, which keeps nothing. A host that is there already has lost its file.
func (s *keepers) host(h cluster.HostID) {
	s.t.Helper()
	dir, err := os.MkdirTemp("", "keeper") // what is learned is written beside the test
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.start(h, dir)
}

// start starts the daemon of a host on what a directory holds.
func (s *keepers) start(h cluster.HostID, dir string) {
	s.t.Helper()
	k, err := keeper.Open(dir, durable.OS())
	if err != nil {
		s.t.Fatal(err)
	}
	s.dirs[h] = dir
	one := New(Options{
		Self: func() cluster.HostID { return h }, Cluster: "c", Contacts: func() (out []cluster.Contact) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for h := range s.of { // any order: who asks them sorts
				out = append(out, cluster.Contact{Host: h})
			}
			return out
		},
		To:       func(to cluster.Contact) (kept.Client, error) { return caller{s, h, to.Host}, nil },
		WentBack: func() bool { return s.is(s.back, h) }, Serves: func(_ context.Context, but *cluster.Intent) (bool, error) {
			return s.is(s.serves, h) && (but == nil || but.Token != s.tokens[h]), nil
		}, Runs: func() bool { return s.is(s.runs, h) },
		KeepIntent: func(context.Context, *cluster.Intent) {}, Room: func(context.Context) error { return nil },
		Log: slog.New(slog.DiscardHandler), Keeper: k, Own: memory.New(), Mint: rand.Text,
		Asked: func() bool { return true }, Sure: func() bool { return !s.is(s.unsure, h) }, Unheard: func() []cluster.HostID { return nil }, Leading: func() bool { return false },
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[h] = one
}

// join has hosts keep the record that the first host keeps.
func (s *keepers) join(hosts ...cluster.HostID) {
	s.t.Helper()
	for _, h := range hosts {
		if err := s.at(h).findRecord(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		doc, err := s.at("a").record.Document(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		seat, err := s.at(h).opt.Keeper.Enrol(s.t.Context(), h, doc.Record, rand.Text)
		if err != nil {
			s.t.Fatal(err)
		}
		if _, err := s.at("a").record.ChangeKeepers(s.t.Context(), func(base *register.Document) (*register.Document, error) { return base.WithKeeper(seat) }); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *keepers) put(at cluster.HostID, key, text string) {
	s.t.Helper()
	if _, err := s.at(at).store.Put(s.t.Context(), key, bytes.NewReader([]byte(text)), blob.Any); err != nil {
		s.t.Fatal(err)
	}
}

func (s *keepers) keys(at cluster.HostID) (out []string) {
	s.t.Helper()
	list, err := s.at(at).store.List(s.t.Context(), "control/")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, i := range list {
		out = append(out, i.Key)
	}
	return out
}

func (s *keepers) again(at cluster.HostID, dryRun bool, lost ...cluster.HostID) peer.AgainReply {
	s.t.Helper()
	r, err := s.at(at).Answer(s.t.Context(), peer.Caller{Identity: pki.Identity{Cluster: "c", Role: pki.RoleOperator, ID: "ann"}},
		peer.KeepRequest{Again: &peer.AgainRequest{Lost: lost, DryRun: dryRun}})
	if err != nil {
		s.t.Fatal(err)
	}
	return *r.Again
}

const queued = "control/2026-01-01T00:00:00Z-000000/_command.json"

// A majority is gone: the record is made again as a person says, without the queue, and the host that comes back goes over.
func TestRecordIsMadeAgain(t *testing.T) {
	s := threeKeepers(t)
	s.put("a", "control/spec", "3")
	s.put("a", queued, "{}")
	old := s.at("c").opt.Keeper.Record()
	if r := s.again("c", false, "a", "b"); r.Host != "" || r.Refused != "" {
		t.Errorf("while all answer: %+v", r)
	}
	s.cut(true, "a", "b")
	if r := s.again("c", false, "a"); !strings.Contains(r.Refused, "host b does not answer") {
		t.Errorf("one of two is named: %+v", r)
	}
	if r := s.again("c", true, "a", "b"); r.Host != "c" || r.Refused != "" || s.at("c").opt.Keeper.Record() != old {
		t.Errorf("a trial: %+v", r)
	}
	if r := s.again("c", false, "a", "b"); r.Host != "c" || r.Refused != "" {
		t.Fatalf("%+v", r)
	}
	if got := s.keys("c"); !slices.Equal(got, []string{"control/spec"}) {
		t.Errorf("the new record has %q", got)
	}
	s.put("c", "control/spec", "1")

	s.mark(s.away, "a", false)
	if _, err := s.at("a").store.List(t.Context(), "control/"); err == nil {
		t.Fatal("one host of three has a majority")
	}
	if err := s.at("a").findRecord(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ours, theirs := s.at("a").opt.Keeper.Record(), s.at("c").opt.Keeper.Record(); ours != theirs || ours == old {
		t.Errorf("host a keeps %s, host c %s", ours, theirs)
	}
	if got := s.keys("a"); !slices.Equal(got, []string{"control/spec"}) {
		t.Errorf("host a reads %q", got)
	}
}

// A host stays with its record while its member has a quorum, while it knows what the other record lacks, and while a majority
// keeps it: it says so, and does as soon as that is no longer so.
func TestWhoStaysWithRecord(t *testing.T) {
	s := threeKeepers(t)
	s.mark(s.away, "c", true)
	s.put("a", "control/spec", "5") // c does not hear of it
	s.cut(true, "a", "b")
	s.cut(false, "c")
	if r := s.again("c", false, "a", "b"); r.Host != "c" {
		t.Fatalf("%+v", r)
	}
	s.cut(false, "a", "b")
	for _, h := range []cluster.HostID{"a", "b"} {
		s.at(h).around = time.Time{}
		if err := s.at(h).findRecord(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := s.at(h).Problems(); len(p) != 1 || p[0].Code != "other-record" || !strings.Contains(p[0].Sentence, "host c keeps another record") {
			t.Errorf("host %s says %v", h, p)
		}
	}
	if r := s.again("a", false, "b"); r.Host != "" {
		t.Errorf("a majority keeps the first record: %+v", r)
	}

	s = threeKeepers(t)
	s.cut(true, "a", "b")
	if r := s.again("c", false, "a", "b"); r.Host != "c" {
		t.Fatalf("%+v", r)
	}
	says := func(want string) {
		t.Helper()
		_, err := s.at("a").store.List(t.Context(), "control/")
		if silent := err != nil; silent != s.is(s.away, "b") {
			t.Fatalf("host a reads its record: %v", err)
		}
		s.at("a").around = time.Time{}
		if err := s.at("a").findRecord(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := s.at("a").Problems(); len(p) != 1 || !strings.Contains(p[0].Sentence, want) {
			t.Errorf("it says %v, not %q", p, want)
		}
	}
	s.cut(false, "a", "b")
	says("a majority of the hosts that keep it answers")
	s.mark(s.away, "b", true)
	s.mark(s.serves, "a", true)
	says("reads through a quorum")
	s.mark(s.serves, "a", false)
	if err := s.at("a").findRecord(t.Context()); err != nil || len(s.at("a").Problems()) > 0 {
		t.Errorf("it says %v, %v", s.at("a").Problems(), err)
	}
	if s.at("a").opt.Keeper.Record() != s.at("c").opt.Keeper.Record() {
		t.Error("it stayed")
	}
}

func (s *keepers) looks(h cluster.HostID) {
	s.t.Helper()
	s.at(h).around = time.Time{}
	if err := s.at(h).findRecord(s.t.Context()); err != nil {
		s.t.Fatalf("host %s: %v", h, err)
	}
}

// reads has a host read the record, and hear that it is lost where it is.
func (s *keepers) reads(h cluster.HostID) error {
	_, err := s.at(h).store.List(s.t.Context(), "control/")
	return err
}

// cut has these hosts reach nobody, and nobody reach them.
func (s *keepers) cut(away bool, hosts ...cluster.HostID) {
	for _, h := range hosts {
		s.mark(s.away, h, away)
	}
}

func (s *keepers) same(a, b cluster.HostID) bool {
	return s.at(a).opt.Keeper.Record() == s.at(b).opt.Keeper.Record()
}

func (s *keepers) intent(at cluster.HostID) {
	s.t.Helper()
	in := &cluster.Intent{Name: "c", Generation: 1, Nonce: "n", Token: "t", State: cluster.IntentFounded, Cluster: 7}
	for i, h := range []cluster.HostID{"a", "b", "c"} {
		in.Voters = append(in.Voters, cluster.Voter{Host: h, Member: cluster.MemberID(i + 1)})
	}
	if _, err := s.at(at).folder.CreateIntent(s.t.Context(), in); err != nil {
		s.t.Fatal(err)
	}
}

// A majority that lives on without a third host stays with its record for ever, though nothing is written to it and a moment comes
// in which none of its hosts sees another.
func TestQuietMajorityStays(t *testing.T) {
	s := threeKeepers(t)
	s.intent("a")
	s.cut(true, "c")
	for range 2 {
		if err := s.at("a").lookAfterRecord(t.Context()); err == nil {
			t.Error("a voter cannot keep the record, and that is not told")
		}
	}
	s.cut(true, "a", "b")
	s.cut(false, "c")
	if r := s.again("c", false, "a", "b"); r.Host != "c" {
		t.Fatalf("%+v", r)
	}
	s.cut(false, "a")
	if err := s.reads("a"); err == nil {
		t.Fatal("one of three has a majority")
	}
	s.looks("a")
	s.cut(true, "a")
	s.cut(false, "b")
	if err := s.reads("b"); err == nil {
		t.Fatal("one of three has a majority")
	}
	s.looks("b")
	if s.same("a", "c") || s.same("b", "c") {
		t.Error("hosts of a cluster that served left it in a moment of silence")
	}
}

// Two hosts that were lost come back at the same time: they could serve as the cluster before, and see first that it goes on
// without them.
func TestLostHostsComeBackTogether(t *testing.T) {
	s := threeKeepers(t)
	s.intent("a")
	s.cut(true, "a", "b")
	if r := s.again("c", false, "a", "b"); r.Host != "c" {
		t.Fatalf("%+v", r)
	}
	s.cut(false, "a", "b")
	for _, h := range []cluster.HostID{"a", "b"} {
		if in, err := s.at(h).MayStart(t.Context()); err != nil || in == nil || in.Generation != 1 {
			t.Errorf("host %s: %+v, %v", h, in, err)
		}
		if !s.same(h, "c") {
			t.Errorf("host %s stays", h)
		}
	}

	for range 2 { // asked again, as after an agent that ended in between
		if in, err := s.at("a").MayStart(t.Context()); err != nil || in == nil || in.Generation != 1 {
			t.Errorf("once more: %+v, %v", in, err)
		}
	}

	// Those that know more do not start a member beside it, unless one runs that was never lost.
	s = threeKeepers(t)
	s.cut(true, "c")
	s.put("a", "control/spec", "5")
	s.cut(true, "a", "b")
	s.cut(false, "c")
	if r := s.again("c", false, "a", "b"); r.Host != "c" {
		t.Fatalf("%+v", r)
	}
	s.cut(false, "a", "b")
	if _, err := s.at("a").MayStart(t.Context()); err == nil || !strings.Contains(err.Error(), "knows more of the record") {
		t.Errorf("it may start: %v", err)
	}
	s.mark(s.runs, "b", true)
	if _, err := s.at("a").MayStart(t.Context()); err != nil {
		t.Errorf("beside a member that runs: %v", err)
	}
	if in, err := s.at("c").MayStart(t.Context()); err != nil || in != nil || s.same("a", "c") {
		t.Errorf("the founder of the new record: %+v, %v", in, err)
	}
	s.cut(true, "c")
	if _, err := s.at("a").MayStart(t.Context()); err != nil {
		t.Errorf("while the other record is silent: %v", err)
	}
}

// A host that is ready to keep the record, and never saw it, goes over as any other.
func TestReadyHostGoesOver(t *testing.T) {
	s := threeKeepers(t)
	s.host("d")
	s.cut(true, "a", "b")
	s.looks("d")
	if err := s.reads("d"); err == nil {
		t.Fatal("one of three has a majority")
	}
	if r := s.again("c", false, "a", "b"); r.Host != "c" {
		t.Fatalf("%+v", r)
	}
	s.at("d").heard = nil // it started anew
	_ = s.reads("d")
	s.looks("d")
	if !s.same("d", "c") {
		t.Error("it stays")
	}
}

// Who is asked before the record is made again, and what speaks against it.
func TestRecordIsNotMadeAgain(t *testing.T) {
	for name, x := range map[string]struct {
		world func(*keepers)
		lost  []cluster.HostID
		want  string // in the refusal; empty: it is made
	}{
		"its own member has a quorum": {func(s *keepers) { s.mark(s.serves, "c", true) }, []cluster.HostID{"a", "b"}, "etcd serves"},
		"a host is there and says nothing": {func(s *keepers) {
			s.cut(false, "b")
			s.mu.Lock()
			s.fails["b"] = peer.ErrOverload
			s.mu.Unlock()
		}, []cluster.HostID{"a", "b"}, "host b answers, and is named lost"},
		"one lost its file": {func(s *keepers) {
			s.cut(false, "b")
			s.host("b")
		}, []cluster.HostID{"a"}, ""},
		"the disk of one went back": {func(s *keepers) {
			s.cut(false, "b")
			s.mark(s.back, "b", true)
		}, []cluster.HostID{"a"}, ""},
		"its own disk went back": {func(s *keepers) { s.mark(s.back, "c", true) }, []cluster.HostID{"a", "b"}, "older than what others remember"},
		"a keeper that it never heard of": {func(s *keepers) {
			s.cut(false, "a", "b")
			s.cut(true, "c")
			s.host("f")
			s.join("f")
			s.host("d")
			s.looks("d")
			s.cut(true, "a", "b", "f")
			s.cut(false, "c")
			f := s.at("f")
			s.mu.Lock()
			delete(s.of, "f") // nobody but d has heard of it
			s.mu.Unlock()
			s.at("d").heard = []register.Seat{}
			_ = s.at("d").opt.Keeper.Learned(s.t.Context(), newest(s.t, f))
		}, []cluster.HostID{"a", "b"}, "host f"},
		"a move that may come true": {func(s *keepers) {
			s.at("c").opt.BeforeAgain = func(context.Context, string, bool) (func(), string) { return func() {}, "the store is silent" }
		}, []cluster.HostID{"a", "b"}, "the store is silent"},
		"a move that was called off": {func(s *keepers) {
			s.at("c").opt.BeforeAgain = func(context.Context, string, bool) (func(), string) { return func() {}, "" }
		}, []cluster.HostID{"a", "b"}, ""},
		"a seal that may be chosen": {func(s *keepers) {
			s.cut(false, "a", "b")
			doc, err := s.at("a").record.Document(s.t.Context())
			if err == nil {
				_, err = s.at("a").record.Seal(s.t.Context(), doc, register.Moved{To: "n", Store: "s3://bucket/folder"})
			}
			if err != nil {
				s.t.Fatal(err)
			}
			s.cut(true, "a", "b")
			s.at("c").opt.Anyway = func(context.Context, register.Entry, bool) string { return "" }
		}, []cluster.HostID{"a", "b"}, "this host goes on there"},
	} {
		t.Run(name, func(t *testing.T) {
			s := threeKeepers(t)
			s.cut(true, "a", "b")
			x.world(s)
			r := s.again("c", false, x.lost...)
			if x.want == "" && (r.Refused != "" || r.Host != "c") || x.want != "" && !strings.Contains(r.Refused, x.want) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func newest(t *testing.T, k *Part) register.Entry {
	t.Helper()
	state, err := k.opt.Keeper.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state.Newest()
}

// Of two records that were made from one, a host that comes back takes neither; one that was made from the other it takes.
func TestForks(t *testing.T) {
	s := threeKeepers(t)
	s.cut(true, "a", "b")
	if r := s.again("c", false, "a", "b"); r.Host != "c" {
		t.Fatalf("%+v", r)
	}
	s.cut(true, "c")
	s.cut(false, "b")
	if r := s.again("b", false, "a", "c"); r.Host != "b" {
		t.Fatalf("%+v", r)
	}
	s.cut(false, "a", "c")
	before := s.at("a").opt.Keeper.Record()
	s.at("a").record.Decide(t.Context())
	s.looks("a")
	if p := s.at("a").Problems(); len(p) != 1 || !strings.Contains(p[0].Sentence, "two records of the cluster") || s.at("a").opt.Keeper.Record() != before {
		t.Errorf("it says %v", p)
	}
	s.host("d")
	if err := s.at("d").findRecord(t.Context()); err == nil || s.at("d").opt.Keeper.Record() != "" {
		t.Errorf("a new host takes one of three: %v", err)
	}
	s.cut(true, "c")
	s.looks("d")
	if !s.same("d", "b") {
		t.Error("a new host does not take the record that was made from the other")
	}
}

// Each host deals with the backups of its own record only.
func TestBackupsOfOtherRecord(t *testing.T) {
	s := threeKeepers(t)
	s.cut(true, "a", "b")
	if r := s.again("c", false, "a", "b"); r.Host != "c" {
		t.Fatalf("%+v", r)
	}
	s.put("c", "backup/etcd.gz", "x")
	s.cut(false, "a", "b")
	if list, err := s.at("a").store.List(t.Context(), "backup/"); err != nil || len(list) != 0 {
		t.Errorf("host a lists %v, %v", list, err)
	}
	if err := s.at("a").store.Delete(t.Context(), "backup/etcd.gz"); err != nil {
		t.Error(err)
	}
	if list, err := s.at("c").store.List(t.Context(), "backup/"); err != nil || len(list) != 1 {
		t.Errorf("host c has %v, %v", list, err)
	}
}

// A boot never depends on others, nor on how fast the own disk is: only what was heard of another record keeps a member from its
// start.
func TestBootDependsOnNobody(t *testing.T) {
	s := threeKeepers(t)
	s.intent("a")
	s.cut(true, "b", "c")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := s.at("a").MayStart(ctx); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	s.cut(false, "b", "c")
	for range 20 {
		if _, err := s.at("a").MayStart(ended); err != nil {
			t.Error(err)
		}
	}
}

// What keeps a host that just booted from starting its member beside a record that was made again.
func TestWhoDoesNotStart(t *testing.T) {
	// A new host that has no document yet does not hide what another one has.
	s := threeKeepers(t)
	s.intent("a")
	s.cut(true, "a", "b")
	if r := s.again("c", false, "a", "b"); r.Host != "c" {
		t.Fatalf("%+v", r)
	}
	s.host("aa")
	s.looks("aa")
	s.cut(false, "a")
	if in, err := s.at("a").MayStart(t.Context()); err != nil || in == nil || !s.same("a", "c") {
		t.Errorf("beside a new host: %+v, %v", in, err)
	}

	// Two records that were made from its own are no silence.
	s = threeKeepers(t)
	s.cut(true, "a", "b")
	if r := s.again("c", false, "a", "b"); r.Host != "c" {
		t.Fatalf("%+v", r)
	}
	s.cut(true, "c")
	s.cut(false, "b")
	if r := s.again("b", false, "a", "c"); r.Host != "b" {
		t.Fatalf("%+v", r)
	}
	s.cut(false, "a", "c")
	if _, err := s.at("a").MayStart(t.Context()); err == nil || !strings.Contains(err.Error(), "two records") {
		t.Errorf("beside two records: %v", err)
	}

	// A host that was off leaves nobody behind who knows more than it does.
	s = threeKeepers(t)
	s.cut(true, "a")
	s.put("b", "control/spec", "3")
	s.cut(true, "b")
	s.cut(false, "a")
	s.cut(true, "c")
	if r := s.again("a", false, "b", "c"); r.Host != "a" {
		t.Fatalf("%+v", r)
	}
	s.cut(false, "b", "c")
	s.mark(s.runs, "b", true)
	s.at("c").heard = nil
	if _, err := s.at("c").MayStart(t.Context()); err != nil || s.same("c", "a") {
		t.Errorf("beside a host that knows more: %v", err)
	}
}
