package kept

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/peer"
)

// Scheme begins the URL of such a store: hosts:///DIR is what the hosts keep of the cluster of the daemon with the data
// directory DIR on this host.
const Scheme = "hosts"

// DataDir is the data directory that a URL names, and whether it is one of this scheme.
func DataDir(url string) (string, bool) {
	dir, ok := strings.CutPrefix(url, Scheme+"://")
	return dir, ok && strings.HasPrefix(dir, "/")
}

// URL is the store of the daemon with this data directory.
func URL(dataDir string) string { return Scheme + "://" + dataDir }

const (
	// fetchTimeout bounds the copy of one backup to one other host.
	fetchTimeout = 15 * time.Minute
	control      = "control/"
)

// ofNow are objects that tell of the host that wrote them, at that moment: the leading daemon's words, and how far it saw the
// cluster come, which every host has in its state as well. Written every few seconds, they are not worth the disks of others.
var ofNow = []string{"control/etcdadm-status.json", "control/etcdadm-record.json", "discovery/"}

// Options say what a store is made of. All are required.
type Options struct {
	Self   func() cluster.HostID
	Record blob.Store // the control record
	Own    blob.Store // this host's own disk
	// Hosts are all hosts of the cluster that are known, this one too: any of them may have a backup.
	Hosts func() []cluster.HostID
	// Voters are the hosts that backups are written to.
	Voters func() []cluster.HostID
	// Room tells why no backup is to be written to this host's disk, nil if it may.
	Room func(context.Context) error
	// To is the client for a host.
	To func(cluster.HostID) (Client, error)
}

// Store implements blob.Store.
type Store struct{ opt Options }

// New makes a store.
func New(o Options) *Store { return &Store{o} }

func own(key string) bool {
	for _, prefix := range ofNow {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// place is the one store that has all of a key, nil if hosts have it.
func (s *Store) place(key string) blob.Store {
	switch {
	case own(key):
		return s.opt.Own
	case strings.HasPrefix(key, control):
		return s.opt.Record
	}
	return nil
}

// Get implements blob.Store. A backup is read from any host that has it. A whole read ([blob.Whole]) of a small file
// needs a majority of the voters to have what it gives.
func (s *Store) Get(ctx context.Context, key string, o blob.GetOptions) (*blob.Object, error) {
	if p := s.place(key); p != nil {
		return p.Get(ctx, key, o)
	}
	if blob.IsWhole(ctx) {
		return s.getWhole(ctx, key)
	}
	object, err := s.opt.Own.Get(ctx, key, o)
	if err == nil || !errors.Is(err, blob.ErrNotFound) {
		return object, err
	}
	silent := 0
	for _, h := range s.others() {
		remote, err := s.remote(h)
		if err != nil {
			silent++
			continue
		}
		object, err := remote.Get(ctx, key, o)
		if err == nil || errors.Is(err, blob.ErrNotModified) {
			return object, err
		}
		if !errors.Is(err, blob.ErrNotFound) {
			silent++
		}
	}
	if silent > 0 { // unknown is not absent
		return nil, fmt.Errorf("read %q: no host that answers has it, and %d do not answer", key, silent)
	}
	return nil, err
}

// Put implements blob.Store. A backup is written to this host's disk, and is there once a majority of the hosts have a
// copy. Where too few have one, the write failed: Put takes away the copies that it made, because any host's copy would
// be listed as a backup.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, cond blob.Condition) (blob.ETag, error) {
	if p := s.place(key); p != nil {
		return p.Put(ctx, key, body, cond)
	}
	if err := s.opt.Room(ctx); err != nil {
		return "", fmt.Errorf("write %q: %w", key, err)
	}
	tag, err := s.opt.Own.Put(ctx, key, body, cond)
	if err != nil {
		return "", err
	}
	voters := without(s.opt.Voters(), s.opt.Self())
	copies, missing := s.each(ctx, voters, fetchTimeout, func(ctx context.Context, _ cluster.HostID, r Remote) error {
		_, err := r.ask(ctx, peer.ObjectRequest{Op: peer.ObjectFetch, Key: key})
		return err
	})
	if all := len(voters) + 1; !most(copies+1, all) {
		err := fmt.Errorf("write %q: %d of %d hosts have it, and a backup needs a majority: %w", key, copies+1, all, errors.Join(missing...))
		return "", errors.Join(err, s.takeBack(ctx, key, cond, voters))
	}
	return tag, nil
}

// most reports whether so many hosts are a majority of all of them.
func most(n, all int) bool { return 2*n > all }

// takeBack removes the copies of a write that failed. This host's copy goes first, so that no late fetch finds it. A
// write over an object that may have been there before is left as it is: nothing else holds what was there.
func (s *Store) takeBack(ctx context.Context, key string, cond blob.Condition, from []cluster.HostID) error {
	if cond != blob.IfAbsent {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), otherTimeout)
	defer cancel()
	if err := s.opt.Own.Delete(ctx, key); err != nil {
		return err
	}
	s.each(ctx, from, otherTimeout, func(ctx context.Context, _ cluster.HostID, r Remote) error {
		return r.Delete(ctx, key)
	})
	return nil
}

