package moving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/blob/memory"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
)

// bubble runs a test of a world in virtual time.
func bubble(t *testing.T, do func(t *testing.T, w *world, a *life)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, err := w.living("a")
		if err != nil {
			t.Fatal(err)
		}
		do(t, w, a)
		w.end()
	})
}

func to(name string) peer.MoveRequest { return peer.MoveRequest{Name: name, URL: "s3://bucket/folder"} }

// What stands in the way of a move is said before anything is sealed, and the next move comes through once it is gone.
func TestMoveIsRefused(t *testing.T) {
	const (
		command = control.Prefix + "2026-11-20T23:14:17Z-000001/_command.json"
		beside  = control.Prefix + "2026-11-20T23:14:17Z-000001/_etcdadm.json"
	)
	for name, c := range map[string]struct {
		hinder func(w *world, a *life) (undo func())
		says   string
	}{
		"a command": {func(w *world, a *life) func() {
			for _, key := range []string{beside, command} {
				if _, err := blob.PutBytes(w.t.Context(), a.record, key, []byte("{}"), blob.Any); err != nil {
					w.t.Error(err)
				}
			}
			return func() { _ = a.record.Delete(w.t.Context(), command) } // what lies beside none is no command
		}, "a command is in the queue"},
		"a host that is away": {func(w *world, _ *life) func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			c := w.all["c"]
			c.life.end()
			c.life = nil
			return func() { w.start("c") }
		}, "etcdadm host forget c"},
		"an intent that only a host has": {func(w *world, _ *life) func() {
			b, _ := w.living("b")
			was := b.Intent
			b.Intent = func(context.Context) (*cluster.Intent, error) { return &cluster.Intent{Generation: 2, Write: 9}, nil }
			return func() { b.Intent = was }
		}, "a newer intent"},
		"a store of its own": {func(w *world, _ *life) func() {
			b, _ := w.living("b")
			was := b.Open
			b.Open = func(context.Context, peer.Offer) (blob.Store, error) { return memory.New(), nil }
			return func() { b.Open = was }
		}, "it is not the store"},
		"a host that came": {func(_ *world, a *life) func() {
			was, n := a.mover.Hosts, 0
			a.mover.Hosts = func() []cluster.HostID {
				if n++; n > 1 {
					return append(was(), "d")
				}
				return was()
			}
			return func() { a.mover.Hosts = was }
		}, "host d came meanwhile"},
		"hosts that take their time": {func(_ *world, a *life) func() {
			was := a.mover.Offer
			a.mover.Offer = func(ctx context.Context, h cluster.HostID, o peer.Offer) (peer.OfferReply, error) {
				reply, err := was(ctx, h, o)
				time.Sleep(2 * time.Minute)
				return reply, err
			}
			return func() { a.mover.Offer = was }
		}, "it took too long"},
		"another leader": {func(_ *world, a *life) func() {
			was, n := a.mover.Leads, 0
			a.mover.Leads = func() error {
				if n++; n > 2 {
					return errors.New("this daemon does not lead")
				}
				return was()
			}
			return func() { a.mover.Leads = was }
		}, "does not lead"},
		"another mover": {func(w *world, a *life) func() {
			b, _ := w.living("b")
			was, once := a.mover.Offer, false
			a.mover.Offer = func(ctx context.Context, h cluster.HostID, o peer.Offer) (peer.OfferReply, error) {
				reply, err := was(ctx, h, o)
				if h == "c" && !once {
					once = true
					later := o
					later.Name = "N2"
					if doc, failed := b.mover.announce(ctx, later); failed != nil {
						w.t.Error(failed)
					} else if later.At = doc.Version; later.At <= o.At {
						w.t.Errorf("announced at %d after %d", later.At, o.At)
					}
				}
				return reply, err
			}
			return func() { a.mover.Offer = was }
		}, "another move began"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world, a *life) {
				undo := c.hinder(w, a)
				if err := a.mover.Move(t.Context(), to("N1")); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v", err)
				}
				if doc, err := a.record.Decide(t.Context()); err != nil || doc.Moved != nil {
					t.Errorf("%+v %v", doc, err)
				}
				undo()
				if err := a.mover.Move(t.Context(), to("N3")); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				if left, err := w.store.List(t.Context(), beside); !w.settled() || err != nil || len(left) != 0 {
					t.Errorf("not all hosts are there, or half a command came along: %+v, %v", left, err)
				}
			})
		})
	}
}

