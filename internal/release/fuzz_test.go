package release

import (
	"strings"
	"testing"
)

// FuzzSums: a publisher's list gives nothing but sums, whatever it is.
func FuzzSums(f *testing.F) {
	for _, seed := range []string{"", "abc  etcd.tar.gz\n", "abc *etcd.tar.gz", "\x00 \x00", "a b c\n\n  d", strings.Repeat("a", 64) + " *etcd.tar.gz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, sum := range parseSums(text) {
			if !isSum(sum) || strings.ContainsAny(name, " \t\r\n") {
				t.Errorf("%q has the sum %q", name, sum)
			}
		}
		_ = parse(text)
	})
}
