// Package testlater makes JSON as a later release might write it.
package testlater

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Field is the field that only a later release knows.
const Field = "laterField"

// Forms are the JSON forms of a value in which one object has a Field more, by the path of that
// object: one form for each object whose path has within in it; "": for each. Numbers may lose
// what a float does not hold.
func Forms(t testing.TB, value any, within string) map[string][]byte {
	t.Helper()
	var parsed any
	whole, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(whole, &parsed)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	var walk func(at any, path string)
	walk = func(at any, path string) {
		switch at := at.(type) {
		case map[string]any:
			if strings.Contains(path+"/", within) {
				at[Field] = []string{"of", "a later release"}
				form, err := json.Marshal(parsed)
				if err != nil {
					t.Fatal(err)
				}
				out[path] = form
				delete(at, Field)
			}
			for _, name := range slices.Sorted(maps.Keys(at)) {
				walk(at[name], path+"/"+name)
			}
		case []any:
			for i, v := range at {
				walk(v, fmt.Sprintf("%s/%d", path, i))
			}
		}
	}
	walk(parsed, "")
	if len(out) == 0 {
		t.Fatalf("%T has no object within %q", value, within)
	}
	return out
}