// A recovery beside a move that was offered: of the two one comes true, and what is not known is refused.
func TestRecoverBesideAMove(t *testing.T) {
	offered := func(t *testing.T, a *life) {
		t.Helper()
		a.mover.Hosts = func() []cluster.HostID { return []cluster.HostID{"a", "b", "c", "gone"} }
		if err := a.mover.Move(t.Context(), to("N1")); err == nil {
			t.Fatal("moved without a host")
		}
	}
	t.Run("a claim", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world, a *life) {
			offered(t, a)
			done, why := a.BeforeAgain(t.Context(), "x", true)
			done()
			if why != "" || state(t, w.store) != "claim" {
				t.Errorf("a dry run: %q, %s", why, state(t, w.store))
			}
			done, why = a.BeforeAgain(t.Context(), "x", false)
			if why != "" || state(t, w.store) != "void" {
				t.Errorf("%q, %s", why, state(t, w.store))
			}
			if r := a.Take(t.Context(), peer.Offer{Name: "N2", From: a.Record(), At: 99, URL: "s3://bucket/folder"}); !strings.Contains(r.Refused, "made again") {
				t.Errorf("%+v", r)
			}
			done()
			a.mover.Hosts = func() []cluster.HostID { return []cluster.HostID{"a", "b", "c"} }
			if err := a.mover.Move(t.Context(), to("N3")); !errors.Is(err, ErrTaken) {
				t.Errorf("the record of before moves to a void: %v", err)
			}
		})
	})
	t.Run("in force", func(t *testing.T) {
		bubble(t, func(t *testing.T, _ *world, a *life) {
			offered(t, a)
			c := claimOf("N1")
			c.From = a.Record()
			doc, err := a.record.Decide(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			sealed, err := doc.Sealed(movedTo("N1"))
			if err != nil {
				t.Fatal(err)
			}
			if err := Finish(t.Context(), sealed, "c", a.w.store); err != nil { // by hosts that this one does not hear
				t.Fatal(err)
			}
			if _, why := a.BeforeAgain(t.Context(), "x", false); !strings.Contains(why, "in force there") {
				t.Error(why)
			}
			time.Sleep(time.Minute)
			if p := a.File.Notes().Place; p == nil || p.Name != "N1" {
				t.Errorf("it does not follow: %+v", p)
			}
		})
	})
	t.Run("silent", func(t *testing.T) {
		bubble(t, func(t *testing.T, _ *world, a *life) {
			offered(t, a)
			a.Open = func(context.Context, peer.Offer) (blob.Store, error) { return nil, errors.New("silent") }
			if _, why := a.BeforeAgain(t.Context(), "x", false); !strings.Contains(why, "not known") {
				t.Error(why)
			}
		})
	})
	t.Run("emptied", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world, a *life) {
			offered(t, a)
			if err := w.store.Delete(t.Context(), control.KeyIntent); err != nil {
				t.Fatal(err)
			}
			if _, why := a.BeforeAgain(t.Context(), "x", false); why != "" || state(t, w.store) != "void" {
				t.Errorf("%q, %s", why, state(t, w.store))
			}
		})
	})
}

// An offer of an earlier move does not take the place of a later one, and one of which nothing came goes after a day.
func TestOffersOfEarlierMoves(t *testing.T) {
	bubble(t, func(t *testing.T, _ *world, a *life) {
		a.mover.Hosts = func() []cluster.HostID { return []cluster.HostID{"a", "b", "c", "gone"} }
		if err := a.mover.Move(t.Context(), to("N1")); err == nil {
			t.Fatal("moved without a host")
		}
		o := a.File.Notes().Offer
		late := o.Offer
		late.At--
		if r := a.Take(t.Context(), late); r.Refused == "" || a.File.Notes().Offer.At != o.At {
			t.Errorf("%+v", r)
		}
		time.Sleep(time.Minute)
		if a.File.Notes().Offer == nil {
			t.Error("it is gone before its time")
		}
		old := *o
		old.Taken = time.Now().Add(-offerLasts - time.Second)
		if err := a.File.take(old); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if a.File.Notes().Offer != nil {
			t.Error("the secrets of a move that came to nothing stay")
		}
	})
}

