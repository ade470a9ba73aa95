package keeping

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/hosts"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/register"
)

func (s *keepers) file(h cluster.HostID) string { return filepath.Join(s.dirs[h], keeper.FileName) }

func (s *keepers) image(h cluster.HostID) []byte {
	s.t.Helper()
	data, err := os.ReadFile(s.file(h))
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// restart starts the daemon of a host anew; with an image, on that.
func (s *keepers) restart(h cluster.HostID, image []byte) {
	s.t.Helper()
	if image != nil {
		if err := os.WriteFile(s.file(h), image, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	s.start(h, s.dirs[h])
}

func (s *keepers) write(at cluster.HostID, text string) error {
	_, err := blob.PutBytes(s.t.Context(), s.at(at).store, "control/spec", []byte(text), blob.Any)
	return err
}

func (s *keepers) spec(at cluster.HostID) (string, error) {
	data, _, err := blob.ReadAll(s.t.Context(), s.at(at).store, "control/spec", 1<<10)
	return string(data), err
}

// The disk of a keeper is put back while nobody can say so. Another one, which did not see what that keeper accepted
// since, finds no majority with it, and what was chosen stays (SAFETY.md, rule 29).
func TestKeeperThatForgotDecidesNothing(t *testing.T) {
	s := threeKeepers(t)
	s.put("a", "control/spec", "3")
	image := s.image("a")
	s.cut(true, "b")
	s.put("c", "control/spec", "5")
	s.cut(true, "c")
	s.cut(false, "b")
	s.mark(s.unsure, "a", true)
	s.restart("a", image)
	for _, at := range []cluster.HostID{"b", "a"} {
		if err := s.write(at, "7"); err == nil {
			t.Errorf("host %s has another document chosen beside one that was", at)
		}
		if got, err := s.spec(at); err == nil {
			t.Errorf("host %s reads %q, which was replaced", at, got)
		}
	}
	if err := s.write("b", "7"); !errors.Is(err, hosts.ErrUnconfirmed) || !strings.Contains(err.Error(), "etcdadm host confirm-disk") {
		t.Errorf("it is told: %v", err)
	}
	if s.at("b").record.Silent() || s.at("a").record.Silent() {
		t.Error("the majority is there, and is taken for lost")
	}
	s.cut(false, "c")
	if got, err := s.spec("b"); err != nil || got != "5" {
		t.Errorf("with the third host it reads %q, %v", got, err)
	}
}

// A host that is unconfirmed answers no message and no enrolment, keeps what it has, and reads what the others have
// alike.
func TestUnconfirmedHostAnswersNothing(t *testing.T) {
	s := threeKeepers(t)
	s.put("a", "control/spec", "3")
	state, err := s.at("a").opt.Keeper.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.mark(s.unsure, "a", true)
	s.restart("a", nil)
	before := s.image("a")
	from := peer.Caller{Identity: pki.Identity{Cluster: "c", Role: pki.RoleHost, ID: "b"}}
	next, err := state.Newest().Doc.With("control/spec", nil)
	if err != nil {
		t.Fatal(err)
	}
	e := register.Entry{Ballot: register.Ballot{Number: 99, Nonce: "n"}, Part: register.Next, Doc: next}
	for kind, e := range map[register.Kind]register.Entry{register.Ask: {}, register.Prepare: {Ballot: e.Ballot}, register.Accept: e, register.Learn: e} {
		m := register.Message{Kind: kind, Record: state.Record, To: state.Seat, Entry: e}
		if r, err := s.at("a").Answer(t.Context(), from, peer.KeepRequest{Message: &m}); err != nil || r.Reply.Refused != register.Unconfirmed || r.Reply.Accepted.Doc != nil {
			t.Errorf("message %d: %+v, %v", kind, r.Reply, err)
		}
	}
	if r, err := s.at("a").Answer(t.Context(), from, peer.KeepRequest{Enrol: state.Record}); err == nil {
		t.Errorf("it is ready to keep the record: %+v", r.Seat)
	}
	if _, err := s.at("a").enrol(t.Context(), "a", state.Record); err == nil {
		t.Error("it is ready for its own daemon")
	}
	if string(s.image("a")) != string(before) {
		t.Error("its file changed")
	}
	if got, err := s.spec("a"); err != nil || got != "3" {
		t.Errorf("it reads %q, %v", got, err)
	}
	if err := s.write("a", "5"); !errors.Is(err, errUnconfirmed) || s.at("a").record.Silent() {
		t.Errorf("it writes: %v", err)
	}
	s.mark(s.unsure, "a", false)
	if err := s.write("a", "5"); err != nil {
		t.Errorf("confirmed, it does not write: %v", err)
	}
}

// A host that hears in the middle of an attempt that its disk is behind does not count what its own keeper said.
func TestHearsThatItIsBehindByAnAnswer(t *testing.T) {
	s := threeKeepers(t)
	s.put("a", "control/spec", "3")
	image := s.image("a")
	s.cut(true, "b")
	s.put("c", "control/spec", "5")
	s.cut(true, "c")
	s.cut(false, "b")
	s.restart("a", image)
	s.mu.Lock()
	s.says = func(from, to cluster.HostID) { // b remembers more of this disk, and its answer says so
		if from == "a" && to == "b" {
			s.mark(s.back, "a", true)
		}
	}
	s.mu.Unlock()
	if got, err := s.spec("a"); err == nil {
		t.Errorf("it reads %q, which was replaced", got)
	}
	s.mark(s.back, "a", false)
	if err := s.write("a", "7"); err == nil {
		t.Error("it writes beside what was chosen")
	}
}

// Nothing is forgotten of a seat that this daemon minted, and no host can confirm the only one of a cluster. One whose
// record names another voter waits for that.
func TestWhoAnswersUnconfirmed(t *testing.T) {
	s := threeKeepers(t)
	s.mark(s.unsure, "c", true)
	s.restart("c", nil)
	s.cut(true, "a", "b")
	if r := s.again("c", false, "a", "b"); r.Host != "c" || r.Refused != "" {
		t.Fatalf("the record is not made again: %+v", r)
	}
	if err := s.write("c", "1"); err != nil {
		t.Errorf("by a seat that was minted now: %v", err)
	}
	s.restart("c", nil)
	if err := s.write("c", "2"); err != nil {
		t.Errorf("it keeps the record alone: %v", err)
	}
	for name, in := range map[string]*cluster.Intent{
		"a voter":        {Name: "c", Generation: 1, Nonce: "n", Token: "t", State: cluster.IntentFounded, Cluster: 7, Voters: []cluster.Voter{{Host: "c", Member: 1}, {Host: "a", Member: 2}}},
		"a voter to be":  {Name: "c", Generation: 1, Nonce: "n", Token: "t", State: cluster.IntentFounded, Cluster: 7, Voters: []cluster.Voter{{Host: "c", Member: 1}}, Next: []cluster.Voter{{Host: "c", Member: 1}, {Host: "a", Member: 2}}},
		"no other voter": {Name: "c", Generation: 1, Nonce: "n", Token: "t", State: cluster.IntentFounded, Cluster: 7, Voters: []cluster.Voter{{Host: "c", Member: 1}}},
	} {
		s := &keepers{t: t, dirs: map[cluster.HostID]string{}, of: map[cluster.HostID]*Part{}, unsure: map[cluster.HostID]bool{}}
		s.host("c")
		if _, err := s.at("c").opt.Keeper.Found(t.Context(), "c", s.at("c").opt.Mint, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.at("c").folder.CreateIntent(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		s.mark(s.unsure, "c", true)
		s.restart("c", nil)
		if err := s.write("c", "3"); (err == nil) != (name == "no other voter") {
			t.Errorf("its record names %s: %v", name, err)
		}
	}
}

// An unconfirmed host that goes on as a new disk gives its seat up, whatever the reason: no later word is about the
// disk that promised.
func TestUnconfirmedSeatIsGivenUp(t *testing.T) {
	s := threeKeepers(t)
	s.mark(s.unsure, "a", true)
	s.restart("a", nil)
	was := seatAt(t, s.at("a"))
	if err := s.at("a").Forget(t.Context()); err != nil || seatAt(t, s.at("a")) == was {
		t.Errorf("it keeps its seat: %v", err)
	}
	s.mark(s.unsure, "a", false) // a new disk
	s.restart("a", nil)
	s.put("a", "control/spec", "3")
}

func seatAt(t *testing.T, k *Part) register.Seat {
	t.Helper()
	state, err := k.opt.Keeper.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state.Seat
}

// While a majority may be there, unconfirmed, the record is not made again, and the refusal says what to do.
func TestNotMadeAgainBesideUnconfirmed(t *testing.T) {
	s := threeKeepers(t)
	s.mark(s.unsure, "a", true)
	s.restart("a", nil)
	s.cut(true, "c")
	if r := s.again("b", false, "c"); r.Host != "" && r.Refused == "" || !strings.Contains(r.Refused, "etcdadm host confirm-disk a") {
		t.Errorf("%+v", r)
	}
}

// A host that does not answer for the record says so after some seconds, with the hosts that it waits for and the way
// out.
func TestUnconfirmedHostSaysSo(t *testing.T) {
	s := threeKeepers(t)
	s.mark(s.unsure, "a", true)
	s.restart("a", nil)
	a := s.at("a")
	a.opt.Unheard = func() []cluster.HostID { return []cluster.HostID{"b", "c"} }
	a.watchUnsure(t.Context())
	if p := a.Problems(); len(p) > 0 {
		t.Errorf("at once it says %v", p)
	}
	a.mu.Lock()
	a.unsure = a.unsure.Add(-unsureFor)
	a.mu.Unlock()
	a.watchUnsure(t.Context())
	p := a.Problems()
	if len(p) != 1 || p[0].Code != "disk-unconfirmed" || !strings.Contains(p[0].Sentence, "b, c") || !strings.Contains(p[0].Hint, "etcdadm host confirm-disk a") {
		t.Errorf("it says %v", p)
	}
	s.mark(s.unsure, "a", false)
	a.watchUnsure(t.Context())
	if p := a.Problems(); len(p) > 0 {
		t.Errorf("confirmed, it says %v", p)
	}
}
