package keeping

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
)

func (s *keepers) seals(t *testing.T) {
	t.Helper()
	doc, err := s.at("a").record.Decide(t.Context())
	if err == nil {
		_, err = s.at("a").record.Seal(t.Context(), doc, register.Moved{To: "n", Store: "s3://bucket/folder"})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A host that boots beside hosts that followed the record hears what they keep there: its generation may be closed.
func TestMayStartHearsOfTheNextPlace(t *testing.T) {
	s := threeKeepers(t)
	s.intent("a")
	second := &cluster.Intent{Name: "c", Generation: 2, Nonce: "n", Token: "u", Cluster: 8, State: cluster.IntentFounded}
	s.mu.Lock()
	s.followed = map[cluster.HostID]*cluster.Intent{"c": second}
	s.mu.Unlock()
	in, err := s.at("a").MayStart(t.Context())
	if err != nil || in == nil || in.Generation != 2 {
		t.Errorf("a host that has not followed: %+v %v", in, err)
	}
	if in := s.at("b").Beyond(t.Context(), ""); in == nil || in.Generation != 2 {
		t.Errorf("one that has: %+v", in)
	}
	s.cut(true, "c")
	if in, err := s.at("a").MayStart(t.Context()); err != nil || in == nil || in.Generation != 1 {
		t.Errorf("silence is consent: %+v %v", in, err)
	}
}

// A host that can hear that its record is sealed to what it was offered follows before its member starts.
func TestFollowsBeforeItStarts(t *testing.T) {
	s := threeKeepers(t)
	s.intent("a")
	s.seals(t)
	offer := ""
	s.at("b").opt.Offered = func(to string) bool { return to == offer }
	if _, err := s.at("b").MayStart(t.Context()); err != nil {
		t.Errorf("without an offer: %v", err)
	}
	offer = "n"
	if _, err := s.at("b").MayStart(t.Context()); err == nil || !strings.Contains(err.Error(), "follows first") {
		t.Errorf("with the offer: %v", err)
	}
}

// asFollowed is the answer of a host that has followed.
func asFollowed(in *cluster.Intent, reply peer.KeepReply) peer.KeepReply {
	reply.Place, reply.Intent = "n", in
	return reply
}

// A sealed document that a host hears of is on its disk at once, and its keeper takes nothing else after.
func TestSealIsKept(t *testing.T) {
	s := threeKeepers(t)
	s.seals(t)
	state, err := s.at("a").opt.Keeper.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := state.Newest()
	k := register.NewKeeper(register.Seat{Host: "c", Keeper: "k"}, state.Record)
	for name, next := range map[string]register.Keeper{
		"learned": first(k.Handle(register.Message{Kind: register.Learn, Record: k.Record, To: k.Seat, Entry: last})),
		"kept":    k.Last(last),
	} {
		if next.Accepted.Doc.Moved == nil || next.Check() != "" {
			t.Errorf("%s: %+v", name, next)
		}
		other, err := register.Found(k.Record, k.Seat, nil)
		if err != nil {
			t.Fatal(err)
		}
		late := register.Entry{Ballot: last.Ballot, Part: last.Part, Doc: other}
		late.Ballot.Number += 5
		if _, reply := next.Handle(register.Message{Kind: register.Accept, Record: k.Record, To: k.Seat, Entry: late}); reply.Refused == "" {
			t.Errorf("%s: the record goes on", name)
		}
	}
}

func first(k register.Keeper, _ register.Reply) register.Keeper { return k }

// keptAt has hosts keep an intent where they followed the record to.
func (s *keepers) keptAt(in *cluster.Intent, hosts ...cluster.HostID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followed = map[cluster.HostID]*cluster.Intent{}
	for _, h := range hosts {
		s.followed[h] = in
	}
}

// A host whose disk knows no addresses asks the endpoints that it was given.
func TestSeedsAreAsked(t *testing.T) {
	s := threeKeepers(t)
	s.keptAt(&cluster.Intent{Generation: 7}, "c")
	b := s.at("b")
	b.opt.Contacts = func() []cluster.Contact { return nil }
	b.opt.Seeds = func(context.Context) []string { return []string{"c"} }
	b.opt.To = func(to cluster.Contact) (kept.Client, error) { return caller{s, "b", cluster.HostID(to.Endpoint)}, nil }
	if in := b.Beyond(t.Context(), ""); in == nil || in.Generation != 7 {
		t.Errorf("%+v", in)
	}
}

// A host that is heard of between the look whom to ask and that at the seeds is asked all the same.
func TestHeardOfWhileItAsks(t *testing.T) {
	s := threeKeepers(t)
	s.intent("a")
	for range 5000 { // it learns a moment later that its write was chosen
		if state, err := s.at("a").opt.Keeper.State(t.Context()); err != nil || state.Chosen.Doc.Objects[control.KeyIntent].Data != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	record := s.at("a").Record()
	s.host("b") // it knows nobody
	b, looked := s.at("b"), make(chan bool, 10)
	b.opt.Contacts = func() []cluster.Contact {
		if looked <- true; len(looked) > 2 {
			return []cluster.Contact{{Host: "a", Endpoint: "a"}}
		}
		return nil
	}
	b.opt.Seeds = func(ctx context.Context) []string {
		for len(looked) < 2 && ctx.Err() == nil {
			runtime.Gosched()
		}
		return []string{"a"}
	}
	b.opt.To = func(to cluster.Contact) (kept.Client, error) { return caller{s, "b", cluster.HostID(to.Endpoint)}, nil }
	if in := b.Beyond(t.Context(), record); in == nil || in.Generation != 1 {
		t.Errorf("%+v", in)
	}
}

// A source of seeds that stands still keeps nobody's answer back.
func TestASilentSeedKeepsNoAnswerBack(t *testing.T) {
	for name, seeds := range map[string]func(context.Context) []string{
		"the source":  func(ctx context.Context) []string { time.Sleep(10 * time.Second); return nil },
		"one of them": func(context.Context) []string { return []string{"dead"} },
	} {
		s := threeKeepers(t)
		s.keptAt(&cluster.Intent{Generation: 7}, "c")
		b := s.at("b")
		b.opt.Seeds = seeds
		to := b.opt.To
		b.opt.To = func(c cluster.Contact) (kept.Client, error) {
			if c.Endpoint == "dead" {
				time.Sleep(10 * time.Second)
				return nil, errors.New("it is silent")
			}
			return to(c)
		}
		began := time.Now()
		in := b.Beyond(t.Context(), "")
		if took := time.Since(began); took > bootAsks+time.Second {
			t.Errorf("%s: %s", name, took)
		}
		if in == nil || in.Generation != 7 {
			t.Errorf("%s: %+v", name, in)
		}
	}
}

// A host whose store was left for the record of others hears what generation they keep, by what is chosen there.
func TestBeyondAStoreThatWasLeft(t *testing.T) {
	s := threeKeepers(t)
	s.intent("a")
	record := s.at("a").Record()
	s.host("b") // it keeps nothing
	other := s.at("b")
	if in := other.Beyond(t.Context(), record); in == nil || in.Generation != 1 {
		t.Errorf("%+v", in)
	}
	if in := other.Beyond(t.Context(), "another"); in != nil {
		t.Errorf("of another record: %+v", in)
	}
	if in := (*Part)(nil).Beyond(t.Context(), record); in != nil {
		t.Errorf("%+v", in)
	}
}

// A host of which others tell that its disk went back takes another seat than the one that it was offered, also when it was not
// known to have gone back when it began.
func TestTakesAnotherSeatOnADiskThatWentBack(t *testing.T) {
	for _, back := range []bool{false, true} {
		s := threeKeepers(t)
		s.host("b")
		seat := register.Seat{Host: "b", Keeper: "k-b"}
		doc, err := register.Begin("N", []register.Seat{seat}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.mark(s.back, "b", back)
		if err := s.at("b").TakeUp(t.Context(), doc, false); err != nil {
			t.Fatal(err)
		}
		if state, err := s.at("b").opt.Keeper.State(t.Context()); err != nil || (state.Seat == seat) == back {
			t.Errorf("went back %t: it has seat %+v, %v", back, state.Seat, err)
		}
	}
}

// A host that takes up a record which was made again meanwhile goes over before it has answered by its seat; one whose record goes on, or is
// silent, takes up its seat. Asked again it does nothing.
func TestTakesUpWhatTheRecordBecame(t *testing.T) {
	for name, c := range map[string]struct {
		again, away, serves, over bool
		token                     string // of its member
		early                     bool   // the other record has the same generation still
	}{
		"made again":                     {again: true, over: true},
		"made again, beside what serves": {again: true, serves: true, token: "t"},
		"made again, and not founded":    {again: true, serves: true, token: "t", early: true},
		"made again, and it was let in":  {again: true, serves: true, token: "u", over: true},
		"made again, and silent":         {again: true, away: true},
		"it goes on":                     {},
	} {
		s := threeKeepers(t)
		s.host("a")
		s.host("b")
		s.host("c")
		var seats []register.Seat
		for _, h := range []cluster.HostID{"a", "b", "c"} {
			seats = append(seats, register.Seat{Host: h, Keeper: "k-" + string(h)})
		}
		doc, err := register.Begin("N", seats, map[string]register.Object{control.KeyIntent: {Tag: "1", Data: []byte(`{"name":"c","generation":1,"nonce":"n","token":"t","state":"founded","cluster":"7"}`)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.at("a").TakeUp(t.Context(), doc, false); err != nil {
			t.Fatal(err)
		}
		if c.again {
			s.cut(true, "b", "c")
			if r := s.again("a", false, "b", "c"); r.Host != "a" {
				t.Fatalf("%s: %+v", name, r)
			}
			second := &cluster.Intent{Name: "c", Generation: 2, Nonce: "m", Token: "u", State: cluster.IntentFounded, Cluster: 8, History: []cluster.PastGeneration{{Generation: 1, Cluster: 7, Closed: true}}}
			data, err := json.Marshal(second)
			if err == nil && !c.early {
				_, err = blob.PutBytes(t.Context(), s.at("a").store, control.KeyIntent, data, blob.Any)
			}
			if err != nil {
				t.Fatal(err)
			}
			s.cut(false, "b", "c")
		}
		s.mark(s.away, "a", c.away)
		s.mark(s.serves, "b", c.serves)
		s.tokens = map[cluster.HostID]string{"b": c.token}
		serves, unknown := s.at("b").opt.Serves, errors.New("the host is starting")
		s.at("b").opt.Serves = func(context.Context, *cluster.Intent) (bool, error) { return false, unknown }
		if err := s.at("b").TakeUp(t.Context(), doc, false); errors.Is(err, unknown) != (c.again && !c.away) {
			t.Errorf("%s, and whether its member has a quorum is not known: %v", name, err)
		}
		s.at("b").opt.Serves = serves
		for range 2 {
			if err := s.at("b").TakeUp(t.Context(), doc, false); err != nil || s.same("a", "b") != (c.over || !c.again) {
				t.Errorf("%s: %v, it keeps %q", name, err, s.at("b").Record())
			}
		}
		state, err := s.at("b").opt.Keeper.State(t.Context())
		if seated := state.Seat == seats[1]; err != nil || seated == c.over {
			t.Errorf("%s: %+v %v", name, state, err)
		}
		if is := s.at("c").Counts(t.Context(), "N"); !is || s.at("c").Counts(t.Context(), "M") {
			t.Errorf("%s: whether it counts: %v", name, is)
		}
	}
}
