package cluster

import (
	"slices"
	"strings"
)

// meant names the option that is likely meant by a name that nobody has.
func meant(written string) string {
	name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(strings.TrimLeft(written, "-"), prefix), "_", "-"))
	bare := func(s string) string { return strings.ReplaceAll(s, "-", "") }
	best, least := "", min(4, max(1, len(name)/3)+1) // more letters apart is another word
	for _, o := range options {
		if !o.Settable() {
			continue
		}
		if bare(o.Name) == bare(name) || len(name) > 3 && strings.HasPrefix(o.Name, name) {
			return "; is " + o.Name + " meant?"
		}
		if d := distance(name, o.Name); d < least {
			best, least = o.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return "; is " + best + " meant?"
}

// distance is how many letters have to be put in, left out or changed to make b
// of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = slices.Min([]int{change, row[j] + 1, row[j+1] + 1})
		}
	}
	return row[len(b)]
}
