package runtime

import "testing"

// FuzzStat: a process may call itself anything.
func FuzzStat(f *testing.F) {
	f.Add([]byte("1 (etcd) S 0 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0"))
	f.Add([]byte("1 (a) R (b) S 0 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 12345"))
	f.Add([]byte(") ("))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := parseStat(data); err == nil && s.state == 0 {
			t.Fatalf("%q has no state", data)
		}
	})
}
