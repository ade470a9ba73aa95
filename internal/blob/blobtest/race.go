package blobtest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"etcdadm.io/internal/blob"
)

const (
	writers = 16
	rounds  = 50
)

// together runs a function in as many goroutines as there are writers, and gives their errors.
func together(n int, do func(i int) error) error {
	errs := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = do(i)
		})
	}
	close(start)
	all.Wait()
	return errors.Join(errs...)
}

// race lets all writers write to one key under one condition, and tells who won. It fails unless exactly one did.
func (s *suite) race(key string, cond blob.Condition, content func(i int) string) (winner int, tag blob.ETag) {
	s.Helper()
	var mu sync.Mutex // guards winners, tag
	var winners []int
	err := together(writers, func(i int) error {
		got, err := blob.PutBytes(s.ctx, s.store, key, []byte(content(i)), cond)
		if errors.Is(err, blob.ErrPreconditionFailed) {
			return nil
		} else if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		winners, tag = append(winners, i), got
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	if len(winners) != 1 {
		s.Fatalf("%q under %q was won by %v, want exactly one winner", key, cond, winners)
	}
	return winners[0], tag
}

func (s *suite) raceCreate() {
	for round := range rounds {
		key := fmt.Sprintf("race/%d/marker", round)
		content := func(i int) string { return fmt.Sprintf("founded by %d", i) }
		winner, tag := s.race(key, blob.IfAbsent, content)
		if got := s.want(key, content(winner)); got != tag {
			s.Fatalf("the object has ETag %q, its writer was told %q", got, tag)
		}
	}
}

func (s *suite) raceUpdate() {
	tag := s.put("marker", "start", blob.IfAbsent)
	for round := range rounds {
		content := func(i int) string { return fmt.Sprintf("round %d by %d", round, i) }
		var winner int
		winner, tag = s.race("marker", blob.IfMatch(tag), content)
		if got := s.want("marker", content(winner)); got != tag {
			s.Fatalf("the object has ETag %q, its writer was told %q", got, tag)
		}
	}
	if s.traits.ContentTags {
		return
	}
	// The same bytes each time: a winner is still the only one.
	for range rounds / 5 {
		_, tag = s.race("marker", blob.IfMatch(tag), func(i int) string { return fmt.Sprintf("by %d", i) })
	}
}

// raceCount lets every writer add to a counter, by reading it and writing it back if it is unchanged.
func (s *suite) raceCount() {
	const each = 8
	s.put("counter", "0", blob.IfAbsent)
	err := together(writers, func(int) error {
		for done := 0; done < each; {
			data, tag, err := blob.ReadAll(s.ctx, s.store, "counter", 100)
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(data))
			if err != nil {
				return err
			}
			_, err = blob.PutBytes(s.ctx, s.store, "counter", []byte(strconv.Itoa(n+1)), blob.IfMatch(tag))
			if errors.Is(err, blob.ErrPreconditionFailed) {
				continue
			} else if err != nil {
				return err
			}
			done++
		}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	s.want("counter", strconv.Itoa(writers*each))
}

// raceRead reads an object of changing size and content all the time while it is rewritten.
func (s *suite) raceRead() {
	version := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), 1000+i*977) }
	s.put("object", version(0), blob.Any)
	stop := make(chan struct{})
	err := together(4, func(i int) error {
		if i == 0 {
			defer close(stop)
			for n := range rounds {
				if _, err := blob.PutBytes(s.ctx, s.store, "object", []byte(version(n)), blob.Any); err != nil {
					return err
				}
			}
			return nil
		}
		for {
			select {
			case <-stop:
				return nil
			default:
			}
			data, _, err := blob.ReadAll(s.ctx, s.store, "object", 1<<20)
			if err != nil {
				return err
			}
			if n := (len(data) - 1000) / 977; string(data) != version(n) {
				return fmt.Errorf("saw %d bytes beginning with %.20q and ending with %q: no version is like that", len(data), data, data[len(data)-1:])
			}
		}
	})
	if err != nil {
		s.Fatal(err)
	}
}

// raceFolder creates and deletes objects in one folder at once, so that in a directory tree the folder comes and goes.
func (s *suite) raceFolder() {
	err := together(8, func(i int) error {
		key := fmt.Sprintf("folder/below/%d", i)
		for range rounds / 2 {
			if _, err := blob.PutBytes(s.ctx, s.store, key, []byte(key), blob.IfAbsent); err != nil {
				return err
			}
			if _, err := s.store.List(s.ctx, "folder/"); err != nil {
				return err
			}
			if data, _, err := blob.ReadAll(s.ctx, s.store, key, 100); err != nil || string(data) != key {
				return fmt.Errorf("read %q: %q, %w", key, data, err)
			}
			if err := s.store.Delete(s.ctx, key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	if got := s.keys(""); len(got) != 0 {
		s.Errorf("the store holds %q", got)
	}
}