// A host that has no offer, and hears of the seal, says so and changes nothing.
func TestHostWithoutAnOffer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, a *life) {
		w.mu.Lock()
		old := map[string][]byte{}
		for path, data := range w.all["c"].files {
			old[path] = data
		}
		w.mu.Unlock()
		if err := a.mover.Move(t.Context(), to("N1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.mu.Lock()
		w.all["c"].files = old
		w.mu.Unlock()
		c := w.start("c")
		if _, err := c.record.Document(t.Context()); err != nil { // as its daemon reads it
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if p := c.Problems(); len(p) != 1 || p[0].Code != "record-moved" || !strings.Contains(p[0].Sentence, "s3://bucket/folder") {
			t.Errorf("%+v", p)
		}
		if _, err := blob.PutBytes(t.Context(), c.record, keySpec, []byte("x"), blob.Any); err == nil {
			t.Error("it writes on")
		}
	})
}

// Until the record was seen in its place, nothing is read or written there.
func TestGate(t *testing.T) {
	open := false
	store := memory.New()
	g := Gate(store, func() bool { return open })
	all := func() (errs []error) {
		_, err := g.Put(t.Context(), "k", strings.NewReader("v"), blob.Any)
		errs = append(errs, err)
		_, err = g.Get(t.Context(), "k", blob.GetOptions{})
		errs = append(errs, err)
		_, err = g.List(t.Context(), "")
		return append(errs, err, g.Delete(t.Context(), "k"))
	}
	for _, err := range all() {
		if !errors.Is(err, ErrOnItsWay) || errors.Is(err, blob.ErrNotFound) {
			t.Error(err)
		}
	}
	open = true
	for i, err := range all() {
		if err != nil {
			t.Error(fmt.Sprint(i), err)
		}
	}
}

// Notes that cannot be read are not taken for none.
func TestNotesOfALaterRelease(t *testing.T) {
	dir := t.TempDir()
	if n, err := ReadNotes(dir); err != nil || n.Place != nil {
		t.Error(n, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "etcdadm"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"format":2}`, `{"secret`, ""} {
		if err := os.WriteFile(filepath.Join(dir, "etcdadm", FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadNotes(dir); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What lies in the store when a host arrives is the record that was moved there, or one that goes on from what the host keeps; another
// cluster's of the same name is neither.
func TestWhoseRecordIsThere(t *testing.T) {
	for name, c := range map[string]struct {
		nonce string
		ours  bool
	}{"written anew from what hosts remember": {"n", true}, "another cluster's": {"other", false}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world, a *life) {
				c1, _ := w.living("c")
				c1.Open = func(context.Context, peer.Offer) (blob.Store, error) { return nil, errors.New("silent") }
				was := a.mover.Offer
				a.mover.Offer = func(ctx context.Context, h cluster.HostID, o peer.Offer) (peer.OfferReply, error) {
					if h == "c" {
						return peer.OfferReply{}, c1.File.take(Place{Offer: o, Taken: time.Now()})
					}
					return was(ctx, h, o)
				}
				if err := a.mover.Move(t.Context(), to("N1")); err != nil {
					t.Fatal(err)
				}
				if err := w.store.Delete(t.Context(), keyPlace); err != nil {
					t.Fatal(err)
				}
				intent, err := json.Marshal(cluster.Intent{Name: "c", Generation: 2, Nonce: c.nonce, Token: "t", Write: 20, State: cluster.IntentFounded})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := blob.PutBytes(t.Context(), w.store, control.KeyIntent, intent, blob.Any); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute) // c has followed its record's seal, and begun anew where the store answers
				l, err := w.living("c")
				if err != nil {
					t.Fatal(err)
				}
				p := l.File.Notes().Place
				if p == nil || p.InForce != c.ours || (len(l.Problems()) > 0) == c.ours {
					t.Errorf("%+v %+v", p, l.Problems())
				}
			})
		})
	}
}

// A host that missed the seal and followed keeps it all the same: with a host from an image of before the offer it makes no majority in
// which the record goes on.
func TestWhoFollowedDoesNotGoBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, a *life) {
		w.mu.Lock()
		image := maps.Clone(w.all["b"].files)
		w.misses = "a"
		w.mu.Unlock()
		c, _ := w.living("c")
		if err := c.mover.Move(t.Context(), to("N1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if !w.settled() {
			t.Fatal("not all hosts are there")
		}
		w.mu.Lock()
		w.misses = ""
		w.all["c"].life = nil
		w.all["b"].files = image
		w.mu.Unlock()
		w.start("a") // from its disk
		b := w.start("b")
		if _, err := blob.PutBytes(t.Context(), b.record, keySpec, []byte("x"), blob.Any); !errors.Is(err, register.ErrMoved) {
			t.Errorf("the record goes on: %v", err)
		}
	})
}

