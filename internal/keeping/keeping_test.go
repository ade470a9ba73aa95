package keeping

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/durable"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/kept"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/register"
)

// Who may ask what of a host that keeps the record, and when it answers nothing.
func TestWhoIsAnsweredByAKeeper(t *testing.T) {
	ctx := t.Context()
	file, err := keeper.Open(t.TempDir(), durable.OS())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := file.Found(ctx, "a", rand.Text, nil)
	if err != nil {
		t.Fatal(err)
	}
	wentBack, asked := false, true
	k := New(Options{
		Self: func() cluster.HostID { return "a" }, Cluster: "c", Contacts: func() []cluster.Contact { return nil },
		To:       func(cluster.Contact) (kept.Client, error) { return nil, errors.New("nobody") },
		WentBack: func() bool { return wentBack }, Asked: func() bool { return asked }, Sure: func() bool { return true }, Keeper: file, Own: memory.New(), Mint: rand.Text,
	})
	host := peer.Caller{Identity: pki.Identity{Cluster: "c", Role: pki.RoleHost, ID: "b"}}
	person := peer.Caller{Identity: pki.Identity{Cluster: "c", Role: pki.RoleOperator, ID: "b"}}
	ask := peer.KeepRequest{Message: &register.Message{Kind: register.Ask, Record: doc.Record, To: doc.Keepers[0]}}
	if r, err := k.Answer(ctx, host, ask); err != nil || r.Reply.Refused != "" || !r.Reply.Accepted.Doc.Same(doc) {
		t.Errorf("a host: %+v, %v", r.Reply, err)
	}
	for name, r := range map[string]peer.KeepRequest{
		"a message": ask, "enrolment": {Enrol: doc.Record}, "where": {Where: true},
		"a host's own part": {Object: &peer.ObjectRequest{Op: peer.ObjectList, Own: true}},
	} {
		if _, err := k.Answer(ctx, person, r); !errors.Is(err, peer.ErrRole) {
			t.Errorf("%s by a person: %v", name, err)
		}
	}
	// A person's name may be that of a host.
	r, err := k.Answer(ctx, person, peer.KeepRequest{Object: &peer.ObjectRequest{Op: peer.ObjectFetch, Key: "backup/x"}})
	if err != nil || !strings.Contains(r.Object.Error, "is not done with objects") {
		t.Errorf("a fetch by a person: %+v, %v", r.Object, err)
	}
	asked = false
	if _, err := k.Answer(ctx, host, ask); err == nil || !strings.Contains(err.Error(), "asks the others") {
		t.Errorf("before the others were asked about the disk: %v", err)
	}
	asked, wentBack = true, true
	if _, err := k.Answer(ctx, host, ask); err == nil || !strings.Contains(err.Error(), "older than what others remember") {
		t.Errorf("a disk that went back answers: %v", err)
	}
	if _, err := k.sayToKeeper(ctx, *ask.Message); err == nil {
		t.Error("… its own daemon")
	}
}

// Who joins a cluster learns within moments where its record is, and who finds none asks seldom in the end.
func TestWhoJoinsAsksSoon(t *testing.T) {
	for _, c := range []struct {
		silent, within time.Duration
		knows          bool
	}{
		{100 * time.Millisecond, whereSoon, true},
		{soonFor + whereEvery + whereSoon, whereSoon, false},
		{soonFor + whereEvery + whereSoon, whereEvery, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := threeKeepers(t)
			s.host("d")
			s.cut(true, "d")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go s.at("d").Run(ctx) //nolint:errcheck // it ends by ctx
			time.Sleep(c.silent)
			s.cut(false, "d")
			time.Sleep(c.within)
			synctest.Wait()
			if knows := s.at("d").Record() != ""; knows != c.knows {
				t.Errorf("%s after %s of silence, the record is known: %t", c.within, c.silent, knows)
			}
		})
	}
}
