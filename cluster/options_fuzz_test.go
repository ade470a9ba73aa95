package cluster

import (
	"slices"
	"strings"
	"testing"
)

// FuzzOptions: what is accepted is one argument, and is accepted again as it is
// spelled; what fits a member is accepted, whatever was left out.
func FuzzOptions(f *testing.F) {
	for _, o := range Options() {
		f.Add(o.Name, "1", uint8(6))
		f.Add(prefix+o.Name, "8GiB", uint8(5))
	}
	f.Add("feature-gates", "CompactHashCheck=true,X=false,=,", uint8(6))
	f.Add("quota-backend-bytes", "9223372036854775807GiB", uint8(7))
	f.Add("snapshot-count", "1\n--force-new-cluster", uint8(4))
	f.Fuzz(func(t *testing.T, name, value string, minor uint8) {
		v := Version{3, int(minor%8) + 2, 5}
		given := map[string]string{name: value}
		settings, err := CheckOptions(given, v)
		if err != nil && err.Error() == "" {
			t.Fatal("an error without words")
		}
		if err == nil {
			again := map[string]string{}
			for _, s := range settings {
				if strings.ContainsAny(s.String(), "\n\x00") {
					t.Fatalf("%q is no argument", s)
				}
				again[s.Flag] = s.Value
			}
			if second, err := CheckOptions(again, v); err != nil || !slices.Equal(settings, second) {
				t.Fatalf("%v became %v, %v", settings, second, err)
			}
		}
		fit, left := FitOptions(given, v)
		if err == nil && (len(left) > 0 || !slices.Equal(fit, settings)) {
			t.Fatalf("%v fits, and %v, %v were made of it", settings, fit, left)
		}
	})
}
