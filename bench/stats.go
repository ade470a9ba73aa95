package main

import (
	"errors"
	"slices"
)

// result is one row with its samples.
type result struct {
	measure string
	row     row
	hand    []float64
	ours    []float64
	samples map[string][]sample
	failed  int // runs that gave no value
}

func sumUp(name string, r row, i int, hand, ours []sample) result {
	out := result{measure: name, row: r, samples: map[string][]sample{"hand": hand, "ours": ours}}
	for _, s := range []struct {
		from []sample
		to   *[]float64
	}{{hand, &out.hand}, {ours, &out.ours}} {
		for _, x := range s.from {
			if x.Err != "" {
				out.failed++
				continue
			}
			*s.to = append(*s.to, x.Values[i])
		}
		slices.Sort(*s.to)
	}
	return out
}

// median of sorted values.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	half := len(v) / 2
	if len(v)%2 == 1 {
		return v[half]
	}
	return (v[half-1] + v[half]) / 2
}

// verdict compares the medians with the target.
func (r result) verdict() string {
	switch {
	case len(r.ours) == 0 || r.row.target.byHand && len(r.hand) == 0:
		return "NO VALUE"
	case median(r.ours) > r.row.target.limit(median(r.hand)):
		return "MISS"
	}
	return "pass"
}

func anyMissed(results []result) bool {
	return slices.ContainsFunc(results, func(r result) bool { return r.verdict() != "pass" })
}

// anyFailed is an error when runs gave no value: a table of the others alone
// would look better than things are.
func anyFailed(results []result) error {
	if slices.ContainsFunc(results, func(r result) bool { return r.failed > 0 }) {
		return errors.New("some runs failed")
	}
	return nil
}
