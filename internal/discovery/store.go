package discovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"etcdadm.io/internal/blob"
)

const (
	// StoreFolder is where hosts announce themselves in the backup store. It is apart from control/, whose folders are commands.
	StoreFolder = "discovery/"
	// MaxAge is the age at which an announcement in a store is no longer believed.
	MaxAge = 24 * time.Hour

	// entryTimeout is what the store has for one announcement. A slow one takes a second or two; those that it is silent about leave
	// more than half of SourceTimeout for the others.
	entryTimeout = 4 * time.Second
	// readTogether announcements are read at a time: those of most clusters at once, and more than a driver keeps connections for.
	readTogether = 8
)

// Store finds the hosts that announced themselves in an object store. An entry holds the time of its last renewal; those older than
// MaxAge are passed over, and left where they are: only a host itself can know that it is gone for good. Use NewStore.
type Store struct {
	store       blob.Store
	defaultPort int

	mu   sync.Mutex // guards seen
	seen map[string]announcement
}

// announcement is an entry as it was last read, so that it is not transferred again until it changes.
type announcement struct {
	tag   blob.ETag
	seeds []Seed
	at    time.Time // zero if the entry does not say
	err   error     // about a part of it, or all
}

// NewStore finds seeds in the folder StoreFolder of a store. The default port is for endpoints without one.
func NewStore(store blob.Store, defaultPort int) *Store {
	return &Store{store: store, defaultPort: defaultPort, seen: map[string]announcement{}}
}

// Seeds implements Seeds.
func (s *Store) Seeds(ctx context.Context) ([]Seed, error) {
	infos, err := s.store.List(ctx, StoreFolder)
	if err != nil {
		return nil, fmt.Errorf("list announcements: %w", err)
	}
	var entries []blob.Info
	var errs []error
	for i, info := range infos {
		if name := nameIn(info); strings.Contains(name, "/") || strings.HasPrefix(name, ".") {
			continue
		}
		if i >= maxFiles {
			errs = append(errs, fmt.Errorf("there are more than %d announcements; the rest is passed over", maxFiles))
			break
		}
		entries = append(entries, info)
	}
	s.mu.Lock()
	before := s.seen
	s.mu.Unlock()
	read, failed := s.readAll(ctx, entries, before)
	var seeds []Seed
	seen := make(map[string]announcement, len(entries))
	for i, info := range entries {
		a, name := read[i], nameIn(info)
		if err := failed[i]; errors.Is(err, blob.ErrNotFound) {
			continue // gone since the listing
		} else if err != nil {
			errs = append(errs, fmt.Errorf("announcement %q: %w", name, err))
			// What was read before is better than nothing.
			if a = before[info.Key]; a.tag == "" {
				continue
			}
		}
		seen[info.Key] = a
		at := a.at
		if at.IsZero() {
			at = info.Modified
		}
		if time.Since(at) > MaxAge {
			continue
		}
		if a.err != nil {
			errs = append(errs, fmt.Errorf("announcement %q is passed over: %w", name, a.err))
		}
		seeds = append(seeds, a.seeds...)
	}
	s.mu.Lock()
	s.seen = seen
	s.mu.Unlock()
	return tidy(seeds), errors.Join(errs...)
}

func nameIn(info blob.Info) string { return strings.TrimPrefix(info.Key, StoreFolder) }

// readAll reads entries beside each other, each with an outcome of its own: a store may take a second or two for an object, and one
// that is silent about an object hides no other.
func (s *Store) readAll(ctx context.Context, entries []blob.Info, before map[string]announcement) ([]announcement, []error) {
	read, failed := make([]announcement, len(entries)), make([]error, len(entries))
	var all errgroup.Group
	all.SetLimit(readTogether)
	for i, info := range entries {
		all.Go(func() error {
			read[i], failed[i] = s.read(ctx, info, before[info.Key])
			return nil
		})
	}
	_ = all.Wait() // each failure is its entry's
	return read, failed
}

// read reads one entry unless it is as it was.
func (s *Store) read(ctx context.Context, info blob.Info, old announcement) (announcement, error) {
	ctx, cancel := context.WithTimeout(ctx, entryTimeout)
	defer cancel()
	data, tag, err := blob.ReadAllIfChanged(ctx, s.store, info.Key, old.tag, maxEntry)
	if errors.Is(err, blob.ErrNotModified) {
		return old, nil
	} else if err != nil {
		return announcement{}, err
	}
	a := announcement{tag: tag}
	a.seeds, a.at, a.err = parseEntry(nameIn(info), data, s.defaultPort)
	return a, nil
}

// Announce implements Announcer. The entry is renewed when it is not there, says something else, or has reached a quarter of MaxAge;
// so it has to be called at least every few hours.
func (s *Store) Announce(ctx context.Context, self Seed) error {
	if err := s.announce(ctx, self); err != nil {
		return fmt.Errorf("announce in store: %w", err)
	}
	return nil
}

// Retract takes back the announcement of a host that is gone for good. One that
// is not there is no error.
func (s *Store) Retract(ctx context.Context, id string) error {
	err := s.store.Delete(ctx, StoreFolder+nameOf(id))
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("take back the announcement of %s: %w", id, err)
	}
	return nil
}

func (s *Store) announce(ctx context.Context, self Seed) error {
	now := time.Now()
	data, err := formatEntry(self, now)
	if err != nil {
		return err
	}
	name := nameOf(self.ID)
	old, _, err := blob.ReadAll(ctx, s.store, StoreFolder+name, maxEntry)
	switch {
	case err == nil:
		seeds, at, err := parseEntry(name, old, 0)
		age := now.Sub(at)
		checked, _ := ParseEndpoint(self.Endpoint, 0)
		if err == nil && len(seeds) == 1 && seeds[0] == (Seed{self.ID, checked}) && age >= 0 && age < MaxAge/4 {
			return nil
		}
	case !errors.Is(err, blob.ErrNotFound) && !errors.Is(err, blob.ErrTooLarge):
		return err
	}
	// Only this host writes this entry, so no condition is needed: the last write is the latest word.
	_, err = blob.PutBytes(ctx, s.store, StoreFolder+name, data, blob.Any)
	return err
}
