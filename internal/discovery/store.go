package discovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"etcdadm.io/internal/blob"
)

const (
	// StoreFolder is where hosts announce themselves in the backup store. It is apart from control/, whose folders are commands.
	StoreFolder = "discovery/"
	// MaxAge is the age at which an announcement in a store is no longer believed.
	MaxAge = 24 * time.Hour
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
	s.mu.Lock()
	defer s.mu.Unlock()
	var seeds []Seed
	var errs []error
	seen := make(map[string]announcement, len(infos))
	for i, info := range infos {
		name := strings.TrimPrefix(info.Key, StoreFolder)
		if strings.Contains(name, "/") || strings.HasPrefix(name, ".") {
			continue
		}
		if i >= maxFiles {
			errs = append(errs, fmt.Errorf("there are more than %d announcements; the rest is passed over", maxFiles))
			break
		}
		a, err := s.read(ctx, info.Key, name)
		if errors.Is(err, blob.ErrNotFound) {
			continue // gone since the listing
		} else if err != nil {
			errs = append(errs, fmt.Errorf("announcement %q: %w", name, err))
			// What was read before is better than nothing.
			if a = s.seen[info.Key]; a.tag == "" {
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
	s.seen = seen
	return tidy(seeds), errors.Join(errs...)
}

// read reads one entry unless it is as it was. The caller holds s.mu.
func (s *Store) read(ctx context.Context, key, name string) (announcement, error) {
	old := s.seen[key]
	data, tag, err := blob.ReadAllIfChanged(ctx, s.store, key, old.tag, maxEntry)
	if errors.Is(err, blob.ErrNotModified) {
		return old, nil
	} else if err != nil {
		return announcement{}, err
	}
	a := announcement{tag: tag}
	a.seeds, a.at, a.err = parseEntry(name, data, s.defaultPort)
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