// A host that goes on from a seal on a person's word brings the record by itself, also after its daemon began anew.
func TestWhoGoesAnywayBringsTheRecord(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, a *life) {
		a.mover.Hosts = func() []cluster.HostID { return []cluster.HostID{"a", "b", "c", "gone"} }
		if err := a.mover.Move(t.Context(), to("N1")); err == nil {
			t.Fatal("moved without a host")
		}
		kept, err := a.keeper.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last := kept.Newest()
		if last.Doc, err = last.Doc.Sealed(movedTo("N1")); err != nil {
			t.Fatal(err)
		}
		last.Ballot.Number++ // b accepted it, and told a of it; c and b are lost
		w.mu.Lock()
		w.all["b"].life, w.all["c"].life = nil, nil
		w.mu.Unlock()
		if why := a.GoAnyway(t.Context(), last, false); why != "" {
			t.Fatal(why)
		}
		time.Sleep(time.Minute)
		now, err := w.living("a")
		if err != nil {
			t.Fatal(err)
		}
		if p := now.File.Notes().Place; p == nil || !p.InForce || state(t, w.store) != "counts" {
			t.Errorf("%+v", p)
		}
	})
}

// A recovery puts its void and ends; the others had sealed the record. Nothing counts, and a person has the claim put again: not before it is
// known that the recovery came to nothing, and over nothing else.
func TestReclaim(t *testing.T) {
	for name, emptied := range map[string]bool{"a void": false, "an emptied store": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world, a *life) {
				b, _ := w.living("b")
				was := b.mover.Record
				b.mover.Record = sealsLate{was, func() {
					switch {
					case emptied:
						if err := w.store.Delete(t.Context(), control.KeyIntent); err != nil {
							t.Error(err)
						}
					default:
						done, why := a.BeforeAgain(t.Context(), "x", false)
						if done(); why != "" {
							t.Error(why)
						}
					}
				}}
				if err := b.mover.Move(t.Context(), to("N1")); !errors.Is(err, ErrSealed) {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if w.settled() || state(t, w.store) == "counts" {
					t.Fatal("it is there")
				}
				c, err := w.living("c")
				if err != nil {
					t.Fatal(err)
				}
				if wait, err := c.Reclaim(t.Context(), "s3://other/folder", "y", false); err == nil || wait {
					t.Error("another store is claimed")
				}
				if wait, err := c.Reclaim(t.Context(), "s3://bucket/folder", "y", true); err != nil || wait || state(t, w.store) == "claim" {
					t.Errorf("a dry run: %v %v", wait, err)
				}
				if wait, err := c.Reclaim(t.Context(), "s3://bucket/folder", "y", false); err != nil || !wait || state(t, w.store) == "claim" {
					t.Errorf("at once: %v %v", wait, err)
				}
				time.Sleep(reclaimAfter)
				if wait, err := c.Reclaim(t.Context(), "s3://bucket/folder", "y", false); err != nil || wait {
					t.Errorf("later: %v %v", wait, err)
				}
				time.Sleep(time.Minute)
				if !w.settled() || state(t, w.store) != "counts" {
					t.Error("the record does not come there")
				}
			})
		})
	}
}

// sealsLate does something right before the seal.
type sealsLate struct {
	Record
	before func()
}

func (r sealsLate) Seal(ctx context.Context, seen *register.Document, m register.Moved) (*register.Document, error) {
	r.before()
	return r.Record.Seal(ctx, seen, m)
}

// A host that has followed, and cannot reach its place for a minute, says so and how credentials are given; by a person's newer ones it
// arrives.
func TestOtherCredentialsOnTheWay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, a *life) {
		w.mu.Lock()
		w.revoked = "c"
		w.mu.Unlock()
		if err := a.mover.Move(t.Context(), to("N1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		c, err := w.living("c")
		if err != nil {
			t.Fatal(err)
		}
		if p := c.Problems(); len(p) != 1 || !strings.Contains(p[0].Sentence, "ETCDADM_BACKUP_STORE") {
			t.Errorf("%+v", p)
		}
		w.mu.Lock()
		w.newer = "c"
		w.mu.Unlock()
		time.Sleep(5 * time.Second)
		if !w.settled() || len(c.Problems()) > 0 {
			t.Errorf("%+v", c.Problems())
		}
	})
}

// Another place in the store is not this host's, though its record has the same history.
func TestAnotherPlaceIsNotOurs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world, a *life) {
		w.mu.Lock()
		w.revoked = "c"
		w.mu.Unlock()
		if err := a.mover.Move(t.Context(), to("N1")); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(place{Cluster: "c", Name: "N2", From: "made-again"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := blob.PutBytes(t.Context(), w.store, keyPlace, data, blob.Any); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.mu.Lock()
		w.revoked = ""
		w.mu.Unlock()
		time.Sleep(10 * time.Second)
		c, err := w.living("c")
		if err != nil {
			t.Fatal(err)
		}
		if c.File.Notes().Place.InForce || len(c.Problems()) != 1 {
			t.Errorf("%+v", c.Problems())
		}
	})
}
