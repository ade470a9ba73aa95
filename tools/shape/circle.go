package main

import (
	"maps"
	"slices"
)

// largestCircle is the size of the largest strongly connected set: R. Tarjan, Depth-first
// search and linear graph algorithms, 1972.
func largestCircle(uses map[string]map[string]bool) int {
	s := search{uses: uses, seen: map[string]int{}, low: map[string]int{}, waiting: map[string]bool{}}
	for _, file := range slices.Sorted(maps.Keys(uses)) {
		if s.seen[file] == 0 {
			s.visit(file)
		}
	}
	return s.largest
}

type search struct {
	uses    map[string]map[string]bool
	seen    map[string]int // in which order, from 1
	low     map[string]int // the earliest that is reached from it
	stack   []string
	waiting map[string]bool // is on the stack
	largest int
}

func (s *search) visit(file string) {
	s.seen[file] = len(s.seen) + 1
	s.low[file] = s.seen[file]
	s.stack = append(s.stack, file)
	s.waiting[file] = true
	for other := range s.uses[file] {
		switch {
		case s.uses[other] == nil: // generated, or a test
		case s.seen[other] == 0:
			s.visit(other)
			s.low[file] = min(s.low[file], s.low[other])
		case s.waiting[other]:
			s.low[file] = min(s.low[file], s.seen[other])
		}
	}
	if s.low[file] != s.seen[file] {
		return
	}
	from := slices.Index(s.stack, file)
	for _, f := range s.stack[from:] {
		s.waiting[f] = false
	}
	s.largest = max(s.largest, len(s.stack)-from)
	s.stack = s.stack[:from]
}