// List implements blob.Store. What hosts that do not answer have is not in it; a whole one ([blob.Whole]) needs the answers of a
// majority of the voters, since that many have each backup.
func (s *Store) List(ctx context.Context, prefix string) ([]blob.Info, error) {
	ownList, err := s.opt.Own.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	lists := [][]blob.Info{ownList}
	if inside := strings.HasPrefix(prefix, control); inside || strings.HasPrefix(control, prefix) {
		record, err := s.opt.Record.List(ctx, prefix)
		if err != nil && inside { // who looks for backups finds them without the record too
			return nil, err
		}
		lists = append(lists, record)
	}
	if !strings.HasPrefix(prefix, control) && !own(prefix) {
		var mu sync.Mutex
		heard := map[cluster.HostID]bool{s.opt.Self(): true}
		_, silent := s.each(ctx, s.others(), otherTimeout, func(ctx context.Context, h cluster.HostID, r Remote) error {
			list, err := r.List(ctx, prefix)
			mu.Lock()
			defer mu.Unlock()
			lists = append(lists, backups(list))
			heard[h] = err == nil
			return err
		})
		if blob.IsWhole(ctx) && !majority(s.opt.Voters(), heard) {
			return nil, fmt.Errorf("list %q: fewer than a majority of the hosts that have backups answer: %w", prefix, errors.Join(silent...))
		}
	}
	out := merged(lists...)
	blob.Heard(ctx, len(out))
	return out, nil
}

func majority(of []cluster.HostID, heard map[cluster.HostID]bool) bool {
	n := 0
	for _, h := range of {
		if heard[h] {
			n++
		}
	}
	return most(n, len(of))
}

// backups leaves out what tells of another host only.
func backups(list []blob.Info) (out []blob.Info) {
	for _, i := range list {
		if !own(i.Key) && !strings.HasPrefix(i.Key, control) {
			out = append(out, i)
		}
	}
	return out
}

// Delete implements blob.Store. A host that does not answer keeps its copy of a backup until it is deleted once more.
func (s *Store) Delete(ctx context.Context, key string) error {
	if p := s.place(key); p != nil {
		return p.Delete(ctx, key)
	}
	if err := s.opt.Own.Delete(ctx, key); err != nil {
		return err
	}
	s.each(ctx, s.others(), otherTimeout, func(ctx context.Context, _ cluster.HostID, r Remote) error { return r.Delete(ctx, key) })
	return nil
}

// Fetch copies an object that another host has on its own disk to this host's, unless it has it.
func (s *Store) Fetch(ctx context.Context, from Client, key string) error {
	if own(key) || strings.HasPrefix(key, control) {
		return fmt.Errorf("%q is no backup", key)
	}
	if err := s.opt.Room(ctx); err != nil {
		return err
	}
	o, err := Remote{Client: from, Own: true}.Get(ctx, key, blob.GetOptions{})
	if err != nil {
		return err
	}
	defer o.Body.Close()
	_, err = s.opt.Own.Put(ctx, key, io.LimitReader(o.Body, o.Size), blob.Any)
	return err
}

func (s *Store) others() []cluster.HostID { return without(s.opt.Hosts(), s.opt.Self()) }

func without(hosts []cluster.HostID, self cluster.HostID) (out []cluster.HostID) {
	for _, h := range hosts {
		if h != self {
			out = append(out, h)
		}
	}
	return out
}

func (s *Store) remote(h cluster.HostID) (Remote, error) {
	c, err := s.opt.To(h)
	return Remote{Client: c, Own: true}, err
}

// each asks these hosts at once, and gives how many did it, and why the others did not.
func (s *Store) each(ctx context.Context, of []cluster.HostID, bound time.Duration, do func(context.Context, cluster.HostID, Remote) error) (done int, missing []error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, h := range of {
		all.Go(func() {
			r, err := s.remote(h)
			if err == nil {
				err = do(ctx, h, r)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done++
			} else {
				missing = append(missing, fmt.Errorf("%s: %w", h, err))
			}
		})
	}
	all.Wait()
	return done, missing
}
