package kept

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/blobtest"
	"etcdadm.io/internal/blob/file"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/peer"
)

// site is a few hosts in one process.
type site struct {
	record blob.Store
	mu     sync.Mutex
	own    map[cluster.HostID]blob.Store
	away   map[cluster.HostID]bool
	full   map[cluster.HostID]error
	stores map[cluster.HostID]*Store
	// fetched is called before a host copies a file. Nil: nothing is.
	fetched func(key string)
}

func newSite(hosts ...cluster.HostID) *site {
	s := &site{record: memory.New(), own: map[cluster.HostID]blob.Store{}, away: map[cluster.HostID]bool{}, full: map[cluster.HostID]error{}, stores: map[cluster.HostID]*Store{}}
	for _, h := range hosts {
		s.own[h] = memory.New()
		s.stores[h] = New(Options{
			Self: func() cluster.HostID { return h }, Record: s.record, Own: s.own[h],
			Hosts: func() []cluster.HostID { return hosts }, Voters: func() []cluster.HostID { return hosts },
			Room: func(context.Context) error { return s.full[h] },
			To:   func(to cluster.HostID) (Client, error) { return daemon{s, h, to}, nil },
		})
	}
	return s
}

func (s *site) isAway(h cluster.HostID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away[h]
}

func (s *site) turnOff(h cluster.HostID, off bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away[h] = off
}

// daemon is one of them, as another one reaches it.
type daemon struct {
	s        *site
	from, at cluster.HostID
}

func (d daemon) Keep(ctx context.Context, r peer.KeepRequest) (peer.KeepReply, error) {
	if d.s.fetched != nil && r.Object.Op == peer.ObjectFetch {
		d.s.fetched(r.Object.Key)
	}
	if d.s.isAway(d.at) {
		return peer.KeepReply{}, errors.New("unreachable")
	}
	if err := ctx.Err(); err != nil {
		return peer.KeepReply{}, err
	}
	there, cancel := context.WithCancel(context.Background()) // nothing but the end of a call crosses the network
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	ctx = there
	switch {
	case r.Object.Op == peer.ObjectFetch:
		if err := d.s.stores[d.at].Fetch(ctx, daemon{d.s, d.at, d.from}, r.Object.Key); err != nil {
			return peer.KeepReply{Object: &peer.ObjectReply{Error: err.Error()}}, nil
		}
		return peer.KeepReply{Object: new(peer.ObjectReply)}, nil
	case r.Object.Own:
		return peer.KeepReply{Object: Serve(ctx, d.s.own[d.at], *r.Object)}, nil
	}
	return peer.KeepReply{Object: Serve(ctx, d.s.stores[d.at], *r.Object)}, nil
}

func TestConformance(t *testing.T) {
	t.Run("through a daemon", func(t *testing.T) {
		blobtest.RunWith(t, blobtest.Traits{MaxObject: maxPut}, func(*testing.T) blob.Store {
			return Remote{Client: daemon{newSite("a"), "person", "a"}}
		})
	})
	t.Run("a host alone", func(t *testing.T) {
		blobtest.Run(t, func(*testing.T) blob.Store { return newSite("a").stores["a"] })
	})
}

// A backup is on a majority of the hosts or it is no backup, and any host finds it, also when one is left.
func TestBackupsAreOnAMajority(t *testing.T) {
	ctx := t.Context()
	s := newSite("a", "b", "c")
	large := bytes.Repeat([]byte("0123456789abcdef"), chunk/16*2+3)
	if _, err := s.stores["a"].Put(ctx, "backup/x", bytes.NewReader(large), blob.IfAbsent); err != nil {
		t.Fatal(err)
	}
	for _, h := range []cluster.HostID{"a", "b", "c"} {
		if _, _, err := blob.ReadAll(ctx, s.own[h], "backup/x", 1<<30); err != nil {
			t.Errorf("host %s: %v", h, err)
		}
	}
	s.turnOff("c", true)
	if _, err := s.stores["a"].Put(ctx, "backup/y", bytes.NewReader(large), blob.IfAbsent); err != nil {
		t.Errorf("two of three: %v", err)
	}
	s.turnOff("b", true)
	if _, err := s.stores["a"].Put(ctx, "backup/z", bytes.NewReader(large), blob.IfAbsent); err == nil {
		t.Error("one of three is no majority")
	}
	if _, _, err := blob.ReadAll(ctx, s.own["a"], "backup/z", 1<<30); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("a copy is left, which would be taken for the backup: %v", err)
	}
	s.turnOff("b", false)
	s.turnOff("c", false)
	s.turnOff("a", true)
	got, _, err := blob.ReadAll(ctx, s.stores["c"], "backup/y", 1<<30) // c has no copy, and b has
	if err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	list, err := s.stores["c"].List(ctx, "backup/")
	if err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	s.turnOff("b", true)
	if _, _, err := blob.ReadAll(ctx, s.stores["c"], "backup/y", 1<<30); err == nil || errors.Is(err, blob.ErrNotFound) {
		t.Errorf("unknown is not absent: %v", err)
	}
}

