package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strings"
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
	t    *testing.T
	of   map[cluster.HostID]*keeping
	away map[cluster.HostID]bool
}

// caller asks a host as another host does.
type caller struct {
	s        *keepers
	from, at cluster.HostID
}

func (c caller) Keep(ctx context.Context, r peer.KeepRequest) (peer.KeepReply, error) {
	if c.s.away[c.at] || c.s.away[c.from] {
		return peer.KeepReply{}, errors.New("unreachable")
	}
	return c.s.of[c.at].answer(ctx, peer.Caller{Identity: pki.Identity{Cluster: "c", Role: pki.RoleHost, ID: string(c.from)}}, r)
}

// threeKeepers have a record that all three keep.
func threeKeepers(t *testing.T) *keepers {
	s := &keepers{t, map[cluster.HostID]*keeping{}, map[cluster.HostID]bool{}}
	hosts := []cluster.HostID{"a", "b", "c"}
	for _, h := range hosts {
		k, err := keeper.Open(t.TempDir(), durable.OS())
		if err != nil {
			t.Fatal(err)
		}
		s.of[h] = &keeping{
			id: func() cluster.HostID { return h }, contacts: func() (out []cluster.Contact) {
				for _, h := range hosts {
					out = append(out, cluster.Contact{Host: h})
				}
				return out
			},
			to:       func(to cluster.Contact) (kept.Client, error) { return caller{s, h, to.Host}, nil },
			wentBack: func() bool { return false }, serves: func(context.Context) bool { return false },
			log: slog.New(slog.DiscardHandler), keeper: k, own: memory.New(),
		}
		s.of[h].stores("c")
	}
	if _, err := s.of["a"].keeper.Found(t.Context(), "a", rand.Text, nil); err != nil {
		t.Fatal(err)
	}
	s.join("b", "c")
	return s
}

// join has hosts keep the record that the first host keeps.
func (s *keepers) join(hosts ...cluster.HostID) {
	s.t.Helper()
	for _, h := range hosts {
		if err := s.of[h].findRecord(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		doc, err := s.of["a"].record.Document(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		seat, err := s.of[h].keeper.Enrol(s.t.Context(), h, doc.Record, rand.Text)
		if err != nil {
			s.t.Fatal(err)
		}
		if _, err := s.of["a"].record.ChangeKeepers(s.t.Context(), register.Wanted(doc, []cluster.HostID{"a", "b", "c"}, []register.Seat{doc.Keepers[0], seat})); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *keepers) put(at cluster.HostID, key, text string) {
	s.t.Helper()
	if _, err := s.of[at].store.Put(s.t.Context(), key, bytes.NewReader([]byte(text)), blob.Any); err != nil {
		s.t.Fatal(err)
	}
}

func (s *keepers) keys(at cluster.HostID) (out []string) {
	s.t.Helper()
	list, err := s.of[at].store.List(s.t.Context(), "control/")
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
	r, err := s.of[at].answer(s.t.Context(), peer.Caller{Identity: pki.Identity{Cluster: "c", Role: pki.RoleOperator, ID: "ann"}},
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
	old := s.of["c"].keeper.Record()
	if r := s.again("c", false, "a", "b"); r.Host != "" || r.Refused != "" {
		t.Errorf("while all answer: %+v", r)
	}
	s.away["a"], s.away["b"] = true, true
	if r := s.again("c", false, "a"); !strings.Contains(r.Refused, "host b does not answer") {
		t.Errorf("one of two is named: %+v", r)
	}
	if r := s.again("c", true, "a", "b"); r.Host != "c" || r.Refused != "" || s.of["c"].keeper.Record() != old {
		t.Errorf("a trial: %+v", r)
	}
	if r := s.again("c", false, "a", "b"); r.Host != "c" || r.Refused != "" {
		t.Fatalf("%+v", r)
	}
	if got := s.keys("c"); !slices.Equal(got, []string{"control/spec"}) {
		t.Errorf("the new record has %q", got)
	}
	s.put("c", "control/spec", "1")

	s.away["a"] = false
	if _, err := s.of["a"].store.List(t.Context(), "control/"); err == nil {
		t.Fatal("one host of three has a majority")
	}
	if err := s.of["a"].findRecord(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ours, theirs := s.of["a"].keeper.Record(), s.of["c"].keeper.Record(); ours != theirs || ours == old {
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
	s.away["c"] = true
	s.put("a", "control/spec", "5") // c does not hear of it
	s.away["a"], s.away["b"], s.away["c"] = true, true, false
	if r := s.again("c", false, "a", "b"); r.Host != "c" {
		t.Fatalf("%+v", r)
	}
	s.away["a"], s.away["b"] = false, false
	for _, h := range []cluster.HostID{"a", "b"} {
		s.of[h].around = time.Time{}
		if err := s.of[h].findRecord(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := s.of[h].problems(); len(p) != 1 || p[0].Code != "other-record" || !strings.Contains(p[0].Sentence, "host c keeps another record") {
			t.Errorf("host %s says %v", h, p)
		}
	}
	if r := s.again("a", false, "b"); r.Host != "" {
		t.Errorf("a majority keeps the first record: %+v", r)
	}

	s = threeKeepers(t)
	s.away["a"], s.away["b"] = true, true
	if r := s.again("c", false, "a", "b"); r.Host != "c" {
		t.Fatalf("%+v", r)
	}
	serves := false
	s.of["a"].serves = func(context.Context) bool { return serves }
	says := func(want string) {
		t.Helper()
		_, err := s.of["a"].store.List(t.Context(), "control/")
		if silent := err != nil; silent != s.away["b"] {
			t.Fatalf("host a reads its record: %v", err)
		}
		s.of["a"].around = time.Time{}
		if err := s.of["a"].findRecord(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := s.of["a"].problems(); len(p) != 1 || !strings.Contains(p[0].Sentence, want) {
			t.Errorf("it says %v, not %q", p, want)
		}
	}
	s.away["a"], s.away["b"] = false, false
	says("a majority of the hosts that keep it answers")
	s.away["b"], serves = true, true
	says("reads through a quorum")
	serves = false
	if err := s.of["a"].findRecord(t.Context()); err != nil || len(s.of["a"].problems()) > 0 {
		t.Errorf("it says %v, %v", s.of["a"].problems(), err)
	}
	if s.of["a"].keeper.Record() != s.of["c"].keeper.Record() {
		t.Error("it stayed")
	}
}