// What is read in pieces is of one write.
func TestPiecesAreOfOneWrite(t *testing.T) {
	ctx := t.Context()
	s := newSite("a", "b")
	put := func(fill byte) {
		if _, err := s.own["b"].Put(ctx, "backup/x", bytes.NewReader(bytes.Repeat([]byte{fill}, chunk+10)), blob.Any); err != nil {
			t.Fatal(err)
		}
	}
	put('1')
	o, err := s.stores["a"].Get(ctx, "backup/x", blob.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	put('2')
	if data, err := io.ReadAll(o.Body); err == nil {
		t.Errorf("%d bytes of two writes", len(data))
	}
}

// A host whose disk is nearly full takes no copies, and one that is to write gives none.
func TestBackupsLeaveRoom(t *testing.T) {
	ctx := t.Context()
	s := newSite("a", "b", "c")
	s.full["c"] = errors.New("the disk is nearly full")
	if _, err := s.stores["a"].Put(ctx, "backup/x", bytes.NewReader(nil), blob.IfAbsent); err != nil {
		t.Errorf("two of three have room: %v", err)
	}
	if _, err := s.stores["c"].Put(ctx, "backup/y", bytes.NewReader(nil), blob.IfAbsent); err == nil {
		t.Error("a full disk takes a backup")
	}
}

// A large object is read piece by piece without reading what comes before each piece.
func TestPiecesOfAFile(t *testing.T) {
	ctx := t.Context()
	own, err := file.Open(ctx, t.TempDir(), file.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 20*chunk/16)
	if _, err := own.Put(ctx, "backup/x", bytes.NewReader(large), blob.IfAbsent); err != nil {
		t.Fatal(err)
	}
	o, err := own.Get(ctx, "backup/x", blob.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	if _, ok := o.Body.(io.Seeker); !ok {
		t.Error("each piece reads all that is before it")
	}
	s := newSite("a", "b")
	s.own["b"] = own
	got, _, err := blob.ReadAll(ctx, s.stores["a"], "backup/x", 1<<30)
	if err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// Whoever removes what a listing lacks must not take silence for absence.
func TestWholeListNeedsMajority(t *testing.T) {
	s := newSite("a", "b", "c")
	s.turnOff("b", true)
	if _, err := s.stores["a"].List(blob.Whole(t.Context()), ""); err != nil {
		t.Errorf("with one of three silent: %v", err)
	}
	s.turnOff("c", true)
	if _, err := s.stores["a"].List(t.Context(), ""); err != nil {
		t.Errorf("in part, with two silent: %v", err)
	}
	if list, err := s.stores["a"].List(blob.Whole(t.Context()), ""); err == nil {
		t.Errorf("with two of three silent the whole list is %v", list)
	}
}

// A leader before left its words on its disk; a person gets those of the leader now, whomever they ask.
func TestPeopleGetNewestStatus(t *testing.T) {
	const status = "control/etcdadm-status.json"
	s := newSite("a", "b", "c")
	for _, h := range []cluster.HostID{"a", "b"} {
		if _, err := s.stores[h].Put(t.Context(), status, bytes.NewReader([]byte("by "+h)), blob.Any); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	get := func(h cluster.HostID, o blob.GetOptions) (string, blob.ETag, error) {
		object, err := People{s.stores[h]}.Get(t.Context(), status, o)
		if err != nil {
			return "", "", err
		}
		data, err := io.ReadAll(object.Body)
		return string(data), object.ETag, err
	}
	for _, h := range []cluster.HostID{"a", "b", "c"} {
		if text, _, err := get(h, blob.GetOptions{}); err != nil || text != "by b" {
			t.Errorf("asked at %s: %q, %v", h, text, err)
		}
	}
	_, tag, _ := get("c", blob.GetOptions{})
	if _, _, err := get("a", blob.GetOptions{IfNoneMatch: tag}); !errors.Is(err, blob.ErrNotModified) {
		t.Errorf("asked again: %v", err)
	}
	s.turnOff("b", true)
	if text, _, err := get("c", blob.GetOptions{}); err != nil || text != "by a" {
		t.Errorf("while b is silent: %q, %v", text, err)
	}
	s.turnOff("a", true)
	if _, _, err := get("c", blob.GetOptions{}); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("while both are silent: %v", err)
	}
}
